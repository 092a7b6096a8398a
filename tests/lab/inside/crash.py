"""Killed at every point of the journal, and what the next podrail makes of it.

The process and its workers are killed together, as by `kill -9 -- -PGID` or a power cut: from
`at_point`, which the journal calls before and after each commit.
"""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from podrail.host.linux import LinuxHost
from podrail.model.bundle import read
from podrail.realise.apply import (
    APPLY,
    Consent,
    Intent,
    boot_id,
    give_back,
    intend,
    realise,
    resume,
)
from podrail.realise.crew import work
from podrail.realise.engine import Outcome
from podrail.realise.journal import Job
from podrail.realise.state import State
from podrail.realise.step import Step

from . import machine
from .policies import policy

AtPoint = Callable[[str], None]
Doing = Callable[[State], object]


@dataclass(frozen=True, slots=True)
class Operation:
    """What is interrupted: how an undisturbed run ended, and every point it went through."""

    name: str
    do: Doing
    start: dict[str, Any]
    end: dict[str, Any]
    points: tuple[str, ...]


def create_and_reset(pf: str) -> dict[str, str]:
    """Every point of both with what is wrong after a death there; empty where all is well."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        trials = _Trials(Path(folder), pf)
        two = trials.intent(2)
        create = trials.listed("create", lambda state: realise(LinuxHost(), state, two))
        reset = trials.listed("reset", _reset)
        return trials.in_turns(create, reset)


def resize_and_take_back(pf: str) -> dict[str, str]:
    """The same for VFs that are there: fewer of them, more, and a job that fails and goes back."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        trials = _Trials(Path(folder), pf)
        trials.whole(lambda state: realise(LinuxHost(), state, trials.intent(2)))
        one, two = trials.intent(1), trials.intent(2)
        shrink = trials.listed("resize 2 to 1", lambda state: realise(LinuxHost(), state, one))
        grow = trials.listed("resize 1 to 2", lambda state: realise(LinuxHost(), state, two))
        failing = trials.listed("take back", lambda state: _impossible(state, pf))
        told = {**trials.in_turns(shrink, grow), **trials.in_turns(failing, failing)}
        trials.whole(_reset)
        return told


def _reset(state: State) -> list[Outcome]:
    return give_back(LinuxHost(), state)


def _impossible(state: State, pf: str) -> list[Outcome]:
    """A VF to vfio-pci, the PF down, and then an MTU no igb can have: all of it is taken back."""
    steps = (("vf-driver", {"0": "vfio-pci"}), ("link", "down"), ("mtu", 65000))
    jobs = [Job(pf, tuple(Step(kind, pf, to) for kind, to in steps))]
    run = state.journal.open_run(APPLY, boot_id(LinuxHost()), jobs)
    return work(LinuxHost(), state.journal, run, APPLY, jobs)


class _Trials:
    """Operations on one PF, one after the other, with a journal of their own."""

    def __init__(self, folder: Path, pf: str) -> None:
        self.pf, self.place, self.seen = pf, folder / "state", folder / "points"

    def intent(self, count: int) -> Intent:
        """Looked for once: what is wanted does not depend on what is."""
        (name,) = machine.netdevs(self.pf)
        bundle = read([("p.yaml", policy("rails", count, name))])
        with State(str(self.place)) as state:
            return intend(LinuxHost(), bundle, state.journal, {}, Consent())

    def whole(self, do: Doing) -> None:
        """Undisturbed."""
        assert _in_child(self.place, do, lambda _: None) == 0

    def listed(self, name: str, do: Doing) -> Operation:
        """Undisturbed, its points noted."""
        start = self._shape()
        self.seen.unlink(missing_ok=True)
        assert _in_child(self.place, do, self._note) == 0
        points = tuple(self.seen.read_text().splitlines())
        return Operation(name, do, start, self._shape(), points)

    def in_turns(self, one: Operation, other: Operation) -> dict[str, str]:
        """Each operation begins where the other ended, so that no VF is made in vain."""
        told: dict[str, str] = {}
        for number in range(max(len(one.points), len(other.points))):
            for operation in dict.fromkeys((one.name, other.name)):
                self._turn(one if operation == one.name else other, number, told)
        return told

    def _turn(self, operation: Operation, number: int, told: dict[str, str]) -> None:
        if number < len(operation.points):
            point = f"{operation.name}: {operation.points[number]}"
            told[point] = "; ".join(self._dying(operation, number))
        else:
            self.whole(operation.do)

    def _dying(self, operation: Operation, number: int) -> list[str]:
        if (now := self._shape()) != operation.start:
            return [f"does not begin as it should: {now}, not {operation.start}"]
        self.seen.unlink(missing_ok=True)
        status = _in_child(self.place, operation.do, self._kill(number))
        if status != -signal.SIGKILL:
            return [f"it ended with {status}, not by the kill"]
        return self._resumed(operation)

    def _resumed(self, operation: Operation) -> list[str]:
        """The next podrail finishes or takes back; the same asked again ends as undisturbed."""
        wrong = []
        with State(str(self.place)) as state, state.working():
            resume(LinuxHost(), state)
            now = self._shape()
            if now not in (operation.start, operation.end):
                wrong.append(f"neither before nor after: {now}, wanted {operation.end}")
            if left := state.journal.unfinished():
                wrong.append(f"unfinished: {left}")
            if now != operation.end:
                operation.do(state)
            if (now := self._shape()) != operation.end:
                wrong.append(f"in the end {now}, wanted {operation.end}")
        return wrong

    def _shape(self) -> dict[str, Any]:
        """The PF and its VFs, without what the kernel counts up."""
        vfs = [{**vf, "ifindex": None} for vf in machine.vfs(self.pf)]
        return {"pf": machine.pf(self.pf), "vfs": vfs}

    def _note(self, point: str) -> None:
        with self.seen.open("a") as file:
            file.write(f"{point}\n")

    def _kill(self, number: int) -> AtPoint:
        def at_point(point: str) -> None:
            self._note(point)
            if len(self.seen.read_text().splitlines()) > number:
                os.killpg(0, signal.SIGKILL)

        return at_point


def _in_child(place: Path, do: Doing, at_point: AtPoint) -> int:
    pid = os.fork()
    if pid == 0:
        _child(place, do, at_point)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _child(place: Path, do: Doing, at_point: AtPoint) -> None:
    rc = 1
    try:
        os.setpgid(0, 0)
        with State(str(place), at_point=at_point) as state, state.working():
            do(state)
        rc = 0
    finally:
        os._exit(rc)
