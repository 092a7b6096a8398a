"""What would change on a node, why, and what that disturbs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from podrail.model.finding import Finding
from podrail.model.policy import VfRange

SCHEMA = "podrail/plan/1"


class Action(StrEnum):
    """What happens to a PF. `adjust` changes it in place; the VFs stay."""

    NONE = "none"
    CREATE = "create"
    ADJUST = "adjust"
    RESIZE = "resize"
    RECREATE = "recreate"
    RESET = "reset"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class Change:
    """One value that would change; `overrode` names the policies whose value lost."""

    field: str
    old: str | int | None
    new: str | int | None
    set_by: str
    overrode: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "field": self.field,
            "from": self.old,
            "to": self.new,
            "set_by": self.set_by,
            "overrode": list(self.overrode),
        }


@dataclass(frozen=True, slots=True)
class VfGroup:
    """A range of VFs handed out under one resource name."""

    range: VfRange
    resource: str
    device_type: str
    rdma: bool
    policy: str
    mtu: int | None = None
    vdpa: str | None = None
    overrode: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "range": str(self.range),
            "resource": self.resource,
            "device_type": self.device_type,
            "rdma": self.rdma,
            "policy": self.policy,
            "mtu": self.mtu,
            "overrode": list(self.overrode),
        }


@dataclass(frozen=True, slots=True)
class Disturbs:
    """Who feels it: pods that hold VFs, a drain, a reboot, and how long it takes."""

    pods: tuple[str, ...] = ()
    drain: bool = False
    reboot: bool = False
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        return {
            "pods": list(self.pods),
            "drain": self.drain,
            "reboot": self.reboot,
            "seconds": self.seconds,
        }


UNDISTURBED = Disturbs()


@dataclass(frozen=True, slots=True)
class PfPlan:
    pci: str
    name: str
    action: Action
    changes: tuple[Change, ...] = ()
    vf_groups: tuple[VfGroup, ...] = ()
    disturbs: Disturbs = UNDISTURBED
    refused: str | None = None
    fix: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "pci": self.pci,
            "name": self.name,
            "action": self.action.value,
            "changes": [c.to_json() for c in self.changes],
            "vf_groups": [g.to_json() for g in self.vf_groups],
            "disturbs": self.disturbs.to_json(),
            "refused": self.refused,
            "fix": self.fix,
        }


@dataclass(frozen=True, slots=True)
class NotSelected:
    """A PF that a policy passed over, and why; `*` stands for the whole node."""

    pf: str
    policy: str
    reason: str

    def to_json(self) -> dict[str, Any]:
        return {"pf": self.pf, "policy": self.policy, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class NodePlan:
    node: str
    pfs: tuple[PfPlan, ...]
    passed_over: tuple[Sequence[NotSelected], ...] = ()
    """Shared between nodes that look alike: read it through `not_selected`."""
    system: tuple[Change, ...] = ()
    """What changes on the machine itself: kernel arguments, RDMA namespace mode."""
    settings: tuple[Change, ...] = ()
    """What host profiles change, on the machine and on its PFs; none of it needs a reboot."""

    @property
    def not_selected(self) -> Iterator[NotSelected]:
        for reasons in self.passed_over:
            yield from reasons

    @property
    def changed(self) -> bool:
        if self.system or self.settings:
            return True
        return any(pf.action is not Action.NONE for pf in self.pfs)

    @property
    def reboot(self) -> bool:
        return bool(self.system) or any(pf.disturbs.reboot for pf in self.pfs)

    def to_json(self) -> dict[str, Any]:
        return {
            "node": self.node,
            "pfs": [pf.to_json() for pf in self.pfs],
            "not_selected": [n.to_json() for n in self.not_selected],
            "system": [c.to_json() for c in self.system],
            "settings": [c.to_json() for c in self.settings],
        }


@dataclass(frozen=True, slots=True)
class Plan:
    nodes: tuple[NodePlan, ...]
    findings: tuple[Finding, ...] = ()

    @property
    def changed(self) -> bool:
        return any(node.changed for node in self.nodes)

    @property
    def refused(self) -> bool:
        return any(pf.action is Action.REFUSE for node in self.nodes for pf in node.pfs)

    def to_json(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "nodes": [node.to_json() for node in self.nodes],
            "findings": [f.to_json() for f in self.findings],
        }
