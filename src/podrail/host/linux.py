"""LinuxHost: the real machine, with its root path as a parameter."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import subprocess
from collections.abc import Mapping, Sequence

from podrail.host.seam import Ran, Watch

MAX_BYTES = 64 * 1024 * 1024

_ENV = {"LC_ALL": "C", "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
_MAX_LINKS = 40  # the kernel's MAXSYMLINKS
# proc(5): what /proc/PID/ns/net and /proc/PID/fd/N show is no path, yet the kernel follows it
_MAGIC = re.compile(r"\w+:\[?\w")


class LinuxHost:
    """This machine, or the one mounted at `root` (a container sees its node under /host)."""

    label = "local"

    def __init__(self, root: str = "/") -> None:
        self._root = root.rstrip("/")

    @property
    def labels(self) -> Mapping[str, str]:
        return {}

    def _at(self, path: str) -> str:
        return f"{self._root}{self._inside(path)}" if self._root else path

    def read(self, path: str) -> str:
        return self.read_bytes(path).decode("utf-8", "replace")

    def read_bytes(self, path: str) -> bytes:
        fd = os.open(self._at(path), os.O_RDONLY | os.O_CLOEXEC)
        try:
            chunks, size = [], 0
            while chunk := os.read(fd, 65536):
                chunks.append(chunk)
                size += len(chunk)
                if size > MAX_BYTES:
                    raise OSError(errno.EFBIG, f"not read: over {MAX_BYTES >> 20} MiB", path)
            return b"".join(chunks)
        finally:
            os.close(fd)

    def write(self, path: str, text: str) -> None:
        fd = os.open(self._at(path), os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
        try:
            os.write(fd, text.encode())
        finally:
            os.close(fd)

    def place(self, path: str, text: str, *, mode: int = 0o644) -> None:
        real = f"{self._root}{self._inside(path, made=True)}"
        directory, _, name = real.rpartition("/")
        try:
            _make_directory(directory or "/")
            _replace(directory, name, text.encode(), mode)
        except OSError as no:
            raise OSError(no.errno, no.strerror, path) from no

    def unlink(self, path: str) -> None:
        above, _, name = path.rstrip("/").rpartition("/")
        directory = self._at(above or "/").rstrip("/")
        os.unlink(f"{directory}/{name}")
        _sync(directory or "/")

    def entries(self, path: str) -> tuple[str, ...]:
        return tuple(sorted(os.listdir(self._at(path))))

    def readlink(self, path: str) -> str:
        above, _, name = path.rstrip("/").rpartition("/")
        return os.readlink(f"{self._at(above or '/').rstrip('/')}/{name}")

    def resolve(self, path: str) -> str:
        if self._root:
            return self._inside(path)
        try:
            return os.path.realpath(path, strict=True)
        except FileNotFoundError:
            if os.path.exists(path):
                return path
            raise

    def _inside(self, path: str, *, made: bool = False) -> str:
        """Follow every link as chroot(2) would: an absolute target starts at the root again.

        What is going to be `made` need not be there.
        """
        pending = [part for part in reversed(path.split("/")) if part not in ("", ".")]
        place, followed = "", 0
        while pending:
            part = pending.pop()
            if part == "..":
                place = place.rpartition("/")[0]
                continue
            target = self._target(f"{place}/{part}", path, made)
            if target is None:
                place = f"{place}/{part}"
                continue
            followed += 1
            if followed > _MAX_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            place = "" if target.startswith("/") else place
            pending.extend(part for part in reversed(target.split("/")) if part not in ("", "."))
        return place or "/"

    def _target(self, path: str, asked: str, made: bool) -> str | None:
        try:
            target = os.readlink(f"{self._root}{path}")
        except OSError as no:
            if no.errno == errno.EINVAL or (made and no.errno == errno.ENOENT):
                return None  # readlink(2): EINVAL is no link
            raise OSError(no.errno, no.strerror, asked) from no
        return None if path.startswith("/proc/") and _MAGIC.match(target) else target

    def run(self, argv: Sequence[str], *, timeout: float = 10.0, stdin: str = "") -> Ran:
        command = ["chroot", self._root, *argv] if self._root else list(argv)
        try:
            done = subprocess.run(
                command,
                env=_ENV,
                input=stdin.encode(),
                capture_output=True,
                timeout=timeout,
                check=False,
            )
        except subprocess.TimeoutExpired as late:
            raise TimeoutError(
                errno.ETIMEDOUT, f"no answer within {timeout:g} s", argv[0]
            ) from late
        return Ran(
            tuple(argv),
            done.returncode,
            done.stdout.decode("utf-8", "replace"),
            done.stderr.decode("utf-8", "replace"),
        )

    def watch(self) -> Watch:
        from podrail.host.events import KernelWatch

        return KernelWatch()


# --- files that appear whole ------------------------------------------------------------------


def _sync(directory: str) -> None:
    """A name is on the disk when its directory is (fsync(2))."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _make_directory(directory: str) -> None:
    if os.path.isdir(directory):
        return
    above = directory.rpartition("/")[0] or "/"
    _make_directory(above)
    with contextlib.suppress(FileExistsError):
        os.mkdir(directory, 0o755)
    _sync(above)


def _replace(directory: str, name: str, data: bytes, mode: int) -> None:
    """rename(2) of a sibling nobody knows: never a half written file, whoever else writes it."""
    sibling = f"{directory}/.{name}.{os.urandom(6).hex()}"
    fd = os.open(sibling, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(fd, mode)
            os.fsync(fd)
        os.rename(sibling, f"{directory}/{name}")
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(sibling)
        raise
    _sync(directory or "/")
