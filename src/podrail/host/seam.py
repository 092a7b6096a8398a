"""The host seam: the only way podrail touches a machine.

Every implementation speaks the kernel's own language: a path that does not exist raises
FileNotFoundError, a write the kernel refuses raises OSError with the kernel's errno, a program that
is not installed raises FileNotFoundError. Code above the seam cannot tell the machines apart.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NoReturn, Protocol, Self


@dataclass(frozen=True, slots=True)
class Ran:
    """A finished program."""

    argv: tuple[str, ...]
    rc: int
    stdout: str
    stderr: str = ""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened on a machine."""

    source: str
    """`uevent`, `link` or `lost`."""
    action: str
    """Of a uevent: add, remove, change, move, bind, unbind, online, offline; of a link: new (it
    came or changed) and del."""
    path: str = ""
    """Where the device is below /sys; empty for a link."""
    name: str = ""
    """The name of the netdev, where it is one."""
    subsystem: str = ""


LOST = Event("lost", "change")
"""Events went by unseen: anything may have changed."""


class Watch(Protocol):
    """What happens on a machine from the moment it is opened. Order holds within one source."""

    @property
    def timeless(self) -> bool:
        """Whether nothing happens by itself here: what is not there now will not come."""

    def wait(self, timeout: float | None) -> tuple[Event, ...]:
        """Everything that happened, as soon as something has; empty when the time is over."""

    def fileno(self) -> int:
        """Readable when there is something to wait for."""

    def close(self) -> None:
        """Stop watching."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class NotRecorded(OSError):
    """The record was made by a version of podrail that did not look here."""


class Host(Protocol):
    """One machine."""

    @property
    def label(self) -> str:
        """What to call this host in messages (`local`, `twin:roce-cx6`, a file name)."""

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels of its node that the machine itself cannot tell: a cluster set them."""

    def read(self, path: str) -> str:
        """The text of a file."""

    def read_bytes(self, path: str) -> bytes:
        """The bytes of a file, such as PCI config space."""

    def write(self, path: str, text: str) -> None:
        """Write a file in one write(2), as sysfs wants it."""

    def place(self, path: str, text: str, *, mode: int = 0o644) -> None:
        """Make or replace a file whole: whoever looks finds the old text or the new.

        Missing directories are made. A symbolic link is followed, so that what is placed is what
        `read` gives.
        """

    def unlink(self, path: str) -> None:
        """Take a file or a symbolic link away; FileNotFoundError if nothing is there."""

    def entries(self, path: str) -> tuple[str, ...]:
        """The names in a directory, sorted."""

    def readlink(self, path: str) -> str:
        """The target of a symbolic link, as stored."""

    def resolve(self, path: str) -> str:
        """The path with every symbolic link followed; FileNotFoundError if nothing is there."""

    def run(self, argv: Sequence[str], *, timeout: float = 10.0, stdin: str = "") -> Ran:
        """Run a program without a shell, with `stdin` to read. A non-zero exit is no error here."""

    def watch(self) -> Watch:
        """What happens on the machine from now on."""


class Unchanging:
    """The half of a Host that refuses: it cannot be changed, and nothing happens on it."""

    _why: ClassVar[str]

    def _refuse(self, path: str) -> NoReturn:
        raise OSError(errno.EROFS, self._why, path)

    def write(self, path: str, text: str) -> None:
        self._refuse(path)

    def place(self, path: str, text: str, *, mode: int = 0o644) -> None:
        self._refuse(path)

    def unlink(self, path: str) -> None:
        self._refuse(path)

    def watch(self) -> Watch:
        raise OSError(errno.EROFS, "a record does not change: there is nothing to watch")


def exists(host: Host, path: str) -> bool:
    """Whether a path leads anywhere on this host."""
    try:
        host.resolve(path)
    except OSError:
        return False
    return True
