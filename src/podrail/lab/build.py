"""Builds the lab's image once per recipe, and finds it in the cache ever after."""

from __future__ import annotations

import getpass
import json
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from podrail.lab import cache, payload, recipe, rootfs
from podrail.lab.fetch import Apt, fetch, forget_others, local_repository
from podrail.lab.mirror import debian_mirror
from podrail.lab.payload import build_podrail
from podrail.lab.programs import Logged, ProgramFailed, Programs
from podrail.lab.qemu import Image
from podrail.model.errors import Refused
from podrail.model.progress import Meter, Progress, Report

__all__ = ["Progress", "build_podrail", "ensure_image"]

SPACE_MB = 4000
_WORK_MB = 2000
# Seconds on a small machine; replaced by what the last build here took.
USUAL = {"lists": 6.0, "packages": 15.0, "wheels": 4.0, "install": 50.0, "disk": 5.0}


def ensure_image(report: Report, make_programs: Callable[[Path], Programs] = Logged) -> Image:
    """The image of today's recipe, built if the cache does not have it yet."""
    name = recipe.recipe_hash()
    directory = cache.base() / name
    if not cache.complete(directory):
        waiting = Progress("wait", "another podrail is building the lab's image: waiting for it")
        with cache.locked(name, lambda: report(waiting)):
            if not cache.complete(directory):
                _build(name, directory, report, make_programs)
    (directory / cache.DONE).touch()
    return Image(directory / "vmlinuz", directory / "initrd.cpio", directory / "root.img")


def _build(
    name: str, directory: Path, report: Report, make_programs: Callable[[Path], Programs]
) -> None:
    log = cache.base() / f"{name}.log"
    log.unlink(missing_ok=True)
    programs = make_programs(log)

    def remove(argv: Sequence[str]) -> None:
        programs.run(rootfs.inside(argv))

    for old in cache.leftovers(name):
        cache.remove(old, remove)
    _check(programs)
    cache.need_space(cache.base(), SPACE_MB, "building the lab's image")
    work = cache.workplace(name)
    meter = Meter(report, _usual())
    try:
        cache.need_space(work, _WORK_MB, "building the lab's image")
        with tempfile.TemporaryDirectory(prefix=f".{name}.", dir=cache.base()) as place:
            built = Path(place) / "image"
            _make(work, built, programs, meter)
            cache.publish(built, directory)
    except OSError as failure:
        raise Refused(f"the lab's image could not be written: {failure}") from failure
    finally:
        cache.remove(work, remove)
    _learn(meter)
    cache.forget_old(directory)


def _make(work: Path, built: Path, programs: Programs, meter: Meter) -> None:
    built.mkdir()
    packages, repository = _packages(work / "repository", programs, meter)
    site = payload.install_dependencies(built.parent, programs, meter)
    overlay = built.parent / "overlay.tar"
    payload.make_overlay(site, overlay)
    hook = work / "customize"
    hook.write_bytes((recipe.GUEST / "customize").read_bytes())
    hook.chmod(0o755)
    root = work / cache.ROOT
    rootfs.Bootstrap(root, repository, overlay, hook, packages).run(programs, meter)
    _finish(root, built, programs, meter)


def _packages(into: Path, programs: Programs, meter: Meter) -> tuple[list[str], str]:
    """The names of all packages and the repository with them; apt serves one recipe at a time."""
    with cache.locked("apt", lambda: meter.say("another podrail is fetching packages: waiting")):
        apt = Apt(cache.base() / "apt", debian_mirror(), programs)
        packages = fetch(apt, meter)
        forget_others(apt, packages)
        return [package.name for package in packages], local_repository(apt, packages, into)


def _finish(root: Path, built: Path, programs: Programs, meter: Meter) -> None:
    meter.start("disk", "writing the image's file system")
    parts = rootfs.take_out(root, built.parent, programs)
    rootfs.make_initramfs(parts, built / "initrd.cpio")
    for name in ("vmlinuz", "kernel", "python"):
        (parts / name).rename(built / name)
    rootfs.make_disk(root, built / "root.img", programs)
    meter.finish()


def _check(programs: Programs) -> None:
    """Without root, a user with subordinate ids is needed; one real try says it all."""
    if os.geteuid() == 0:
        return
    try:
        programs.run(rootfs.inside(["true"]))
    except ProgramFailed as failure:
        user = getpass.getuser()
        raise Refused(
            f"this user cannot build the image: {failure.tail[-1] if failure.tail else failure}\n"
            "an unprivileged build wants user namespaces, newuidmap and subordinate ids; run:\n"
            "  sudo sh -c 'apt-get install -y uidmap && usermod --add-subuids 100000-165535 "
            f"--add-subgids 100000-165535 {user}'"
        ) from failure


def _usual() -> dict[str, float]:
    try:
        known = json.loads((cache.base() / "timings.json").read_text(encoding="utf-8"))
        return {stage: float(known[stage]) for stage in USUAL}
    except (OSError, ValueError, KeyError, TypeError):
        return USUAL


def _learn(meter: Meter) -> None:
    (cache.base() / "timings.json").write_text(json.dumps(meter.took), encoding="utf-8")
