"""What it costs to realise a plan on a twin, and to keep an agent running."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from podrail.host.twins.scale import scaled
from podrail.model.bundle import Bundle, read
from podrail.realise.apply import Consent, give_back, intend, realise
from podrail.realise.state import State

_POLICY = """\
apiVersion: sriovnetwork.openshift.io/v1
kind: SriovNetworkNodePolicy
metadata: {{name: rails, namespace: sriov-network-operator}}
spec:
  resourceName: rails
  nodeSelector: {{}}
  numVfs: {vfs}
  mtu: 9000
  isRdma: true
  nicSelector: {selector}
"""
_NO_SUCH_NIC = '{rootDevices: ["ffff:ff:1f.7"]}'
_IDLE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Applied:
    vfs: int
    apply: float
    again: float
    reset: float


def _policy(vfs: int, selector: str) -> Bundle:
    return read([("bench.yaml", _POLICY.format(vfs=vfs, selector=selector))])


def apply_on_twin(vfs: int, pfs: int = 16) -> Applied:
    """Make, look at, and give back `pfs` × `vfs` VFs, with a journal on disk."""
    host, bundle = scaled(pfs, 0), _policy(vfs, '{vendor: "15b3"}')
    with tempfile.TemporaryDirectory() as place, State(place) as state:

        def once() -> float:
            start = time.perf_counter()
            outcomes = realise(host, state, intend(host, bundle, state.journal, {}, Consent()))
            assert all(outcome.good for outcome in outcomes), outcomes
            return time.perf_counter() - start

        first, second = once(), once()
        start = time.perf_counter()
        assert all(outcome.good for outcome in give_back(host, state))
        return Applied(pfs * vfs, first, second, time.perf_counter() - start)


@dataclass(frozen=True, slots=True)
class Idle:
    cpu: float
    """Part of one core."""
    megabytes: float


def idle_agent() -> Idle:
    """A real agent on this machine that wants a NIC no machine has, and so touches nothing."""
    with tempfile.TemporaryDirectory() as place:
        manifest = Path(place) / "policy.yaml"
        manifest.write_text(_POLICY.format(vfs=4, selector=_NO_SUCH_NIC), encoding="utf-8")
        argv = [sys.executable, "-c", "from podrail.cli import main; main()", "agent", "-f",
                str(manifest), "--state", f"{place}/state"]  # fmt: skip
        with _started(argv, f"{place}/notify") as pid:
            before = _cpu(pid)
            time.sleep(_IDLE_SECONDS)  # the figure is what happens while nothing does
            return Idle((_cpu(pid) - before) / _IDLE_SECONDS, _resident(pid))


@contextmanager
def _started(argv: list[str], notify: str) -> Iterator[int]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ready:
        ready.bind(notify)
        ready.settimeout(60.0)
        env = {**os.environ, "NOTIFY_SOCKET": notify}
        process = subprocess.Popen(argv, env=env, stderr=subprocess.DEVNULL)
        try:
            while b"READY=1" not in ready.recv(4096):
                pass
            yield process.pid
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=30)


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _resident(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
