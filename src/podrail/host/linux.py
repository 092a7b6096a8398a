"""LinuxHost: the real machine, with its root path as a parameter."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Sequence

from podrail.host.seam import Ran

_ENV = {"LC_ALL": "C", "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}


class LinuxHost:
    """This machine, or the one mounted at `root` (a container sees its node under /host)."""

    label = "local"

    def __init__(self, root: str = "/") -> None:
        self._root = root.rstrip("/")

    def _at(self, path: str) -> str:
        return f"{self._root}{path}"

    def read(self, path: str) -> str:
        return self.read_bytes(path).decode("utf-8", "replace")

    def read_bytes(self, path: str) -> bytes:
        fd = os.open(self._at(path), os.O_RDONLY | os.O_CLOEXEC)
        try:
            chunks = []
            while chunk := os.read(fd, 65536):
                chunks.append(chunk)
            return b"".join(chunks)
        finally:
            os.close(fd)

    def write(self, path: str, text: str) -> None:
        fd = os.open(self._at(path), os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
        try:
            os.write(fd, text.encode())
        finally:
            os.close(fd)

    def entries(self, path: str) -> tuple[str, ...]:
        return tuple(sorted(os.listdir(self._at(path))))

    def readlink(self, path: str) -> str:
        return os.readlink(self._at(path))

    def resolve(self, path: str) -> str:
        real = os.path.realpath(self._at(path), strict=True)
        return real[len(self._root) :] if self._root else real

    def run(self, argv: Sequence[str], *, timeout: float = 10.0) -> Ran:
        command = ["chroot", self._root, *argv] if self._root else list(argv)
        try:
            done = subprocess.run(
                command,
                env=_ENV,
                stdin=subprocess.DEVNULL,
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
