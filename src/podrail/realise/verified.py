"""Settings that a program makes: whatever its exit code says, what counts is what is read after.

`dcb app replace` and `setpci` exit with 0 where the kernel refused, so no kind trusts them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from podrail.host.seam import Host, Ran
from podrail.realise.functions import netdev
from podrail.realise.step import Failed, Kind, Value, restrict

_NOT_FOUND = 127
"""What chroot(1) exits with where there is no such program."""


def ask(host: Host, argv: Sequence[str], package: str) -> Ran:
    """Run a program; `Failed` with what to install where it is missing."""
    try:
        ran = host.run(argv)
    except FileNotFoundError:
        ran = None
    if ran is None or ran.rc == _NOT_FOUND:
        raise Failed(f"{argv[0]} is not installed on the machine", f"install {package}")
    return ran


def complaint(ran: Ran) -> str:
    """What a program that failed said, in one line."""
    said = (ran.stderr or ran.stdout).strip().splitlines()
    return f"`{' '.join(ran.argv)}`: {said[0] if said else f'exit {ran.rc}'}"


def in_words(value: Value) -> str:
    """`rx 8192, tx 8192`; values that are not there are `unset`."""
    if not isinstance(value, Mapping):
        return _word(value)
    return ", ".join(f"{key} {_word(one)}" for key, one in value.items())


def _word(value: Value) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return "unset" if value is None else str(value)


def called(host: Host, pci: str) -> str:
    """The netdev's name, or the address of a PF that has none."""
    return netdev(host, pci) or pci


class Verified(Kind):
    """A mapping of settings, set by a program and read again."""

    advice: ClassVar[str]
    """What to do where the setting was accepted and does not stand."""

    def set(self, host: Host, target: str, value: Mapping[str, Value]) -> None:
        """Ask for the values; whether they came true is seen to."""
        raise NotImplementedError

    def write(self, host: Host, target: str, value: Value) -> None:
        if not self.differing(self.read(host, target), value):
            return
        self.set(host, target, value)
        now = self.read(host, target)
        if self.differing(now, value):
            raise Failed(
                f"{called(host, target)}: {self.name} was set to {self.says(value)}, and is "
                f"{self.says(restrict(now, value))}",
                self.advice,
            )

    def says(self, value: Value) -> str:
        return in_words(value)
