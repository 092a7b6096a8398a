"""A plan as a diff: `+` appears, `~` changes, `-` goes, `!` is refused."""

from __future__ import annotations

from collections.abc import Iterator

from podrail.model.plan import Action, Change, NodePlan, PfPlan, Plan, VfGroup

_MARK = {
    Action.NONE: " ",
    Action.CREATE: "+",
    Action.ADJUST: "~",
    Action.RESIZE: "~",
    Action.RECREATE: "~",
    Action.RESET: "-",
    Action.REFUSE: "!",
}


def show(plan: Plan) -> Iterator[str]:
    """The lines of a plan; the first character of each says what it is."""
    for node in plan.nodes:
        yield from _node(node)
    yield ""
    yield f"  {summary(plan)}"


def _node(node: NodePlan) -> Iterator[str]:
    yield f"  node {node.node}"
    for change in node.system:
        yield f"~   {_change(change)}, with a reboot"
    for change in node.settings:
        yield f"~   {_change(change)}"
    for pf in node.pfs:
        yield from _pf(pf)
    passed = list(node.not_selected)
    for one in passed:
        what = "this node" if one.pf == "*" else one.pf
        yield f"      {what} not selected by {one.policy}: {one.reason}"
    if not node.pfs and not passed and not node.settings:
        yield "      no policy given"


def _pf(pf: PfPlan) -> Iterator[str]:
    mark = _MARK[pf.action]
    says = "as wanted" if pf.action is Action.NONE else pf.action.value
    yield f"{mark}   {pf.name or '(no netdev)'}  {pf.pci}  {says}"
    if pf.refused:
        yield f"!       refused: {pf.refused}"
        yield f"!       next: {pf.fix}"
        return
    for change in pf.changes:
        yield f"{mark}       {_change(change)}"
    for group in pf.vf_groups:
        yield f"        {_group(group)}"
    yield from _disturbance(pf)


def _change(change: Change) -> str:
    old = "unset" if change.old is None else change.old
    lost = f", over {', '.join(change.overrode)}" if change.overrode else ""
    return f"{change.field}: {old} → {change.new}   ({change.set_by}{lost})"


def _group(group: VfGroup) -> str:
    rdma = " with RDMA" if group.rdma else ""
    lost = f", displaces {', '.join(group.overrode)}" if group.overrode else ""
    return (
        f"vf {group.range} → {group.resource}: {group.device_type}{rdma}   ({group.policy}{lost})"
    )


def _disturbance(pf: PfPlan) -> Iterator[str]:
    disturbs = pf.disturbs
    if pf.action is Action.NONE:
        return
    parts = [f"about {disturbs.seconds:g} s"]
    if disturbs.drain:
        parts.append("drain")
    if disturbs.reboot:
        parts.append("reboot")
    yield f"        takes {', '.join(parts)}"
    for pod in disturbs.pods:
        yield f"!       disturbs {pod}"


def summary(plan: Plan) -> str:
    """One line: how many PFs change how, and what that costs."""
    actions = [pf.action for node in plan.nodes for pf in node.pfs]
    counts = [
        f"{n} to {a.value}" for a in Action if a is not Action.NONE if (n := actions.count(a))
    ]
    settings = sum(len(node.settings) for node in plan.nodes)
    counts += [f"{_count(settings, 'setting')} to change"] if settings else []
    if not counts and not any(node.system for node in plan.nodes):
        return f"nothing to change on {_count(len(plan.nodes), 'node')}"
    reboots = sum(node.reboot for node in plan.nodes)
    after = f"; {_count(reboots, 'node')} must reboot" if reboots else ""
    return f"{_count(len(plan.nodes), 'node')}: {', '.join(counts) or 'no PF changes'}{after}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
