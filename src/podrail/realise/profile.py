"""Host profiles as steps: which PFs of a machine they concern, and what they would change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from podrail.host.seam import Host
from podrail.inventory.reader import reason_of
from podrail.model.inventory import Inventory, Pf
from podrail.model.plan import Change, NotSelected
from podrail.model.profile import Profile, Roce
from podrail.planning.select import selects_node, selects_pf
from podrail.realise.kinds import cpu, ethtool, memlock, pcie  # noqa: F401 (registers them)
from podrail.realise.kinds import roce as _registered  # noqa: F401
from podrail.realise.qos import PRIORITIES
from podrail.realise.step import MACHINE, Failed, Gone, Step, Value, kind_of, restrict
from podrail.realise.verified import called

_ROCE = "roce settings are for Ethernet; its port is InfiniBand"


def profile_steps(profiles: Sequence[Profile], inventory: Inventory) -> tuple[Step, ...]:
    """Every setting the profiles want of this machine. Of two that set one thing, the profile whose
    name comes later wins."""
    merged: dict[tuple[str, str], Step] = {}
    for profile in sorted(profiles, key=lambda p: p.name):
        for step in _steps(profile, inventory):
            key = (step.kind, step.target)
            merged[key] = _over(merged.get(key), step)
    return tuple(merged.values())


def _over(first: Step | None, then: Step) -> Step:
    if first is None or not isinstance(first.to, Mapping) or not isinstance(then.to, Mapping):
        return then
    return Step(then.kind, then.target, {**first.to, **then.to}, then.set_by)


def passed_over(profiles: Sequence[Profile], inventory: Inventory) -> tuple[NotSelected, ...]:
    """Nodes and PFs that a profile does not touch, and why."""
    return tuple(one for profile in profiles for one in _passed_over(profile, inventory))


def _passed_over(profile: Profile, inventory: Inventory) -> Iterator[NotSelected]:
    reason = selects_node(profile.selector, inventory.node.labels)
    if reason:
        yield NotSelected("*", profile.name, reason)
    elif profile.tunes_nics:
        for pf in inventory.pfs:
            if why := _not_touched(profile, pf):
                yield NotSelected(pf.name or pf.pci, profile.name, why)


def _not_touched(profile: Profile, pf: Pf) -> str | None:
    reason = selects_pf(profile.selector, pf)
    if reason:
        return reason
    if pf.management:
        return f"it carries the management path ({pf.management})"
    only_roce = not (profile.rings or profile.coalescing or profile.pcie)
    return _ROCE if pf.link_type == "ib" and only_roce else None


def _steps(profile: Profile, inventory: Inventory) -> Iterator[Step]:
    if selects_node(profile.selector, inventory.node.labels):
        return
    if profile.governor:
        yield Step("governor", MACHINE, profile.governor, profile.name)
    if profile.memlock:
        yield Step("memlock", MACHINE, memlock.UNLIMITED, profile.name)
    for pf in inventory.pfs:
        if _not_touched(profile, pf) is None:
            for kind, to in _nic(profile, pf, inventory):
                yield Step(kind, pf.pci, to, profile.name)


def _nic(profile: Profile, pf: Pf, inventory: Inventory) -> Iterator[tuple[str, Value]]:
    for kind in ("pcie", "rings", "coalescing"):
        wanted = getattr(profile, kind)
        if wanted:
            yield kind, dict(wanted)
    if pf.link_type == "eth":
        yield from _roce(profile.roce, pf, inventory)


def _roce(roce: Roce, pf: Pf, inventory: Inventory) -> Iterator[tuple[str, Value]]:
    """The map before the trust: on mlx5 its first entry is what makes the port trust DSCP."""
    if roce.priority is not None:
        yield "pfc", {str(p): p == roce.priority for p in PRIORITIES}
        if roce.dscp is not None and roce.trust != "pcp":
            yield "dscp-map", {str(roce.dscp): roce.priority}
        if roce.ecn is not None:
            keys = (f"roce_np/{roce.priority}", f"roce_rp/{roce.priority}")
            yield "ecn", dict.fromkeys(keys, roce.ecn)
    if roce.trust is not None:
        yield "trust", {"trust": roce.trust}
    if roce.tos is not None:
        yield "roce-tos", {"view": True, **dict.fromkeys(_ports(pf, inventory), roce.tos)}


def _ports(pf: Pf, inventory: Inventory) -> tuple[str, ...]:
    device = next((d for d in inventory.rdma if d.name == pf.rdma), None)
    numbers = tuple(str(port.number) for port in device.ports) if device else ()
    return numbers or ("1",)


# --- what it would change -----------------------------------------------------------------------


def preview(host: Host, steps: Sequence[Step]) -> tuple[Change, ...]:
    """What the steps would change on this host as it stands. Changes nothing."""
    return tuple(change for step in steps if (change := _change(host, step)))


def _change(host: Host, step: Step) -> Change | None:
    kind = kind_of(step)
    field = f"{_where(host, step)}{step.kind}"
    try:
        if kind.holds(host, step):
            return None
        old = kind.says(restrict(kind.read(host, step.target), step.to))
    except Gone:
        return Change(f"{field} ({step.target} is gone)", None, kind.says(step.to), step.set_by)
    except (Failed, OSError) as no:
        why = no.reason if isinstance(no, Failed) else reason_of(no)
        return Change(f"{field} ({why})", None, kind.says(step.to), step.set_by)
    return Change(field, old, kind.says(step.to), step.set_by)


def _where(host: Host, step: Step) -> str:
    return "" if step.target == MACHINE else f"{called(host, step.target)} "
