"""Keeps a machine as wanted: what a full pass does, and what a glance after an event does.

It knows every wanted PF by its last job. A glance compares the machine with that job; a pass looks
at the whole machine anew, and mends. What was said once is not said again until it changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from podrail.agent import reports
from podrail.agent.glance import absence, from_plan, glance, hides
from podrail.agent.pace import Pace
from podrail.agent.reports import Report, Reporter
from podrail.agent.wanted import Source
from podrail.agent.watched import EVERYTHING, Watched, belongs, concerned, look
from podrail.host.seam import Event, Host, Watch
from podrail.inventory.held import held
from podrail.inventory.pci import ADDRESS
from podrail.realise import kinds as _kinds  # noqa: F401 - enters every kind of step
from podrail.realise.apply import (
    Intent,
    Refusal,
    intend,
    realise,
    refuse_beside_upstream,
    resume,
)
from podrail.realise.asked import Asked
from podrail.realise.engine import Outcome
from podrail.realise.journal import Job
from podrail.realise.state import State
from podrail.realise.status import Drift
from podrail.realise.step import MACHINE


@dataclass(slots=True)
class Kept:
    """What is known of one PF, or of the machine."""

    name: str = ""
    job: Job | None = None
    wanted: Asked | None = None
    """The manifests under which it was last selected."""
    here: bool = True
    """Whether the last pass found it selected."""
    drift: tuple[Drift, ...] = ()
    since: dict[str, float] = field(default_factory=dict)
    said: tuple[str, str] = ("", "")
    """The refusal or failure that was told last."""
    waits: bool = False
    """Whether it was refused for the sake of somebody who will let go some time."""
    holders: tuple[object, ...] = ()
    """Who held which VF, and which netdevs there were, after it was refused."""

    @property
    def refused(self) -> bool:
        return self.said[0] == reports.REFUSED


class Keeper:
    """Everything but the waiting."""

    def __init__(
        self, host: Host, state: State, source: Source, watch: Watch, tell: Reporter,
        clock: Callable[[], float],
    ) -> None:  # fmt: skip
        self.host, self.state, self.source, self.watch = host, state, source, watch
        self.tell, self.clock = tell, clock
        self.pace = Pace(clock)
        self.kept: dict[str, Kept] = {}
        self.watched = Watched()
        self._before = source.now
        self._all = False
        self._problem = ""
        self._trouble = ("", "")

    # --- a full pass ----------------------------------------------------------------------------

    def full(self) -> None:
        """Look at everything anew, and make it as wanted. Raises what concerns all of it."""
        with self.state.working():
            wanted = self.source.now or Asked()
            refuse_beside_upstream(self.host, wanted.consent)
            self._resume(wanted)
            self._refresh()
            if self.source.now is not None:
                self._make(self.source.now)
            self._settle()
        self.pace.worked(EVERYTHING)
        self._trouble = ("", "")

    def troubled(self, event: str, reason: str, fix: str = "") -> None:
        """A pass that came to nothing is tried again, later and later."""
        self.pace.failed(EVERYTHING)
        if self._trouble != (event, reason):
            self._trouble = (event, reason)
            self._say(MACHINE, event, reason=reason, fix=fix)

    def _resume(self, wanted: Asked) -> None:
        for outcome in resume(self.host, self.state, allowed=wanted.management):
            reason = outcome.reason or "its work was finished"
            self._say(outcome.subject, reports.RESUMED, reason=reason, fix=outcome.fix)

    def _refresh(self) -> None:
        anew, wanted = self.source.refresh(), self.source.now
        if wanted is not None and anew:
            self.pace.forget()
            self._say(MACHINE, reports.WANTED, reason=wanted.names)
        elif wanted is not None and self.source.overruled:
            text = f"{wanted.names}, as -f says; another podrail wanted something else"
            self._say(MACHINE, reports.WANTED, reason=text)
        if self.source.problem != self._problem:
            self._problem = self.source.problem
            self._complain()

    def _complain(self) -> None:
        if self._problem:
            rest = "what was wanted before stays in force" if self.source.now else "nothing is done"
            fix = f"correct the manifests; until then {rest}"
            self._say(MACHINE, reports.FAILED, reason=self._problem, fix=fix)

    def _make(self, wanted: Asked) -> None:
        intent = intend(
            self.host, wanted.bundle(), self.state.journal, dict(wanted.labels), wanted.consent
        )
        self.tell.node = intent.inventory.node.name
        self._learn(intent, wanted)
        going = tuple(self._unwanted(intent, wanted))
        allowed = replace(
            intent, jobs=self._due(intent.jobs), tuning=self._due(intent.tuning), given_back=going
        )
        for outcome in realise(self.host, self.state, allowed):
            self._conclude(outcome, given_back=outcome.subject in going)

    def _due(self, jobs: Iterable[Job]) -> tuple[Job, ...]:
        return tuple(job for job in jobs if self.pace.due(job.subject))

    def _learn(self, intent: Intent, wanted: Asked) -> None:
        for one in self.kept.values():
            one.here = False
        for job in intent.all_jobs:
            one = self._select(job.subject, intent, wanted)
            one.job = job
            one.said = ("", "") if one.refused else one.said
            self._compare(job.subject, glance(self.host, job, thorough=True))
        selected = {pf.pci for pf in intent.plan.pfs}
        for refusal in (*intent.refusals, *intent.waiting):
            if refusal.subject in selected:
                self._refuse(refusal, self._select(refusal.subject, intent, wanted), intent)
        for subject in [s for s, one in self.kept.items() if not one.here]:
            self._absent(subject, intent, wanted)

    def _select(self, subject: str, intent: Intent, wanted: Asked) -> Kept:
        one = self.kept.setdefault(subject, Kept())
        pf = intent.inventory.pf(_target(subject))
        one.name = MACHINE if _target(subject) == MACHINE else pf.name if pf else ""
        one.wanted, one.here = wanted, True
        return one

    def _refuse(self, refusal: Refusal, one: Kept, intent: Intent) -> None:
        if one.job is None:
            self._compare(refusal.subject, from_plan(intent.plan, refusal.subject))
        self._once(refusal.subject, reports.REFUSED, refusal.reason, refusal.fix)
        planned = next((pf for pf in intent.plan.pfs if pf.pci == refusal.subject), None)
        one.waits = planned is not None and bool(planned.disturbs.pods)
        if self.pace.due(refusal.subject):
            self.pace.failed(refusal.subject)

    def _absent(self, subject: str, intent: Intent, wanted: Asked) -> None:
        one = self.kept[subject]
        if one.wanted == wanted and is_pf(subject):
            self._compare(subject, absence(intent.inventory.pf(subject), one.name, one.job))
        elif subject not in intent.given_back:
            del self.kept[subject]

    def _unwanted(self, intent: Intent, wanted: Asked) -> Iterator[str]:
        """PFs to give back. One that merely lost its driver or its name is not among them: the
        manifests must have changed since it was wanted."""
        for subject in intent.given_back:
            pf, one = intent.inventory.pf(_target(subject)), self.kept.get(subject)
            before = one.wanted if one else self._before
            changed = before != wanted or not wanted.manifests
            ready = _target(subject) == MACHINE or (pf is not None and pf.driver is not None)
            if changed and ready and self.pace.due(subject):
                yield subject

    def _conclude(self, outcome: Outcome, *, given_back: bool) -> None:
        subject = outcome.subject
        if not outcome.good:
            self.pace.failed(subject)
            self._once(subject, reports.FAILED, outcome.reason, outcome.fix)
            return
        self.pace.worked(subject)
        if given_back:
            self._say(subject, reports.GIVEN_BACK, seconds=outcome.seconds)
            self.kept.pop(subject, None)
        elif subject in self.kept:
            self.kept[subject].said = ("", "")
        for line in outcome.pending:
            self._say(subject, reports.MENDED, reason=f"not in force yet: {line}")

    def _settle(self) -> None:
        """What our own work told is no news; what is still not as wanted is, and whatever was told
        of a PF that the pass did not find: its netdev may have come a moment later."""
        self.watched = look(self.host, self.pfs())
        heard: set[str] = set()
        while events := self.watch.wait(0):
            heard |= self.sift(events)
        missing = {subject for subject, one in self.kept.items() if not one.here}
        self._all = bool(heard & {EVERYTHING, *missing})
        for subject, one in self.kept.items():
            self._glance(subject)
            one.holders = self._holders(subject) if one.refused else ()
        self.source.settle()

    # --- after an event -------------------------------------------------------------------------

    def sift(self, events: Iterable[Event]) -> set[str]:
        """The PFs that events are about; `EVERYTHING` for a new NIC and for lost events."""
        named = {subject for event in events if (subject := concerned(event, self.watched))}
        known = named & {*self.kept, EVERYTHING}
        found = (belongs(self.host, function, self.watched) for function in named - known)
        return known | {subject for subject in found if subject}

    def touched(self, subjects: set[str]) -> None:
        """Compare what events were about with what is wanted of it, and say what differs."""
        with self.state.working():
            if self.source.changed():
                return
            self.watched = look(self.host, self.pfs())
            self._all = self._all or EVERYTHING in subjects
            for subject in self.pfs() if EVERYTHING in subjects else subjects & self.kept.keys():
                self._touch(subject)

    def _touch(self, subject: str) -> None:
        one = self.kept[subject]
        self._glance(subject)
        if not one.here:
            self._all = True
        elif one.refused and one.holders != (now := self._holders(subject)):
            one.holders = now
            self.pace.forget(subject)
            self._all = True

    def _holders(self, subject: str) -> tuple[object, ...]:
        netdevs = frozenset(n for n, pf in self.watched.netdevs.items() if pf == subject)
        return tuple(held(self.host, subject).items()), netdevs

    def _glance(self, subject: str) -> None:
        one = self.kept[subject]
        if one.job is not None and one.here:
            self._compare(subject, glance(self.host, one.job))

    def _compare(self, subject: str, off: tuple[Drift, ...]) -> None:
        one, now = self.kept[subject], self.clock()
        if off == one.drift:
            return
        differing = {drift.what for drift in off}
        for drift in one.drift:
            if drift.what not in differing:
                took = now - one.since.pop(drift.what)
                if not any(hides(other, drift) for other in off):
                    self._tell_drift(subject, reports.MENDED, drift, took)
        for drift in off:
            if drift not in one.drift:
                self._tell_drift(subject, reports.DRIFT, drift)
            one.since.setdefault(drift.what, now)
        one.drift = off
        self.pace.changed(subject)

    # --- what is to be done ---------------------------------------------------------------------

    def due(self) -> bool:
        """Whether a pass would find something to do now."""
        return any(self.pace.due(subject) for subject in self._waiting())

    def seconds(self) -> float | None:
        """How long until then; None where nothing waits."""
        return min((self.pace.seconds(s) for s in self._waiting()), default=None)

    def _waiting(self) -> Iterator[str]:
        if self._all or self._trouble[0]:
            yield EVERYTHING
        if self._trouble[0]:  # it concerns them all
            return
        for subject, one in self.kept.items():
            if one.here and _unsettled(one):
                yield subject

    # --- telling --------------------------------------------------------------------------------

    def pfs(self) -> list[str]:
        """The PFs that are wanted, here or not."""
        return [subject for subject in self.kept if is_pf(subject)]

    def _tell_drift(
        self, subject: str, event: str, drift: Drift, seconds: float | None = None
    ) -> None:
        often = self.pace.contested(subject) if event == reports.DRIFT else 0
        reason = (
            f"undone {often} times in a row: somebody else sets it; mended again in "
            f"{self.pace.seconds(subject):.0f} s" if often else ""
        )  # fmt: skip
        self.tell(
            Report(event, _pf(subject), self.kept[subject].name, drift.what + drift.of,
                   drift.actual, drift.wanted, drift.set_by, seconds, reason, kind=_kind(subject))
        )  # fmt: skip

    def _once(self, subject: str, event: str, reason: str, fix: str) -> None:
        one = self.kept.setdefault(subject, Kept())
        if one.said != (event, reason):
            one.said = (event, reason)
            self._say(subject, event, reason=reason, fix=fix)

    def _say(
        self, subject: str, event: str, *, reason: str = "", fix: str = "",
        seconds: float | None = None,
    ) -> None:  # fmt: skip
        one = self.kept.get(subject)
        name = one.name if one else ""
        self.tell(Report(event, _pf(subject), name, seconds=seconds, reason=reason, fix=fix))


def _unsettled(one: Kept) -> bool:
    if one.refused:
        return one.waits
    return bool(one.drift) or (one.job is not None and one.said[0] == reports.FAILED)


def is_pf(subject: str) -> bool:
    """Not the machine, and not what a host profile sets."""
    return ADDRESS.fullmatch(subject) is not None


def _target(subject: str) -> str:
    """A PF, or the machine: `profile 0000:81:00.0` is about one, too."""
    return subject.rpartition(" ")[2]


def _kind(subject: str) -> str:
    return "profile" if " " in subject else "policy"


def _pf(subject: str) -> str:
    target = _target(subject)
    return "" if target == MACHINE else target
