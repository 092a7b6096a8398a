"""Do the steps of a job in order, each written down first; on failure take them back.

A process that dies leaves the journal behind. The next one goes on where it stopped: a job that
was going forward is finished, one that was going back is taken back. Setting a thing twice is
setting it once, so the step in whose middle the process died is simply done again.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from podrail.host.seam import Host
from podrail.model.errors import Refused
from podrail.realise import journal as states
from podrail.realise.guards import refuse_held
from podrail.realise.journal import Begun, Job, Journal, Mark
from podrail.realise.locks import Busy, alone
from podrail.realise.refusals import explain
from podrail.realise.step import Failed, Gone, Kind, Step, Value, kind_of, pending

Tell = Callable[[str, int, int, str], None]
"""(subject, steps behind, steps in all, what is being done now)."""

RESET = "reset"
_OVERTAKEN = "the machine was started anew before this was done"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a job ended: `done`, `undone` (as it was before), or `failed` (neither)."""

    subject: str
    state: str
    changed: tuple[str, ...] = ()
    reason: str = ""
    fix: str = ""
    pending: tuple[str, ...] = ()
    """What is set and not in force before a reboot or a restart."""
    seconds: float = 0.0

    @property
    def good(self) -> bool:
        return self.state == states.DONE


def silent(subject: str, behind: int, total: int, text: str) -> None:
    """Tells nobody."""


@dataclass(slots=True)
class Work:
    """One job on one host."""

    host: Host
    journal: Journal
    run: int
    job: Job
    verb: str
    tell: Tell = silent
    stop: Callable[[], bool] = bool
    """Asked before each step; a stopped job goes back."""
    began: float = field(default_factory=time.monotonic)
    touched: list[tuple[int, Step, Value]] = field(default_factory=list)

    def forward(self, marks: tuple[Mark, ...] = ()) -> Outcome:
        """Do what is not done yet."""
        try:
            if self.verb == RESET and not marks and not self.job.force:
                self._refuse_all()
            for seq, step in enumerate(self.job.steps):
                with _explained(step), self._gone_is_given_back(step):
                    self._step(seq, step, marks[seq] if marks else None)
            self._finish(states.DONE)
        except (Failed, Gone, Refused) as no:
            return self._turn(no)
        return self._outcome(states.DONE)

    def _step(self, seq: int, step: Step, mark: Mark | None) -> None:
        kind, begun = kind_of(step), mark is not None and mark.state in ("doing", "done")
        if mark is not None and begun:
            self.touched.append((seq, step, mark.was))
        if self.stop():
            raise Failed("interrupted", "apply again when you want it")
        half_done = mark is not None and mark.state == "doing"
        if not half_done and kind.holds(self.host, step):
            return
        was = mark.was if mark is not None and begun else kind.found(self.host, step)
        self.tell(
            self.job.subject,
            seq,
            len(self.job.steps),
            f"{kind.title or kind.name} {kind.says(step.to)}",
        )
        remember = not (kind.inside_vfs and self.journal.has_seen("vfs", step.target))
        self.journal.begin(self.run, self.job.subject, seq, was, remember=remember)
        if not self.job.force:
            refuse_held(self.host, step)
        if not begun:
            self.touched.append((seq, step, was))
        self._do(kind, step)

    def _do(self, kind: Kind, step: Step) -> None:
        """A reset is the undo of all that was ever done."""
        if self.verb == RESET:
            kind.undo(self.host, step, step.to)
        else:
            kind.do(self.host, step)

    def _refuse_all(self) -> None:
        """A reset begins with what was done last; who holds a VF must not feel even that."""
        for step in self.job.steps:
            with _explained(step), contextlib.suppress(Gone):
                if not kind_of(step).holds(self.host, step):
                    refuse_held(self.host, step)

    @contextlib.contextmanager
    def _gone_is_given_back(self, step: Step) -> Iterator[None]:
        """There is nothing to give back on a NIC that was pulled out, but for what it keeps."""
        try:
            yield
        except Gone as gone:
            if self.verb != RESET:
                raise
            if kind_of(step).lasting:
                raise Failed(
                    f"{step.kind} of {gone} cannot be given back: it is not there",
                    "put it back, then: podrail reset",
                ) from gone

    def _turn(self, no: Exception) -> Outcome:
        reason, fix = _words(no)
        turn = partial(self.journal.turn, self.run, self.job.subject, reason, fix)
        return self.back(reason, fix, written=_written(turn))

    def back(self, reason: str, fix: str, *, written: bool = True) -> Outcome:
        """Take back what was done, last first; a journal that fails holds nothing up."""
        lost: list[str] = []
        total = len(self.touched)
        for seq, step, was in reversed(self.touched):
            self.tell(self.job.subject, total, total, f"taking back {step.kind}")
            if problem := self._undo(step, was):
                lost.append(problem)
            elif written:
                written = _written(partial(self.journal.undone, self.run, self.job.subject, seq))
        state = states.FAILED if lost else states.UNDONE
        if lost:
            reason = f"{reason}; and could not be taken back: {'; '.join(lost)}"
        _written(partial(self.journal.finish, self.run, self.job.subject, state, reason, fix))
        return self._outcome(state, reason, fix)

    def _undo(self, step: Step, was: Value) -> str | None:
        try:
            with _explained(step):
                if not self.job.force:
                    refuse_held(self.host, replace(step, to=was))
                kind_of(step).undo(self.host, step, was)
        except Gone:
            return None
        except Failed as no:
            return f"{step.kind}: {no.reason}"
        return None

    def _finish(self, state: str) -> None:
        forget = self.verb == RESET and state == states.DONE
        self.journal.finish(self.run, self.job.subject, state, forget=forget)

    def _outcome(self, state: str, reason: str = "", fix: str = "") -> Outcome:
        return Outcome(
            self.job.subject,
            state,
            tuple(_line(s, was) for _, s, was in self.touched) if state == states.DONE else (),
            reason,
            fix,
            pending(self.host, [step for _, step, _ in self.touched]),
            round(time.monotonic() - self.began, 3),
        )


def recover(host: Host, journal: Journal, boot: str, tell: Tell = silent) -> list[Outcome]:
    """Finish or take back what a process that died was doing."""
    return [
        alone_with(journal, begun.subject, lambda b=begun: resume_one(host, journal, b, boot, tell))  # type: ignore[misc]
        for begun in journal.unfinished()
    ]


def alone_with(journal: Journal, subject: str, task: Callable[[], Outcome]) -> Outcome:
    """Not beside a worker that the kernel may still hold."""
    try:
        with alone(Path(journal.path).parent, subject):
            return task()
    except Busy as no:
        return busy(subject, no)


def busy(subject: str, no: Busy) -> Outcome:
    fix = "look at `dmesg`; the next podrail goes on from the journal when the kernel lets go"
    return Outcome(subject, states.OPEN, reason=str(no), fix=fix)


def resume_one(
    host: Host, journal: Journal, begun: Begun, boot: str, tell: Tell = silent,
    stop: Callable[[], bool] = bool,
) -> Outcome:  # fmt: skip
    """Go on with one job, forward or back; after a boot there is nothing to go on with."""
    if begun.boot != boot:
        journal.finish(begun.run, begun.subject, states.OVERTAKEN, _OVERTAKEN)
        return Outcome(begun.subject, states.OVERTAKEN, reason=_OVERTAKEN)
    job = Job(begun.subject, tuple(mark.step for mark in begun.marks), begun.force)
    work = Work(host, journal, begun.run, job, begun.verb, tell, stop)
    if begun.state == states.OPEN:
        return work.forward(begun.marks)
    work.touched = [
        (seq, m.step, m.was) for seq, m in enumerate(begun.marks) if m.state in ("done", "doing")
    ]
    return work.back(begun.reason, begun.fix)


def _line(step: Step, was: Value) -> str:
    return kind_of(step).line(was, step.to)


def _words(no: Exception) -> tuple[str, str]:
    if isinstance(no, Failed):
        return no.reason, no.fix
    if isinstance(no, Gone):
        return f"{no} is no longer there", "look at the machine with: podrail discover"
    return str(no), ""


@contextlib.contextmanager
def _explained(step: Step) -> Iterator[None]:
    try:
        yield
    except OSError as no:
        raise Failed(*explain(step, no)) from no
    except ValueError as no:
        raise Failed(
            f"{step.kind} of {step.target}: what the machine tells of it cannot be read ({no})",
            "look at the machine with: podrail discover",
        ) from no


def _written(write: Callable[[], None]) -> bool:
    """Whether the journal took it. Where it did not, the next process looks at the machine."""
    try:
        write()
    except Refused:
        return False
    return True
