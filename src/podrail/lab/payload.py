"""What of podrail goes into a node: its dependencies in the image, itself on a disk of its own.

podrail changes often and the image must not: a node mounts the second disk at /opt/podrail/src.
It is compiled here for the node's Python: an emulated CPU would take seconds to do so.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

from podrail.lab import cache, recipe
from podrail.lab.fetch import patiently
from podrail.lab.programs import Logged, Programs
from podrail.model.errors import Refused
from podrail.model.progress import Meter

_SITE = "opt/podrail/site"
# glibc of the image is 2.41: wheels for any of these run there.
_PLATFORMS = ("manylinux_2_34", "manylinux_2_28", "manylinux_2_17", "manylinux2014")
_KEEP = 3


def install_dependencies(into: Path, programs: Programs, meter: Meter) -> Path:
    """podrail's locked dependencies for the node's Python, hashes checked."""
    meter.start("wheels", "podrail's dependencies for the node's Python")
    lock = into / "runtime.lock"
    lock.write_text(recipe.runtime_lock(), encoding="utf-8")
    site = into / "site"
    argv = [
        sys.executable, "-m", "pip", "install", "--quiet", "--no-input", "--no-compile",
        "--no-deps", "--disable-pip-version-check", "--progress-bar=off", "--upgrade",
        "--root-user-action=ignore",
        "--require-hashes", "--only-binary=:all:", "--implementation=cp",
        f"--python-version={recipe.PYTHON}",
        *(f"--platform={platform}_x86_64" for platform in _PLATFORMS),
        f"--target={site}", f"--requirement={lock}",
    ]  # fmt: skip
    patiently(lambda _: programs.run(argv), meter.say)
    return site


def make_overlay(site: Path, tar: Path) -> None:
    """Our files of the image as a tar owned by root."""
    with tarfile.open(tar, "w") as archive:
        for name, (target, mode) in recipe.GUEST_FILES.items():
            _add(archive, target, (recipe.GUEST / name).read_bytes(), mode)
        for directory in ("opt", "opt/podrail", "opt/podrail/src"):
            _add(archive, directory, None, 0o755)
        archive.add(site, _SITE, filter=_as_root)


def _add(archive: tarfile.TarFile, name: str, data: bytes | None, mode: int) -> None:
    member = tarfile.TarInfo(name)
    member.mode, member.size = mode, len(data or b"")
    member.type = tarfile.DIRTYPE if data is None else tarfile.REGTYPE
    archive.addfile(member, io.BytesIO(data or b""))


def _as_root(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = "root"
    member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
    return member


def build_podrail(dest: Path | None = None) -> Path:
    """This podrail as a small disk for nodes: `dest`/podrail-HASH.img, made when it changed."""
    directory = dest or cache.base()
    directory.mkdir(parents=True, exist_ok=True)
    image = directory / f"podrail-{_content_hash()}.img"
    if not image.exists():
        with tempfile.TemporaryDirectory(prefix=".podrail-", dir=directory) as work:
            _make_image(Path(work), image)
        _forget_old(image)
    image.touch()
    return image


def _make_image(work: Path, image: Path) -> None:
    tree = work / "tree"
    programs = Logged(work / "log")
    for file in _files():
        target = tree / file.relative_to(_package().parent)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)
    _compile(tree, programs)
    made = list(tree.rglob("*"))
    room = sum(-p.stat().st_size // 4096 * -4096 + 512 for p in made) + (2 << 20)
    partial = work / "podrail.img"
    partial.touch()
    os.truncate(partial, -room // 4096 * -4096)
    programs.run(
        ["mke2fs", "-q", "-F", "-t", "ext4", "-b", "4096", "-O", "^has_journal", "-m", "0",
         "-N", str(len(made) + 64), "-L", "podrail", "-d", str(tree), str(partial)]
    )  # fmt: skip
    partial.replace(image)


def _compile(tree: Path, programs: Programs) -> None:
    """With the node's own Python, run through its own loader: byte code fits one version only."""
    home = guest_python()
    if home is None:
        return
    lib = home / "lib"
    loader = next(lib.glob("ld-linux*"), None)
    if loader is None:
        raise Refused(f"{lib} has no loader for the node's Python: remove {home.parent} and retry")
    programs.run(
        [str(loader), "--library-path", str(lib), str(home / "python"), "-S", "-s",
         "-m", "compileall", "-q", "-s", str(tree), "-p", "/opt/podrail/src",
         "--invalidation-mode", "unchecked-hash", str(tree)],
        env={"PYTHONHOME": str(home / "usr"), "PYTHONPATH": ""},
    )  # fmt: skip


def guest_python() -> Path | None:
    """The node's Python as the image's build left it for us."""
    place = cache.base() / recipe.recipe_hash() / "python"
    return place if place.is_dir() else None


def _package() -> Path:
    return Path(__file__).resolve().parents[1]


def _files() -> Iterator[Path]:
    for file in sorted(_package().rglob("*")):
        if file.is_file() and "__pycache__" not in file.parts:
            yield file


def _content_hash() -> str:
    digest = hashlib.sha256(f"{recipe.recipe_hash()} {guest_python() is not None}".encode())
    for file in _files():
        data = file.read_bytes()
        name = str(file.relative_to(_package())).encode()
        digest.update(len(name).to_bytes(4, "big") + name + len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()[:12]


def _forget_old(current: Path) -> None:
    others = [p for p in current.parent.glob("podrail-*.img") if p != current]
    others.sort(key=lambda p: p.stat().st_mtime, reverse=True)
    for old in others[_KEEP - 1 :]:
        old.unlink(missing_ok=True)
