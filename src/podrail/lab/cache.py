"""The lab's cache: images by recipe, one builder at a time, no half-built leftovers.

$XDG_CACHE_HOME/podrail/lab/
  HASH/         vmlinuz, initrd.cpio, root.img, python/; complete only with `done`
  HASH.lock     held by who builds it
  HASH.log      what the last build said
  .HASH.*       being built, or what a crash left
  apt/          package lists and fetched packages, shared by all recipes
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from podrail.model.errors import Refused

DONE = "done"
ROOT = "root"
"""The new system inside a workplace."""
_KEEP = 3


def base() -> Path:
    """Where everything is kept."""
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home) / "podrail" / "lab"


def complete(directory: Path) -> bool:
    """True when a build ran to its end."""
    return (directory / DONE).is_file()


@contextlib.contextmanager
def locked(name: str, on_wait: Callable[[], None]) -> Iterator[None]:
    """Only one builder of an image; whoever comes second is told and waits."""
    base().mkdir(parents=True, exist_ok=True, mode=0o700)
    with (base() / f"{name}.lock").open("w", encoding="ascii") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def need_space(place: Path, megabytes: int, why: str) -> None:
    """Refuses before anything is written where there is no room for it."""
    free = shutil.disk_usage(place).free // 1_000_000
    if free < megabytes:
        raise Refused(
            f"{place} has {free} MB free and {why} needs {megabytes} MB; make room there, or point "
            "XDG_CACHE_HOME (and TMPDIR) at a larger disk"
        )


def workplace(name: str) -> Path:
    """A fresh directory in which to build; its file system may be another one than the cache's.

    An unprivileged build runs under subordinate user ids, which cannot enter a private home.
    """
    if os.geteuid() == 0:
        return Path(tempfile.mkdtemp(prefix=f".{name}.work-", dir=base()))
    place = Path(tempfile.mkdtemp(prefix=_prefix(name), dir=_shared_temporary()))
    place.chmod(0o755)
    return place


def leftovers(name: str) -> list[Path]:
    """What builds of this image that never ended have left; ask only under the lock."""
    mine = _shared_temporary().glob(f"{_prefix(name)}*")
    return [
        *base().glob(f".{name}.*"),
        *(p for p in mine if p.lstat().st_uid == os.geteuid() and not p.is_symlink()),
    ]


def _prefix(name: str) -> str:
    return f"podrail-lab-{os.geteuid()}-{name}-"


def _shared_temporary() -> Path:
    # /var/tmp is on disk where /tmp often is memory.
    return Path(os.environ.get("TMPDIR") or "/var/tmp")  # noqa: S108


def remove(place: Path, run: Callable[[Sequence[str]], object]) -> None:
    """Removes a workplace, never across a mount that a killed build left inside.

    What is below `root` belongs to subordinate ids: `run` has to remove that with their rights.
    """
    inside = _mounts_below(place)
    if inside:
        raise Refused(
            f"a build that was killed left {inside[0]} mounted; run: umount -l {' '.join(inside)}"
        )
    system = place / ROOT
    if system.is_dir():
        run(["rm", "-rf", "--one-file-system", *(str(child) for child in system.iterdir())])
    shutil.rmtree(place)


def _mounts_below(place: Path) -> list[str]:
    """Field 5 of /proc/self/mountinfo, proc_pid_mountinfo(5), deepest first."""
    lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    points = (line.split()[4].replace("\\040", " ") for line in lines)
    below = f"{place.resolve()}/"
    return sorted((p for p in points if p.startswith(below)), reverse=True)


def publish(built: Path, directory: Path) -> None:
    """Makes a finished build the image of its name, at once."""
    (built / DONE).touch()
    built.chmod(0o755)
    if directory.exists():
        shutil.rmtree(directory)
    built.rename(directory)


def forget_old(current: Path) -> None:
    """Keeps the few images used last; a running node keeps the file it has open."""
    images = [p.parent for p in base().glob(f"*/{DONE}") if p.parent != current]
    images.sort(key=lambda p: (p / DONE).stat().st_mtime, reverse=True)
    for old in images[_KEEP - 1 :]:
        shutil.rmtree(old, ignore_errors=True)
        for other in (f"{old.name}.log", f"{old.name}.lock"):
            (base() / other).unlink(missing_ok=True)
