"""Bad cases that need a hand inside podrail's own process, at the moment they happen."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import podrail.realise.kinds  # noqa: F401 - enters every kind of step in the registry
from podrail.host.linux import LinuxHost
from podrail.model.bundle import read
from podrail.model.errors import Refused
from podrail.realise.apply import APPLY, Consent, boot_id, give_back, intend, realise, resume
from podrail.realise.engine import Outcome, Work
from podrail.realise.journal import Job
from podrail.realise.locks import locked
from podrail.realise.state import State
from podrail.realise.step import Step

from . import machine
from .machine import PCI, netdevs, run

_YEARS = 10 * 365 * 86400.0


def raw(pf: str, kind: str, to: Any) -> list[str]:
    """One step without any plan before it: state, reason and fix."""
    with tempfile.TemporaryDirectory() as place, State(place) as state:
        job = Job(pf, (Step(kind, pf, to),))
        number = state.journal.open_run(APPLY, boot_id(LinuxHost()), [job])
        outcome = Work(LinuxHost(), state.journal, number, job, APPLY).forward()
    return [outcome.state, outcome.reason, outcome.fix]


def _apply(state: State, policies: str, meanwhile: Callable[[], object] = bool) -> list[Outcome]:
    intent = intend(LinuxHost(), read([("p.yaml", policies)]), state.journal, {}, Consent())
    assert not intent.refusals, intent.refusals
    meanwhile()
    return realise(LinuxHost(), state, intent)


def taken_meanwhile(pf: str, first: str, then: str) -> list[str]:
    """Somebody takes VF 0 after the plan was made and before the step runs."""
    with tempfile.TemporaryDirectory() as place, State(place) as state:
        assert all(o.good for o in _apply(state, first))
        (outcome,) = _apply(state, then, lambda: _take(pf))
        run("ip", "netns", "del", "taken")
        assert all(o.good for o in give_back(LinuxHost(), state, force=True))
    return [outcome.state, outcome.reason, outcome.fix]


def _take(pf: str) -> None:
    (name,) = netdevs((PCI / pf / "virtfn0").readlink().name)
    run("ip", "netns", "add", "taken")
    run("ip", "link", "set", name, "netns", "taken")


def disk_full(pf: str, place: str, policies: str) -> dict[str, Any]:
    """The journal's disk is filled before the second step; what is said, what is left,
    and what the next podrail does when there is room again."""
    begun: list[str] = []

    def fill(point: str) -> None:
        if point.startswith("before") and "step" in point:
            begun.append(point)
        if len(begun) == 2:
            fill_disk(place)

    with State(place, at_point=fill) as state:
        try:
            said = [[o.state, o.reason] for o in _apply(state, policies)]
        except Refused as no:
            said = [["refused", str(no)]]
    left = machine.vfs(pf)
    (Path(place) / "filler").unlink()
    with State(place) as state, state.working():
        resumed = [o.state for o in resume(LinuxHost(), state)]
        back = [o.state for o in give_back(LinuxHost(), state)]
    return {"said": said, "left": left, "resumed": resumed, "back": back}


def fill_disk(place: str) -> None:
    with open(f"{place}/filler", "ab", buffering=0) as filler:
        while True:
            try:
                filler.write(bytes(4096))
            except OSError:
                return


def clock_jumps(policies: str) -> dict[str, Any]:
    """Ten years forward while VFs are made, twenty back while they are given back."""
    true = time.time() - time.monotonic()

    def jump(years: float) -> Callable[[str], None]:
        def at_point(now: str) -> None:
            if now.startswith("after") and "step" in now:
                time.clock_settime(time.CLOCK_REALTIME, time.time() + years * _YEARS)

        return at_point

    try:
        with tempfile.TemporaryDirectory() as place:
            with State(place, at_point=jump(1)) as state:
                made = _apply(state, policies)
            with State(place, at_point=jump(-2)) as state:
                back = give_back(LinuxHost(), state)
    finally:
        time.clock_settime(time.CLOCK_REALTIME, true + time.monotonic())
    return {"states": [o.state for o in (*made, *back)],
            "longest": max(o.seconds for o in (*made, *back))}  # fmt: skip


def beside(seconds: float) -> list[Any]:
    """A podrail that finds another at work and has only so much patience."""
    with tempfile.TemporaryDirectory() as place, State(place) as state, state.working():
        ready, say = os.pipe()
        if os.fork() == 0:
            os.write(say, _refused(Path(place) / "work.lock", seconds).encode())
            os._exit(0)
        text = os.read(ready, 65536).decode()
        os.wait()
    return [text, os.getpid()]


def _refused(lock: Path, seconds: float) -> str:
    try:
        with locked(lock, seconds, "podrail"):
            return "it went to work"
    except Refused as no:
        return str(no)


def hold_group(pci: str) -> None:
    """Keep a VF's vfio group open until killed."""
    group = (PCI / pci / "iommu_group").readlink().name
    os.open(f"/dev/vfio/{group}", os.O_RDWR)
    sys.stdout.write("open\n")
    sys.stdout.flush()
    os.read(os.open("/dev/ptmx", os.O_RDWR), 1)
