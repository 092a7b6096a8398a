"""A step: one thing of a machine set to one value, as data.

Whatever podrail changes is read first, and what was read is the undo. So a kind of step knows
three things only: how to read the thing, how to set it, and how to say it. Where a step stands in
for many (the MTU of 128 VFs), the values are a mapping, and only the keys asked for are touched.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from podrail.host.seam import Host

Value = Any
"""JSON: None, bool, int, str, list, or a mapping with string keys."""

MACHINE = "machine"
"""The target of a step that concerns no single PF."""


class Gone(Exception):
    """What the step is about is no longer there: nothing to undo on it."""


class Failed(Exception):
    """A step could not be done: what was found, and the way out."""

    def __init__(self, reason: str, fix: str = "") -> None:
        super().__init__(reason)
        self.reason, self.fix = reason, fix

    def __reduce__(self) -> tuple[type[Failed], tuple[str, str]]:
        return type(self), (self.reason, self.fix)


@dataclass(frozen=True, slots=True)
class Step:
    """Set `kind` of `target` (a PCI address, a path, `machine`) to a value."""

    kind: str
    target: str
    to: Value
    set_by: str = ""


class Kind:
    """How one sort of thing is read and set. Setting it twice is setting it once."""

    name: ClassVar[str]
    title: ClassVar[str] = ""
    """What people call it, where that is not its name."""
    watched: ClassVar[bool] = True
    """Whether a value that no longer holds is drift. Not where pods may change it."""
    lasting: ClassVar[bool] = False
    """Whether it outlives a reboot: files, kernel arguments, firmware."""
    inside_vfs: ClassVar[bool] = False
    """Whether it belongs to VFs and goes with them; then what `vfs` found covers it."""
    disturbs_vfs: ClassVar[bool] = False
    """Whether whoever holds a VF would feel it."""

    def read(self, host: Host, target: str) -> Value:
        """What stands now; `Gone` where there is no such thing."""
        raise NotImplementedError

    def write(self, host: Host, target: str, value: Value) -> None:
        """Set it and see that it came true; OSError or `Failed` otherwise."""
        raise NotImplementedError

    def says(self, value: Value) -> str:
        """The value in words, for `numVfs: 0 → 4`."""
        return str(value)

    def line(self, was: Value, to: Value) -> str:
        """The change in words."""
        return f"{self.title or self.name}: {self.says(was)} → {self.says(to)}"

    def disturbs(self, step: Step) -> bool:
        """Whether whoever holds a VF would feel this very step."""
        return self.disturbs_vfs

    def do(self, host: Host, step: Step) -> None:
        self.write(host, step.target, step.to)

    def undo(self, host: Host, step: Step, was: Value) -> None:
        self.write(host, step.target, was)

    def holds(self, host: Host, step: Step) -> bool:
        """Whether the machine is already as the step wants it."""
        now = self.read(host, step.target)
        if isinstance(step.to, Mapping) and isinstance(now, Mapping):
            return not self.differing(now, step.to)
        return self.same(now, step.to)

    def pending(self, host: Host, step: Step) -> str | None:
        """What must still happen (a reboot, a restart) before it is in force; None where it is."""
        return None

    def same(self, now: Value, to: Value) -> bool:
        """Whether one value is as good as the wanted one."""
        return bool(now == to)

    def differing(self, now: Mapping[str, Value], to: Mapping[str, Value]) -> list[str]:
        """The keys of a mapping that are not as wanted."""
        return [key for key, value in to.items() if not self.same(now.get(key), value)]

    def found(self, host: Host, step: Step) -> Value:
        """What the undo will need: of a mapping, only the keys the step touches."""
        return restrict(self.read(host, step.target), step.to)


def restrict(now: Value, to: Value) -> Value:
    if isinstance(to, Mapping) and isinstance(now, Mapping):
        return {key: now[key] for key in to if key in now}
    return now


KINDS: dict[str, Kind] = {}


def kind(cls: type[Kind]) -> type[Kind]:
    """Enter a kind in the registry under its name."""
    assert cls.name not in KINDS, cls.name
    KINDS[cls.name] = cls()
    return cls


def kind_of(step: Step) -> Kind:
    return KINDS[step.kind]


def pending(host: Host, steps: Iterable[Step]) -> tuple[str, ...]:
    """What is set and not in force yet. podrail reboots and restarts nothing."""
    return tuple(dict.fromkeys(why for step in steps if (why := _pending(host, step))))


def _pending(host: Host, step: Step) -> str | None:
    try:
        return kind_of(step).pending(host, step)
    except (Gone, Failed, OSError):
        return None
