"""What goes wrong in a data centre, done to a lab node on purpose, each with its undo."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass

from podrail.lab.host import LabHost
from podrail.lab.lifecycle import control
from podrail.lab.qmp import qmp
from podrail.lab.state import LabState
from podrail.model.errors import Refused, UsageError

_MBIT = 125_000
_PF_OF_NIC = ("0000:43:00.0", "0000:81:00.0")
"""Where QEMU puts them: see qemu.py."""


@dataclass(frozen=True, slots=True)
class Where:
    """A node of a lab, and what is named on the command line."""

    lab: LabState
    node: str
    host: LabHost
    arguments: tuple[str, ...]

    def argument(self, at: int, what: str) -> str:
        if at >= len(self.arguments):
            raise UsageError(f"this fault needs {what}")
        return self.arguments[at]

    def nic(self, at: int = 0) -> int:
        """The data NIC meant: 0 or 1; 0 unless said."""
        text = self.arguments[at] if at < len(self.arguments) else "0"
        if text not in ("0", "1"):
            raise UsageError(f"NIC {text!r}: a node's data NICs are 0 and 1")
        return int(text)

    def qmp(self, command: str, **arguments: object) -> None:
        qmp(self.lab.node(self.node).qmp, command, **arguments)

    def wire(self, nic: int, **what: object) -> None:
        control(self.lab, "wire", node=self.node, nic=nic, **what)


Act = Callable[[Where], str]


@dataclass(frozen=True, slots=True)
class Fault:
    """One kind of fault: how it is written, what it does, how it is undone."""

    usage: str
    says: str
    act: Act
    undo: Act | None = None


def _link(where: Where, up: bool) -> str:
    nic = where.nic()
    where.qmp("set_link", name=f"nic{nic}", up=up)
    return f"NIC {nic}: link {'up' if up else 'down'}"


def _flap(where: Where) -> str:
    times = int(where.arguments[1]) if len(where.arguments) > 1 else 3
    for _ in range(times):
        for up in (False, True):
            _link(where, up=up)
            _seen(where, up)
    return f"NIC {where.nic()}: carrier flapped {times} times"


def _seen(where: Where, up: bool) -> None:
    """Wait until the guest has noticed, where its port is up at all."""
    place = f"/sys/bus/pci/devices/{_PF_OF_NIC[where.nic()]}/net"
    deadline = time.monotonic() + 10.0
    for name in where.host.entries(place):
        with contextlib.suppress(OSError):  # a port that is down has no carrier to read
            while where.host.read(f"{place}/{name}/carrier").strip() != str(int(up)):
                if time.monotonic() > deadline:
                    raise Refused(f"{name} has not noticed the carrier within 10 s")


def _unbind(where: Where) -> str:
    pci = where.argument(0, "the PCI address of a VF")
    driver = where.host.readlink(f"/sys/bus/pci/devices/{pci}/driver").rpartition("/")[2]
    where.host.write(f"/sys/bus/pci/drivers/{driver}/unbind", pci)
    return f"{pci}: unbound from {driver}"


def _bind(where: Where) -> str:
    pci = where.argument(0, "the PCI address of a VF")
    where.host.write("/sys/bus/pci/drivers_probe", pci)
    return f"{pci}: probed again"


def _no_module(where: Where) -> str:
    """Gone, and it does not come back by itself: udev and modprobe are told so."""
    name = where.argument(0, "the name of a module")
    ran = where.host.run(["modprobe", "-r", name])
    if ran.rc:
        raise Refused(f"modprobe -r {name}: {ran.stderr.strip()}")
    where.host.connection.put(_blocked(name), f"install {name} /bin/false\n".encode())
    where.host.run(["udevadm", "control", "--reload"])  # udevd has /etc/modprobe.d in its memory
    return f"module {name}: gone"


def _module(where: Where) -> str:
    name = where.argument(0, "the name of a module")
    where.host.run(["rm", "-f", _blocked(name)])
    where.host.run(["udevadm", "control", "--reload"])
    ran = where.host.run(["modprobe", name])
    if ran.rc:
        raise Refused(f"modprobe {name}: {ran.stderr.strip()}")
    return f"module {name}: there again"


def _blocked(name: str) -> str:
    return f"/etc/modprobe.d/podrail-fault-{name}.conf"


def _mtu(where: Where) -> str:
    mtu = int(where.argument(0, "an MTU, for example 1500"))
    where.wire(where.nic(1), mtu=mtu)
    return f"wire of NIC {where.nic(1)}: frames over MTU {mtu} are lost"


def _mtu_undo(where: Where) -> str:
    where.wire(where.nic(1), mtu=None)
    return f"wire of NIC {where.nic(1)}: any MTU passes"


def _rate(where: Where) -> str:
    mbit = float(where.argument(0, "a rate in Mbit/s"))
    where.wire(where.nic(1), rate=int(mbit * _MBIT))
    return f"wire of NIC {where.nic(1)}: {mbit:g} Mbit/s"


def _rate_undo(where: Where) -> str:
    where.wire(where.nic(1), rate=None)
    return f"wire of NIC {where.nic(1)}: no limit"


def _namespace(where: Where) -> str:
    name = where.argument(0, "the name of a network namespace")
    ran = where.host.run(["ip", "netns", "del", name])
    if ran.rc:
        raise Refused(f"ip netns del {name}: {ran.stderr.strip()}")
    return f"namespace {name}: gone, with whatever was in it"


def _numvfs(where: Where) -> str:
    pci = where.argument(0, "the PCI address of a PF")
    count = where.argument(1, "a number of VFs")
    file = f"/sys/bus/pci/devices/{pci}/sriov_numvfs"
    total = int(where.host.read(f"/sys/bus/pci/devices/{pci}/sriov_totalvfs"))
    if not count.isdigit() or int(count) > total:
        raise UsageError(f"{count!r} VFs: {pci} can have 0 to {total}")
    if count != "0" and where.host.read(file).strip() not in ("0", count):
        where.host.write(file, "0")
    where.host.write(file, count)
    return f"{pci}: somebody wrote {count} to sriov_numvfs"


def _power(where: Where) -> str:
    where.qmp("system_reset")
    where.qmp("cont")  # a frozen node would stay frozen
    return f"{where.node}: power-cycled"


def _freeze(where: Where, command: str) -> str:
    where.qmp(command)
    return f"{where.node}: {'frozen' if command == 'stop' else 'goes on'}"


FAULTS: dict[str, Fault] = {
    "link-down": Fault("link-down [NIC]", "the cable is pulled",
                       lambda w: _link(w, up=False), lambda w: _link(w, up=True)),
    "flap": Fault("flap [NIC] [TIMES]", "the carrier comes and goes", _flap),
    "vf-unbind": Fault("vf-unbind PCI", "a VF loses its driver", _unbind, _bind),
    "module-missing": Fault("module-missing NAME", "a kernel module is not there",
                            _no_module, _module),
    "wire-mtu": Fault("wire-mtu MTU [NIC]", "a switch port has a smaller MTU", _mtu, _mtu_undo),
    "rate": Fault("rate MBIT [NIC]", "a switch port is policed", _rate, _rate_undo),
    "netns-gone": Fault("netns-gone NAME", "a pod's namespace dies with its VF", _namespace),
    "numvfs": Fault("numvfs PCI COUNT", "someone else writes sriov_numvfs", _numvfs),
    "freeze": Fault("freeze", "the node stops dead",
                    lambda w: _freeze(w, "stop"), lambda w: _freeze(w, "cont")),
    "power-cycle": Fault("power-cycle", "the node loses power and boots again", _power),
}  # fmt: skip


def inflict(where: Where, kind: str, *, undo: bool = False) -> str:
    """Do a fault, or take it back; says what happened."""
    fault = FAULTS.get(kind)
    if fault is None:
        raise UsageError(f"no fault called {kind!r}; there are {', '.join(FAULTS)}")
    if len(where.arguments) >= len(fault.usage.split()):
        raise UsageError(f"too many words: {fault.usage}")
    act = fault.undo if undo else fault.act
    if act is None:
        raise UsageError(f"{kind} cannot be taken back")
    try:
        return act(where)
    except (ValueError, OverflowError) as wrong:
        raise UsageError(f"{fault.usage}: {wrong}") from wrong
    except OSError as refused:
        reason = f"{refused.strerror} ({refused.filename})"
        raise Refused(f"{where.node} refuses {kind}: {reason}") from refused
