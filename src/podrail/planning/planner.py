"""Policies × inventories → plan, for one machine or ten thousand.

Nodes of a pool look alike, so everything that depends only on labels, on a PF's identity, or on its
state is decided once and shared. A change of one node costs one node.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from podrail.model.bundle import Bundle
from podrail.model.finding import Finding, Status, Subject
from podrail.model.inventory import Inventory, Pf
from podrail.model.plan import Action, Change, NodePlan, NotSelected, PfPlan, Plan
from podrail.model.policy import Policy, in_order, policies
from podrail.planning.cost import REBOOT_SECONDS
from podrail.planning.decide import Machine, decide, disturbing_holders, give_back, wants_vfio
from podrail.planning.merge import Wish, merge
from podrail.planning.pools import Habits, Pool, habits, pools
from podrail.planning.select import selects_node, selects_pf

VIRTUAL_FUNCTIONS = 8
"""The rung of the ladder that a plan's findings belong to."""


@dataclass(frozen=True, slots=True)
class _NodeChoice:
    """The policies that select a node, each with whether it ties with the one before."""

    chosen: tuple[tuple[Policy, bool], ...]
    rejected: tuple[NotSelected, ...]


@dataclass(frozen=True, slots=True)
class _PfChoice:
    wish: Wish | None
    rejected: tuple[NotSelected, ...]


class Planner:
    """Plans node by node and remembers what nodes have in common."""

    def __init__(
        self,
        chosen: Iterable[Policy],
        pools: Iterable[Pool] = (),
        *,
        allow_management: Collection[str] = (),
        allow_firmware: bool = False,
        habits: Habits = Habits(),  # noqa: B008 - frozen
    ) -> None:
        self._policies = in_order(tuple(chosen))
        self._pools = tuple(pools)
        self._habits = habits
        self._allowed = frozenset(allow_management)
        self._firmware = allow_firmware
        self._label_keys = sorted({k for p in self._policies for k, _ in p.node_selector})
        self._by_labels: dict[tuple[str | None, ...], _NodeChoice] = {}
        self._by_pf: dict[tuple[object, ...], _PfChoice] = {}
        self._decided: dict[tuple[object, ...], PfPlan] = {}

    @classmethod
    def of(
        cls, bundle: Bundle, *, allow_management: Collection[str] = (), allow_firmware: bool = False
    ) -> Planner:
        return cls(
            policies(bundle),
            pools(bundle),
            allow_management=allow_management,
            allow_firmware=allow_firmware,
            habits=habits(bundle),
        )

    def plan(self, inventories: Iterable[Inventory]) -> Plan:
        """The plan of every machine, by name of node."""
        nodes = sorted((self.node(i) for i in inventories), key=lambda n: n.node)
        return Plan(tuple(nodes), tuple(_findings(nodes)))

    def _two_pools(self, labels: Mapping[str, str]) -> Iterator[NotSelected]:
        """Upstream refuses to drain a node of two pools, so nothing happens on it."""
        mine = [pool.name for pool in self._pools if pool.selects(labels)]
        if len(mine) > 1:
            both = " and ".join(mine)
            yield NotSelected("*", mine[0], f"the node is in {both}; the operator wants one pool")

    def node(self, inventory: Inventory) -> NodePlan:
        """The plan of one machine."""
        node = self._for_labels(inventory.node.labels)
        machine = Machine.of(inventory, firmware=self._firmware)
        pfs: list[PfPlan] = []
        passed: list[tuple[NotSelected, ...]] = [node.rejected] if node.rejected else []
        if self._pools:
            passed.append(tuple(self._two_pools(inventory.node.labels)))
        vfio = False
        for pf in inventory.pfs:
            choice = self._for_pf(node, pf)
            planned = self._pf_plan(pf, choice.wish, machine)
            if planned:
                pfs.append(planned)
            if choice.rejected:
                passed.append(choice.rejected)
            vfio = vfio or (choice.wish is not None and wants_vfio(choice.wish))
        system = tuple(self._system(inventory, machine, vfio))
        return NodePlan(inventory.node.name, tuple(pfs), tuple(passed), system)

    def wishes(self, inventory: Inventory) -> Iterator[tuple[Pf, Wish]]:
        """What is wanted of each selected PF, possible or not."""
        node = self._for_labels(inventory.node.labels)
        for pf in inventory.pfs:
            wish = self._for_pf(node, pf).wish
            if wish is not None:
                yield pf, wish

    def _for_labels(self, labels: Mapping[str, str]) -> _NodeChoice:
        key = tuple(labels.get(k) for k in self._label_keys)
        if key not in self._by_labels:
            self._by_labels[key] = self._choose(labels)
        return self._by_labels[key]

    def _choose(self, labels: Mapping[str, str]) -> _NodeChoice:
        chosen: list[tuple[Policy, bool]] = []
        rejected: list[NotSelected] = []
        before: int | None = None
        for policy in self._policies:
            reason = selects_node(policy, labels)
            if reason:
                rejected.append(NotSelected("*", policy.name, reason))
                continue
            chosen.append((policy, policy.priority == before))
            before = policy.priority
        return _NodeChoice(tuple(chosen), tuple(rejected))

    def _for_pf(self, node: _NodeChoice, pf: Pf) -> _PfChoice:
        key = (id(node), pf.pci, pf.name, pf.altnames, pf.vendor, pf.device)
        if key not in self._by_pf:
            self._by_pf[key] = self._merge(node, pf)
        return self._by_pf[key]

    def _merge(self, node: _NodeChoice, pf: Pf) -> _PfChoice:
        reasons = [(policy, equal, selects_pf(policy, pf)) for policy, equal in node.chosen]
        selecting = [(policy, equal) for policy, equal, reason in reasons if reason is None]
        if selecting:
            return _PfChoice(merge(pf, selecting), ())
        name = pf.name or pf.pci
        return _PfChoice(
            None, tuple(NotSelected(name, p.name, reason) for p, _, reason in reasons if reason)
        )

    def _pf_plan(self, pf: Pf, wish: Wish | None, machine: Machine) -> PfPlan | None:
        allowed = bool(self._allowed & {pf.pci, pf.name, *pf.altnames})
        if wish is None:
            return give_back(pf, management_allowed=allowed)
        plan = self._decision(pf, wish, machine, allowed)
        return disturbing_holders(pf, wish, plan) if pf.vfs.any("holder") else plan

    def _decision(self, pf: Pf, wish: Wish, machine: Machine, allowed: bool) -> PfPlan:
        """Shared by all PFs in the same state."""
        if pf.link_type == "ib" and pf.vfs.has_zero_guid():
            return self._decide(pf, wish, machine, allowed)
        shape = pf.vfs.shape("driver", "mtu")
        key = (
            id(wish), machine, pf.pci, pf.name, pf.vendor, pf.numvfs, pf.totalvfs, pf.mtu,
            pf.max_mtu, pf.admin_up, pf.eswitch, pf.link_type, pf.management, shape,
        )  # fmt: skip
        if shape is None or key not in self._decided:
            self._decided[key] = self._decide(pf, wish, machine, allowed)
        return self._decided[key]

    def _decide(self, pf: Pf, wish: Wish, machine: Machine, allowed: bool) -> PfPlan:
        plan = decide(pf, wish, machine, management_allowed=allowed)
        if plan.action in (Action.NONE, Action.REFUSE):
            return plan
        cost = plan.disturbs
        drain = cost.drain and self._habits.drains
        if self._habits.reboots_always and not cost.reboot:
            cost = replace(cost, reboot=True, seconds=cost.seconds + REBOOT_SECONDS)
        return replace(plan, disturbs=replace(cost, drain=drain))

    def _system(self, inventory: Inventory, machine: Machine, vfio: bool) -> Iterator[Change]:
        if vfio and machine.iommu is False and not machine.cmdline_has_iommu:
            yield Change("kernel arguments", None, machine.iommu_arguments, "vfio-pci")
        mine = [p for p in self._pools if p.selects(inventory.node.labels)]
        mode = inventory.rdma_netns
        if len(mine) == 1 and mine[0].rdma_mode and mode and mine[0].rdma_mode != mode:
            yield Change("RDMA namespace mode", mode, mine[0].rdma_mode, mine[0].name)


def _findings(nodes: Iterable[NodePlan]) -> Iterator[Finding]:
    for node in nodes:
        for pf in node.pfs:
            if pf.action is Action.REFUSE:
                yield _refusal(node, pf)
            yield from _displaced(node, pf)


def _refusal(node: NodePlan, pf: PfPlan) -> Finding:
    return Finding(
        id="plan.refused",
        layer=VIRTUAL_FUNCTIONS,
        subject=Subject("pf", f"{node.node}/{pf.name or pf.pci}"),
        status=Status.FAIL,
        actual=pf.refused or "",
        expected="a PF that the wish can come true on",
        why="podrail changes nothing on a PF rather than something half right",
        fix=pf.fix or "",
    )


def _displaced(node: NodePlan, pf: PfPlan) -> Iterator[Finding]:
    for group in pf.vf_groups:
        if group.overrode:
            yield Finding(
                id="plan.group-displaced",
                layer=VIRTUAL_FUNCTIONS,
                subject=Subject("pf", f"{node.node}/{pf.name or pf.pci}"),
                status=Status.WARN,
                actual=f"{group.policy} (vf {group.range}) displaces {', '.join(group.overrode)}",
                expected="policies on one PF with ranges that do not overlap",
                why="the displaced policy's resource is not advertised from this PF at all",
                fix="give each policy its own range in pfNames: NAME#0-3, NAME#4-7",
            )
