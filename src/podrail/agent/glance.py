"""A glance at a PF: does what was made still hold? A few reads of sysfs, no inventory."""

from __future__ import annotations

from dataclasses import replace

from podrail.host.seam import Host, exists
from podrail.inventory.pci import ADDRESS
from podrail.model.inventory import Pf
from podrail.model.plan import NodePlan
from podrail.realise.apply import differing
from podrail.realise.functions import at
from podrail.realise.journal import Job
from podrail.realise.status import Drift, drift
from podrail.realise.step import Step, kind_of


def glance(host: Host, job: Job, *, thorough: bool = False) -> tuple[Drift, ...]:
    """What is not as wanted; `thorough` looks at files and firmware too, which tell no event."""
    if ADDRESS.fullmatch(job.subject) and not exists(host, at(job.subject)):
        return (_gone(job),)
    looked_at = tuple(step for step in job.steps if _looked_at(step, thorough))
    off = differing(host, replace(job, steps=looked_at))
    if any(step.kind == "vfs" for step in off):  # all else about VFs follows from it
        off = tuple(step for step in off if not kind_of(step).inside_vfs)
    return tuple(drift(host, off))


def hides(one: Drift, other: Drift) -> bool:
    """Whether the other cannot be seen behind the one: a PF that is gone, or VFs that are."""
    return _rank(one) > _rank(other)


def _rank(drift: Drift) -> int:
    return 2 if drift.what.startswith("PF") else int(drift.what == "numVfs")


def _looked_at(step: Step, thorough: bool) -> bool:
    kind = kind_of(step)
    return kind.watched and (thorough or not kind.lasting)


def _gone(job: Job | None) -> Drift:
    return Drift("PF", "gone", "on the PCI bus", _set_by(job))


def _set_by(job: Job | None) -> str:
    return next((step.set_by for step in job.steps), "") if job else ""


def absence(pf: Pf | None, name: str, job: Job | None) -> tuple[Drift, ...]:
    """Why a PF that was selected is not any more, although the manifests are the same."""
    if pf is None:
        return (_gone(job),)
    if pf.driver is None:
        return (Drift("PF driver", "none", "its own", _set_by(job)),)
    return (Drift("PF name", pf.name or "none", name, _set_by(job)),) if pf.name != name else ()


def from_plan(plan: NodePlan, subject: str) -> tuple[Drift, ...]:
    """What differs on a PF that was never seen as wanted, as the plan has it."""
    changes = (change for pf in plan.pfs if pf.pci == subject for change in pf.changes)
    return tuple(Drift(c.field, str(c.old), str(c.new), c.set_by) for c in changes)
