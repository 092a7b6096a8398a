"""An agent in the background, what is done to its machine, and how soon it says so.

All times are of one clock of the node. What somebody does has happened when his write returns: the
kernel holds the PF's lock until then, and a look at the PF waits for it.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from podrail.host.linux import LinuxHost
from podrail.realise.apply import give_back
from podrail.realise.state import State

from . import machine
from .machine import PCI, netdevs, run
from .policies import policy

Report = dict[str, Any]
Drift = Callable[[str], None]

_PATIENCE = 60.0
_IDLE_SECONDS = 4.0
MTU = 1600


class Agent:
    """`podrail agent`, the program itself."""

    def __init__(self, folder: str) -> None:
        argv = ["podrail", "agent", "-f", folder, "-o", "json"]
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert self.process.stdout is not None
        self._fd, self._left = self.process.stdout.fileno(), b""
        self.heard: list[tuple[float, Report]] = []

    @property
    def pid(self) -> int:
        return self.process.pid

    def await_(self, *events: str, **like: str) -> tuple[float, Report]:
        """The next report of such an event, and when it was said."""
        deadline = time.monotonic() + _PATIENCE
        while (line := self._line(deadline - time.monotonic())) is not None:
            self.heard.append((time.monotonic(), json.loads(line)))
            if _is(self.heard[-1][1], events, like):
                return self.heard[-1]
        raise AssertionError(f"no {events} {like} in {_PATIENCE:g} s, but {self.heard[-6:]}")

    def until(self, condition: Callable[[], bool]) -> float | None:
        """When something came true, with what it said meanwhile heard; None if it did not."""
        deadline = time.monotonic() + _PATIENCE
        while not condition():
            if time.monotonic() > deadline:
                return None
            self.silent(0.2)
        return time.monotonic()

    def silent(self, seconds: float) -> bool:
        """Whether it says nothing for a while."""
        return self._line(seconds) is None

    def _line(self, seconds: float) -> bytes | None:
        deadline = time.monotonic() + seconds
        while b"\n" not in self._left:
            left = max(0.0, deadline - time.monotonic())
            part = os.read(self._fd, 65536) if select.select([self._fd], [], [], left)[0] else b""
            if not part:
                return None
            self._left += part
        line, _, self._left = self._left.partition(b"\n")
        return line

    def end(self, number: int) -> int:
        self.process.send_signal(number)
        return self.process.wait(_PATIENCE)

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory_mib(self) -> float:
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def _is(report: Report, events: tuple[str, ...], like: dict[str, str]) -> bool:
    return report["event"] in events and all(report[k] == v for k, v in like.items())


@contextmanager
def _wanting(*policies: str) -> Iterator[Path]:
    """A directory with manifests; what was made for them is given back at the end."""
    try:
        with tempfile.TemporaryDirectory() as folder:
            want(Path(folder), *policies)
            yield Path(folder)
    finally:
        _given_back()


def _given_back() -> None:
    with State() as state, state.working():
        state.journal.want(())
        for outcome in give_back(LinuxHost(), state):
            assert outcome.good, outcome


def want(folder: Path, *policies: str) -> None:
    """Replaced whole, as a mounted ConfigMap is."""
    (folder / ".new").write_text("\n---\n".join(policies))
    (folder / ".new").rename(folder / "policies.yaml")


@contextmanager
def _agent(folder: Path) -> Iterator[Agent]:
    agent = Agent(str(folder))
    try:
        agent.await_("ready")
        yield agent
    finally:
        if agent.process.poll() is None:
            agent.end(signal.SIGTERM)


# --- drift ------------------------------------------------------------------------------------


def _vf(pf: str, index: int) -> str:
    return (PCI / pf / f"virtfn{index}").readlink().name


def _numvfs(pf: str) -> None:
    (PCI / pf / "sriov_numvfs").write_text("0")


def _unbound(pf: str) -> None:
    Path("/sys/bus/pci/drivers/igbvf/unbind").write_text(_vf(pf, 1))


def _vf_mtu(pf: str) -> None:
    run("ip", "link", "set", netdevs(_vf(pf, 0))[0], "mtu", "1500")


def _pf_mtu(pf: str) -> None:
    run("ip", "link", "set", netdevs(pf)[0], "mtu", "1500")


def _pf_down(pf: str) -> None:
    run("ip", "link", "set", netdevs(pf)[0], "down")


def _driver_gone(pf: str) -> None:
    Path("/sys/bus/pci/drivers/igb/unbind").write_text(pf)


def _driver_back(pf: str) -> None:
    Path("/sys/bus/pci/drivers_probe").write_text(pf)


def _unplugged(pf: str) -> None:
    (PCI / pf / "remove").write_text("1")


def _plugged(pf: str) -> None:
    Path("/sys/bus/pci/rescan").write_text("1")


DRIFTS: dict[str, tuple[Drift, Drift | None]] = {
    "numvfs": (_numvfs, None),
    "vf unbound": (_unbound, None),
    "vf mtu": (_vf_mtu, None),
    "pf mtu": (_pf_mtu, None),
    "pf down": (_pf_down, None),
    "pf driver": (_driver_gone, _driver_back),
    "hot-plug": (_unplugged, _plugged),
}
"""What is done, and for a NIC that goes away, how it comes back."""


def drifts(pf: str) -> dict[str, Any]:
    """Each drift: seconds until it was said, what was said, seconds until it was mended."""
    (name,) = netdevs(pf)
    found: dict[str, Any] = {}
    with _wanting(policy("rails", 2, name, mtu=MTU)) as folder, _agent(folder) as agent:
        found["idle"] = _idle(agent)
        before = machine.vfs(pf)
        for case, (do, undo) in DRIFTS.items():
            agent.process.send_signal(signal.SIGHUP)  # no grudge from one case to the next
            _settled(agent)
            found[case] = _drift(agent, pf, do, undo, before)
    return found


def _drift(
    agent: Agent, pf: str, do: Drift, undo: Drift | None, before: list[dict[str, Any]]
) -> dict[str, Any]:
    do(pf)
    done = time.monotonic()
    said, report = agent.await_("drift", pf=pf)
    if undo:
        undo(pf)
        done_again = time.monotonic()
    agent.await_("mended", pf=pf)
    whole = agent.until(lambda: _same(pf, before))
    return {"noticed": said - done, "whole": whole and whole - (done_again if undo else done),
            "what": report["what"], "actual": report["actual"],
            "wanted": report["wanted"]}  # fmt: skip


def _settled(agent: Agent) -> None:
    """All is said and done: it rests."""
    used = -1.0
    while not agent.silent(0.3) or used != agent.cpu_seconds():
        used = agent.cpu_seconds()


def _same(pf: str, before: list[dict[str, Any]]) -> bool:
    try:
        now, vfs = machine.pf(pf), machine.vfs(pf)
    except (OSError, ValueError, RuntimeError):  # it comes and goes meanwhile
        return False
    mine = (now["numvfs"], now["mtu"], now["up"]) == (2, MTU, True)
    return mine and [_lasting(vf) for vf in vfs] == [_lasting(vf) for vf in before]


def _lasting(vf: dict[str, Any]) -> dict[str, Any]:
    return {key: vf[key] for key in ("pci", "driver", "netdev", "mtu", "mac", "admin_mac")}


def _idle(agent: Agent) -> dict[str, Any]:
    _settled(agent)
    before = agent.cpu_seconds()
    silent = agent.silent(_IDLE_SECONDS)
    used = agent.cpu_seconds() - before
    return {"silent": silent, "cpu": used / _IDLE_SECONDS, "mib": agent.memory_mib()}


# --- held, stopped, killed --------------------------------------------------------------------


def held(pf: str) -> dict[str, Any]:
    """More VFs are wanted while one is in a pod; then the pod goes."""
    (name,) = netdevs(pf)
    with _wanting(policy("rails", 1, name)) as folder, _agent(folder) as agent:
        run("ip", "netns", "add", "pod")
        run("ip", "link", "set", f"{name}v0", "netns", "pod")
        want(folder, policy("rails", 2, name))
        _, refused = agent.await_("refused", pf=pf)
        kept = [len(machine.vfs(pf)), f"{name}v0" in run("ip", "-n", "pod", "-br", "link")]
        run("ip", "netns", "del", "pod")
        agent.await_("mended", pf=pf)
        return {"refused": refused["reason"], "fix": refused["fix"], "kept": kept,
                "then": len(machine.vfs(pf))}  # fmt: skip


def restarts(pf: str) -> dict[str, Any]:
    """Stopped and started, a second one beside it, killed, killed while it mends."""
    (name,) = netdevs(pf)
    found: dict[str, Any] = {}
    with _wanting(policy("rails", 2, name)) as folder:
        with _agent(folder) as agent:
            made = machine.vfs(pf)
            found["second"] = _second(folder), agent.pid
            found["stopped"] = agent.end(signal.SIGTERM)
        with _agent(folder) as agent:
            found["same"] = machine.vfs(pf) == made
            found["said"] = [report["event"] for _, report in agent.heard]
            _numvfs(pf)
            agent.await_("drift", pf=pf)
            agent.end(signal.SIGKILL)
        with _agent(folder) as agent:
            vfs = machine.vfs(pf)
        found["again"] = [_lasting(vf) for vf in vfs] == [_lasting(vf) for vf in made]
    return found


def _second(folder: Path) -> tuple[int, str]:
    argv = ["podrail", "agent", "-f", str(folder)]
    ran = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=_PATIENCE)
    return ran.returncode, ran.stderr
