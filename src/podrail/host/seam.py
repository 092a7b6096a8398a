"""The host seam: the only way podrail touches a machine.

Every implementation speaks the kernel's own language: a path that does not exist raises
FileNotFoundError, a write the kernel refuses raises OSError with the kernel's errno, a program that
is not installed raises FileNotFoundError. Code above the seam cannot tell the machines apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Ran:
    """A finished program."""

    argv: tuple[str, ...]
    rc: int
    stdout: str
    stderr: str = ""


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

    def entries(self, path: str) -> tuple[str, ...]:
        """The names in a directory, sorted."""

    def readlink(self, path: str) -> str:
        """The target of a symbolic link, as stored."""

    def resolve(self, path: str) -> str:
        """The path with every symbolic link followed; FileNotFoundError if nothing is there."""

    def run(self, argv: Sequence[str], *, timeout: float = 10.0) -> Ran:
        """Run a program without a shell. A non-zero exit is not an error here."""


def exists(host: Host, path: str) -> bool:
    """Whether a path leads anywhere on this host."""
    try:
        host.resolve(path)
    except OSError:
        return False
    return True
