"""The last look before a step that could take something from somebody."""

from __future__ import annotations

from collections.abc import Mapping

from podrail.host.seam import Host
from podrail.inventory.held import held
from podrail.realise.step import Failed, Step, kind_of

_SHOWN = 4


def refuse_held(host: Host, step: Step) -> None:
    """A VF that a pod, a process or another namespace holds is never taken from it."""
    if not kind_of(step).disturbs(step):
        return
    holders = held(host, step.target)
    touched = _touched(host, step)
    taken = {i: who for i, who in holders.items() if touched is None or i in touched}
    if taken:
        raise Failed(
            f"{step.kind} would disturb {_list(taken)}",
            "end what holds it (a pod: drain the node), or say --force",
        )


def _touched(host: Host, step: Step) -> set[int] | None:
    """The VFs the step would really change; None for all."""
    if not isinstance(step.to, Mapping) or not kind_of(step).inside_vfs:
        return None
    kind = kind_of(step)
    return {int(key) for key in kind.differing(kind.read(host, step.target), step.to)}


def _list(taken: Mapping[int, str]) -> str:
    first = [f"vf {i} (held by {who})" for i, who in list(taken.items())[:_SHOWN]]
    more = f" and {len(taken) - _SHOWN} more" if len(taken) > _SHOWN else ""
    return ", ".join(first) + more
