"""SriovNetworkPoolConfig: which nodes form a pool and what RDMA mode it wants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from podrail.model.bundle import Bundle
from podrail.model.kinds.sriov import LabelSelector, SriovNetworkPoolConfig, SriovOperatorConfig


@dataclass(frozen=True, slots=True)
class Requirement:
    key: str
    operator: str
    values: tuple[str, ...] = ()

    def holds(self, labels: Mapping[str, str]) -> bool:
        found = labels.get(self.key)
        match self.operator:
            case "In":
                return found in self.values
            case "NotIn":
                return found not in self.values
            case "Exists":
                return self.key in labels
            case _:
                return self.key not in labels


@dataclass(frozen=True, slots=True)
class Pool:
    name: str
    requirements: tuple[Requirement, ...]
    rdma_mode: str | None

    def selects(self, labels: Mapping[str, str]) -> bool:
        """As a Kubernetes LabelSelector: all must hold, and none of them selects everything."""
        return all(r.holds(labels) for r in self.requirements)


@dataclass(frozen=True, slots=True)
class Habits:
    """How the operator goes about it: SriovOperatorConfig."""

    drains: bool = True
    reboots_always: bool = False
    """`configurationMode: systemd` makes every change at the next boot."""


def habits(bundle: Bundle) -> Habits:
    """The habits of the one SriovOperatorConfig that counts, called default."""
    for found in bundle.of(SriovOperatorConfig):
        spec = found.model.spec
        if found.resource.name == "default" and spec is not None:
            return Habits(not spec.disable_drain, spec.configuration_mode == "systemd")
    return Habits()


def pools(bundle: Bundle) -> tuple[Pool, ...]:
    """The pools of a bundle."""
    return tuple(
        Pool(t.resource.name, _requirements(spec.node_selector), spec.rdma_mode)
        for t in bundle.of(SriovNetworkPoolConfig)
        if (spec := t.model.spec) is not None
    )


def _requirements(selector: LabelSelector | None) -> tuple[Requirement, ...]:
    if selector is None:
        return ()
    exact = [Requirement(k, "In", (v,)) for k, v in (selector.match_labels or {}).items()]
    terms = [
        Requirement(e.key, e.operator, tuple(e.values or ()))
        for e in selector.match_expressions or ()
    ]
    return (*exact, *terms)
