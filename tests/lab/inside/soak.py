"""Random operations one after the other, as a year of nights would bring them."""

from __future__ import annotations

import contextlib
import os
import random
import select
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from podrail.host.linux import LinuxHost
from podrail.model.bundle import read
from podrail.realise.apply import Consent, differing, give_back, intend, realise, resume
from podrail.realise.state import State

from .machine import PCI, PFS, driver, netdevs, run
from .policies import policy

_POLICIES = {
    "two rails": [policy("rails", 2, "ens2")],
    "a rail and a vfio": [
        policy("rails", 2, "ens2#0-0"),
        policy("storage", 2, "ens2#1-1", deviceType="vfio-pci"),
    ],
    "one on each": [policy("rails", 1, "ens2", "enp67s0")],
    "jumbo": [policy("rails", 1, "enp67s0", mtu=9000)],
    "vfio on the other": [policy("storage", 2, "enp67s0", deviceType="vfio-pci")],
}
_LONGEST = 4.0
"""Seconds into a run at which it may be killed; the longest one takes about as long."""


def soak(seed: int, count: int) -> list[str]:
    """What was done, a line each; an operation that does not end as wanted ends it all."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as place:
        soaking = _Soak(place, random.Random(seed))
        for number in range(count):
            soaking.step(number)
        soaking.reset()
        return soaking.told


class _Soak:
    def __init__(self, place: str, dice: random.Random) -> None:
        self.place, self.dice = place, dice
        self.wanted = ""
        self.told: list[str] = []

    def step(self, number: int) -> None:
        (do,) = self.dice.choices([self.apply, self.reset, self.drift, self.kill], [3, 1, 3, 3])
        start = time.monotonic()
        said = do()
        self.told.append(f"{number:2} {said} ({time.monotonic() - start:.1f} s)")

    # --- what may happen ----------------------------------------------------------------------

    def apply(self) -> str:
        self.wanted = self.dice.choice(sorted(_POLICIES))
        _whole(self._apply)
        self._as_wanted()
        return f"apply {self.wanted}"

    def reset(self) -> str:
        self.wanted = ""
        _whole(self._reset)
        assert not any(_vfs(pf) for pf in PFS), "a VF is left"
        return "reset"

    def drift(self) -> str:
        before = "" if self.wanted else f"{self.apply()}, "
        pf = self.dice.choice([pf for pf in PFS if _vfs(pf)])
        said = self.dice.choice([_numvfs, _unbind, _mtu, _down])(pf, self.dice)
        _whole(self._apply)
        self._as_wanted()
        return f"{before}{said}, mended"

    def kill(self) -> str:
        do, after = self.dice.choice([self._apply, self._reset]), self.dice.uniform(0, _LONGEST)
        if do == self._apply:
            self.wanted = self.dice.choice(sorted(_POLICIES))
        _killed(do, after)
        _whole(do)
        said = f"killed {after:.1f} s into {do.__name__.strip('_')}, and again"
        if do == self._apply:
            self._as_wanted()
        else:
            self.wanted = ""
        return f"{said} {self.wanted}".rstrip()

    # --- podrail ------------------------------------------------------------------------------

    def _apply(self) -> bool:
        bundle = read([("p.yaml", "\n---\n".join(_POLICIES[self.wanted]))])
        with State(self.place) as state, state.working():
            resume(LinuxHost(), state)
            intent = intend(LinuxHost(), bundle, state.journal, {}, Consent())
            return all(outcome.good for outcome in realise(LinuxHost(), state, intent))

    def _reset(self) -> bool:
        with State(self.place) as state, state.working():
            resume(LinuxHost(), state)
            return all(outcome.good for outcome in give_back(LinuxHost(), state))

    def _as_wanted(self) -> None:
        bundle = read([("p.yaml", "\n---\n".join(_POLICIES[self.wanted]))])
        with State(self.place) as state:
            intent = intend(LinuxHost(), bundle, state.journal, {}, Consent())
            assert (intent.refusals, intent.given_back) == ((), ()), intent
            assert not state.journal.unfinished(), state.journal.unfinished()
        wrong = {job.subject: differing(LinuxHost(), job) for job in intent.jobs}
        assert not any(wrong.values()), (self.wanted, wrong)


# --- processes --------------------------------------------------------------------------------


def _started(do: Callable[[], bool]) -> int:
    pid = os.fork()
    if pid == 0:
        rc = 1
        try:
            os.setpgid(0, 0)
            rc = 0 if do() else 2
        finally:
            os._exit(rc)
    return pid


def _whole(do: Callable[[], bool]) -> None:
    status = os.waitstatus_to_exitcode(os.waitpid(_started(do), 0)[1])
    assert status == 0, f"ended with {status}"


def _killed(do: Callable[[], bool], after: float) -> None:
    pid = _started(do)
    ended = os.pidfd_open(pid)
    select.select([ended], [], [], after)
    with contextlib.suppress(ProcessLookupError):  # it was faster
        os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(ended)


# --- drift ------------------------------------------------------------------------------------


def _vfs(pf: str) -> list[str]:
    return [link.readlink().name for link in sorted((PCI / pf).glob("virtfn*"))]


def _numvfs(pf: str, dice: random.Random) -> str:
    file, other = PCI / pf / "sriov_numvfs", dice.choice([0, 3])
    file.write_text("0")
    if other:
        file.write_text(str(other))
        run("udevadm", "settle")
    return f"somebody wrote {other} VFs to {pf}"


def _unbind(pf: str, dice: random.Random) -> str:
    vf = dice.choice(_vfs(pf))
    Path(f"/sys/bus/pci/drivers/{driver(vf)}/unbind").write_text(vf)
    return f"somebody unbound {vf}"


def _mtu(pf: str, dice: random.Random) -> str:
    (name,) = netdevs(pf)
    now = int((PCI / pf / "net" / name / "mtu").read_text())
    run("ip", "link", "set", name, "mtu", "1500")
    return f"somebody set {name}'s mtu {now} to 1500"


def _down(pf: str, dice: random.Random) -> str:
    (name,) = netdevs(pf)
    run("ip", "link", "set", name, "down")
    return f"somebody set {name} down"
