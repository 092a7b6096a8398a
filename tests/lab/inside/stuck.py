"""A VF that the kernel cannot take back: a process has its vfio device open.

Unbinding it waits in the kernel until the process lets go (drivers/vfio/vfio_main.c:
vfio_unregister_group_dev), as it does for a pod with DPDK inside.
"""

from __future__ import annotations

import fcntl
import os
import signal
import struct
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import podrail.realise.kinds  # noqa: F401 - enters every kind of step in the registry
from podrail.host import wait
from podrail.host.linux import LinuxHost
from podrail.realise.apply import APPLY, boot_id, resume
from podrail.realise.crew import work
from podrail.realise.engine import Outcome
from podrail.realise.journal import Job
from podrail.realise.state import State
from podrail.realise.step import Step

from .machine import PCI, driver

# include/uapi/linux/vfio.h
_SET_IOMMU, _SET_CONTAINER, _GET_DEVICE, _TYPE1 = 0x3B66, 0x3B68, 0x3B6A, 3
_VFIO, _NETDEVICE = {"0": "vfio-pci"}, {"0": "netdevice"}


def beside(slow: str, other: str) -> dict[str, Any]:
    """A PF whose VF is not let go until the other PF has its own: side by side or never."""
    with _made(slow) as state:
        vf = PCI / other / "virtfn0" / "driver"
        with _holder(slow, lambda: vf.is_symlink()):
            jobs = [_taking(slow), Job(other, (Step("vfs", other, 1),))]
            outcomes = _work(state, jobs, 60.0)
        _good(_work(state, [Job(other, (Step("vfs", other, 0),))]))
    return {outcome.subject: [outcome.state, outcome.reason] for outcome in outcomes}


def late(slow: str, other: str) -> dict[str, Any]:
    """A PF that does not come back in time: what is said, who can work meanwhile, how it ends."""
    with _made(slow) as state, tempfile.TemporaryDirectory() as folder:
        let_go = Path(folder) / "let-go"
        with _holder(slow, let_go.exists):
            with state.working():
                (outcome,) = _work(state, [_taking(slow)], 1.0)
            meanwhile = _meanwhile(state, other)
            let_go.touch()
        while state.journal.unfinished():
            resume(LinuxHost(), state)
        vf = driver((PCI / slow / "virtfn0").readlink().name)
    return {"state": outcome.state, "reason": outcome.reason, "fix": outcome.fix,
            "meanwhile": meanwhile, "driver": vf}  # fmt: skip


def _meanwhile(state: State, other: str) -> list[list[str]]:
    """The next podrail, while the first one's worker is still in the kernel."""
    with state.working():
        resumed = resume(LinuxHost(), state)
        free = [_work(state, [Job(other, (Step("vfs", other, n),))])[0] for n in (1, 0)]
    return [[o.subject, o.state, o.reason] for o in (*resumed, *free)]


def _taking(pf: str) -> Job:
    return Job(pf, (Step("vf-driver", pf, _NETDEVICE),), force=True)


@contextmanager
def _made(pf: str) -> Iterator[State]:
    """One VF on vfio-pci, and none again at the end."""
    with tempfile.TemporaryDirectory() as place, State(place) as state:
        _good(_work(state, [Job(pf, (Step("vfs", pf, 1), Step("vf-driver", pf, _VFIO)))]))
        yield state
        _good(_work(state, [Job(pf, (Step("vfs", pf, 0),))]))


def _work(state: State, jobs: list[Job], limit: float = 60.0) -> list[Outcome]:
    run = state.journal.open_run(APPLY, boot_id(LinuxHost()), jobs)
    return work(LinuxHost(), state.journal, run, APPLY, jobs, limit=limit)


def _good(outcomes: list[Outcome]) -> None:
    for outcome in outcomes:
        assert outcome.good, outcome


@contextmanager
def _holder(pf: str, until: Callable[[], bool]) -> Iterator[None]:
    """Another process with the device open, until something has happened."""
    ready, say = os.pipe()
    pid = os.fork()
    if pid == 0:
        _hold(pf, say, until)
    os.close(say)
    assert os.read(ready, 1) == b"y", "the VF's vfio device cannot be opened"
    try:
        yield
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _hold(pf: str, say: int, until: Callable[[], bool]) -> None:
    try:
        opened = open_device((PCI / pf / "virtfn0").readlink().name)
        os.write(say, b"y")
        wait.until(LinuxHost(), until, 120.0)
        for fd in opened:
            os.close(fd)
        signal.pause()
    finally:
        os._exit(1)


def open_device(pci: str) -> tuple[int, ...]:
    """Its container, group and device, as DPDK and QEMU open them."""
    group = (PCI / pci / "iommu_group").readlink().name
    container = os.open("/dev/vfio/vfio", os.O_RDWR)
    member = os.open(f"/dev/vfio/{group}", os.O_RDWR)
    fcntl.ioctl(member, _SET_CONTAINER, struct.pack("i", container))
    fcntl.ioctl(container, _SET_IOMMU, _TYPE1)
    device = fcntl.ioctl(member, _GET_DEVICE, bytearray(pci.encode() + b"\0"), True)
    return device, member, container
