"""How many VFs and addresses a pool needs, where the limit binds, and by how much."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

SCHEMA = "podrail/size/1"

LOW_BUFFER, HIGH_BUFFER = 10, 20
"""Percent of spare VFs that keep scheduling flexible."""


@dataclass(frozen=True, slots=True)
class Ask:
    """What the workloads want."""

    pods_per_node: int
    vfs_per_pod: int = 1
    nodes: int = 1
    buffer: int = HIGH_BUFFER


@dataclass(frozen=True, slots=True)
class Port:
    """A PF that may carry the VFs: how many it can have, and how many a policy would make."""

    name: str
    totalvfs: int
    num_vfs: int | None = None


@dataclass(frozen=True, slots=True)
class Pool:
    """An address pool; `per_node` when every node has its own."""

    name: str
    addresses: int
    per_node: bool = False


@dataclass(frozen=True, slots=True)
class Limit:
    """One thing that can run out."""

    what: str
    need: int
    have: int

    @property
    def spare(self) -> int:
        return self.have - self.need

    def to_json(self) -> dict[str, Any]:
        return {"what": self.what, "need": self.need, "have": self.have, "spare": self.spare}


@dataclass(frozen=True, slots=True)
class Sizing:
    """The answer."""

    minimum: int
    low: int
    high: int
    wanted: int
    per_pf: int | None
    addresses: int
    limits: tuple[Limit, ...]

    @property
    def binding(self) -> Limit | None:
        """The limit that runs out first, in proportion to what is needed."""
        return min(self.limits, key=lambda it: it.have / max(it.need, 1), default=None)

    @property
    def fits(self) -> bool:
        return all(limit.spare >= 0 for limit in self.limits)

    def to_json(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "vfs": {
                "minimum": self.minimum,
                "with_buffer": [self.low, self.high],
                "wanted": self.wanted,
                "per_pf": self.per_pf,
            },
            "addresses": self.addresses,
            "limits": [limit.to_json() for limit in self.limits],
            "binding": self.binding and self.binding.to_json(),
            "fits": self.fits,
        }


def size(ask: Ask, ports: Sequence[Port] = (), pools: Sequence[Pool] = ()) -> Sizing:
    """VFs per node are pods × VFs per pod and a buffer; addresses are PFs × VFs × nodes.

    The addresses needed are those of all VFs that will exist, since any of them may be handed out.
    """
    minimum = ask.pods_per_node * ask.vfs_per_pod
    wanted = _buffered(minimum, ask.buffer)
    per_pf = -(-wanted // len(ports)) if ports else None
    made = sum(port.num_vfs or per_pf or 0 for port in ports) or wanted
    addresses = made * ask.nodes
    return Sizing(
        minimum=minimum,
        low=_buffered(minimum, LOW_BUFFER),
        high=_buffered(minimum, HIGH_BUFFER),
        wanted=wanted,
        per_pf=per_pf,
        addresses=addresses,
        limits=(*_vf_limits(wanted, ports), *_address_limits(made, addresses, pools)),
    )


def _buffered(vfs: int, percent: int) -> int:
    return -(-vfs * (100 + percent) // 100)


def _vf_limits(wanted: int, ports: Sequence[Port]) -> list[Limit]:
    if not ports:
        return []
    limits = [
        Limit("VFs the NICs can have (sriov_totalvfs)", wanted, sum(p.totalvfs for p in ports)),
        *(
            Limit(f"VFs policies want of {p.name} (sriov_totalvfs)", p.num_vfs, p.totalvfs)
            for p in ports
            if p.num_vfs is not None and p.num_vfs > p.totalvfs
        ),
    ]
    if any(port.num_vfs is not None for port in ports):
        limits.append(
            Limit("VFs the policies make (numVfs)", wanted, sum(p.num_vfs or 0 for p in ports))
        )
    return limits


def _address_limits(made: int, addresses: int, pools: Sequence[Pool]) -> list[Limit]:
    return [
        Limit(f"addresses of {p.name}", made if p.per_node else addresses, p.addresses)
        for p in pools
    ]
