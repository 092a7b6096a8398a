"""Whether a device may be given to a pod: judged from link, driver and RDMA, flaps damped.

Unhealthy keeps new pods away; the kubelet leaves those that have the device alone. So a fault
counts at once, and the all-clear only after it held for a while.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from podrail.attach.deviceplugin.candidates import Candidate
from podrail.attach.deviceplugin.resources import ANY, KERNEL, Slot, Traits
from podrail.model.inventory import Inventory, Pf, RdmaDevice
from podrail.planning.decide import USERSPACE_DRIVERS

HOLD = 5.0
"""Seconds without a fault before a device counts as healthy again."""

# Documentation/networking/operstates.rst; UNKNOWN is a driver that does not tell
_NO_LINK = frozenset({"DOWN", "LOWERLAYERDOWN", "NOTPRESENT"})


@dataclass(frozen=True, slots=True)
class Mark:
    """How a device stands: its fault, and since when it has had none."""

    fault: str | None = None
    good_since: float | None = None


Marks = Mapping[str, Mark]


def damped(
    before: Marks, faults: Mapping[str, str | None], now: float, hold: float = HOLD
) -> dict[str, Mark]:
    """The marks after a look that found these faults; who is not in it is forgotten."""
    return {id: _mark(before.get(id), fault, now, hold) for id, fault in faults.items()}


def _mark(before: Mark | None, fault: str | None, now: float, hold: float) -> Mark:
    if fault is not None:
        return Mark(fault)
    if before is None or before.fault is None:
        return Mark()
    since = now if before.good_since is None else before.good_since
    return Mark() if now - since >= hold else Mark(before.fault, since)


def due(marks: Marks, hold: float = HOLD) -> float | None:
    """When a device will next have been good for long enough; None where none waits."""
    waiting = [mark.good_since for mark in marks.values() if mark.good_since is not None]
    return min(waiting) + hold if waiting else None


@dataclass(frozen=True, slots=True)
class Port:
    """What the PF says about all of its functions."""

    rdma: bool = False
    fault: str | None = None


def ports(inventory: Inventory) -> dict[str, Port]:
    """PF → how its port stands."""
    verbs = {device.name: device for device in inventory.rdma}
    return {
        pf.pci: Port(pf.rdma is not None, _link(pf, verbs.get(pf.rdma or "")))
        for pf in inventory.pfs
    }


def judge(slot: Slot, known: Mapping[str, Port]) -> str | None:
    """What is wrong with a device, or None. One good HCA of several that are shared suffices."""
    found = [_function(one, slot.traits, known.get(one.pf or "")) for one in slot.members]
    return None if not found or None in found else found[0]


def _function(one: Candidate, traits: Traits, port: Port | None) -> str | None:
    return _driver(one, traits) or _rdma(one, traits, port) or (port.fault if port else None)


def _driver(one: Candidate, traits: Traits) -> str | None:
    now, wanted = one.driver_now, traits.driver
    if now is None:
        return f"{one.id} has no driver"
    if wanted == KERNEL:
        own = now not in USERSPACE_DRIVERS
        return None if own else f"{one.id} is bound to {now}, not to the kernel's own driver"
    return None if wanted in (ANY, now) else f"{one.id} is bound to {now}, not to {wanted}"


def _rdma(one: Candidate, traits: Traits, port: Port | None) -> str | None:
    """A VF in a pod may have its RDMA device there; on a PF without one it is made in the pod."""
    if not traits.rdma or one.rdma_now or one.held or (port is not None and not port.rdma):
        return None
    return f"{one.id} has no RDMA device"


def _link(pf: Pf, verbs: RdmaDevice | None) -> str | None:
    """The PF's port: a VF's own is down until a pod has it. What is not known is no fault."""
    if pf.link_type == "ib":
        return _infiniband(verbs)
    if pf.admin_up is False:
        return f"{pf.name} is down"
    return f"{pf.name} has no carrier" if pf.state in _NO_LINK else None


def _infiniband(verbs: RdmaDevice | None) -> str | None:
    states = {port.state for port in verbs.ports if port.state} if verbs else set()
    if verbs is None or not states or "ACTIVE" in states:
        return None
    return f"the port of {verbs.name} is {', '.join(sorted(states))}"
