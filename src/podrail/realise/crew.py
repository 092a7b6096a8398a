"""Jobs in parallel: a process for each, so that one PF stuck in the kernel holds nobody else.

The workers are forked from a process with one thread. They die with their parent, hold the lock of
their PF until they are gone, and write their own progress into the journal.
"""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import signal
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection, wait
from typing import NoReturn

from podrail.host.linux import LinuxHost
from podrail.host.seam import Host
from podrail.realise.engine import Outcome, Tell, Work, alone_with, resume_one, silent
from podrail.realise.journal import FAILED, OPEN, Begun, Job, Journal
from podrail.realise.locks import let_go

LIMIT_SECONDS = 300.0
_AT_ONCE = 32
_PR_SET_PDEATHSIG = 1  # include/uapi/linux/prctl.h
Stop = Callable[[], bool]


@dataclass(frozen=True, slots=True)
class Task:
    """What a worker does: to one subject, with a journal and a voice of its own."""

    subject: str
    do: Callable[[Journal, Tell, Stop], Outcome]


_LEFT: list[int] = []
"""Workers the kernel holds. Nobody waits for them: they end with this process at the latest."""


def work(
    host: Host, journal: Journal, run: int, verb: str, jobs: Sequence[Job], tell: Tell = silent,
    *, limit: float = LIMIT_SECONDS,
) -> list[Outcome]:  # fmt: skip
    """All jobs; on a real machine each in a process of its own."""

    def task(job: Job) -> Task:
        def do(own: Journal, told: Tell, stop: Stop) -> Outcome:
            return Work(host, own, run, job, verb, told, stop).forward()

        return Task(job.subject, do)

    return _all(host, journal, [task(job) for job in jobs], tell, limit)


def resume_all(
    host: Host, journal: Journal, boot: str, unfinished: Sequence[Begun], tell: Tell = silent,
    *, limit: float = LIMIT_SECONDS,
) -> list[Outcome]:  # fmt: skip
    """What processes that died were doing, finished or taken back side by side.

    Where several jobs of one PF are left, the older is gone on with first.
    """

    def task(subject: str) -> Task:
        def do(own: Journal, told: Tell, stop: Stop) -> Outcome:
            mine = [begun for begun in unfinished if begun.subject == subject]
            return [resume_one(host, own, begun, boot, told, stop) for begun in mine][-1]

        return Task(subject, do)

    subjects = dict.fromkeys(begun.subject for begun in unfinished)
    return _all(host, journal, [task(subject) for subject in subjects], tell, limit)


def _all(
    host: Host, journal: Journal, tasks: Sequence[Task], tell: Tell, limit: float
) -> list[Outcome]:
    if isinstance(host, LinuxHost):
        return _Crew(journal, tell, limit).work(tasks)
    return [alone_with(journal, t.subject, partial(t.do, journal, tell, bool)) for t in tasks]


class _Crew:
    def __init__(self, journal: Journal, tell: Tell, limit: float) -> None:
        self.journal, self.tell, self.limit = journal, tell, limit
        self.at_work: dict[Connection, tuple[int, Task, float]] = {}
        self.outcomes: list[Outcome] = []

    def work(self, tasks: Sequence[Task]) -> list[Outcome]:
        waiting = list(tasks)
        _reap()
        with self.journal.away():
            try:
                while waiting or self.at_work:
                    while waiting and len(self.at_work) < _AT_ONCE:
                        self._start(waiting.pop(0))
                    self._listen()
            except KeyboardInterrupt:
                self._call_back()
                raise
        return self.outcomes

    def _start(self, task: Task) -> None:
        ours, theirs = multiprocessing.Pipe(duplex=False)
        parent = os.getpid()
        with _undisturbed() as mask:
            pid = os.fork()
            if pid == 0:
                self._child(task, theirs, parent, mask)
            self.at_work[ours] = (pid, task, time.monotonic() + self.limit)
        theirs.close()

    def _child(
        self, task: Task, pipe: Connection, parent: int, mask: Iterable[signal.Signals | int]
    ) -> NoReturn:
        try:
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() == parent:
                self._do(task, pipe, mask)
                os._exit(0)
        except BaseException:  # noqa: BLE001 - whatever it is, this process is not the parent's
            traceback.print_exc()
        os._exit(1)

    def _do(self, task: Task, pipe: Connection, mask: Iterable[signal.Signals | int]) -> None:
        stopped: list[bool] = []
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, lambda *_: stopped.append(True))
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)

        def tell(*said: object) -> None:
            with contextlib.suppress(BrokenPipeError):  # given up on: it goes on all the same
                pipe.send(said[0] if len(said) == 1 else said)

        let_go()
        tell(alone_with(self.journal, task.subject, lambda: self._own(task, tell, stopped)))

    def _own(self, task: Task, tell: Tell, stopped: list[bool]) -> Outcome:
        own = self.journal.reopen()
        outcome = task.do(own, tell, lambda: bool(stopped))
        own.close()
        return outcome

    def _listen(self) -> None:
        soonest = min(deadline for _, _, deadline in self.at_work.values())
        for pipe in wait(list(self.at_work), max(0.0, soonest - time.monotonic())):
            assert isinstance(pipe, Connection)
            self._hear(pipe)
        for pipe, (pid, task, deadline) in list(self.at_work.items()):
            if time.monotonic() > deadline:
                _LEFT.append(pid)
                self._end(pipe, _stuck(task, self.limit))

    def _hear(self, pipe: Connection) -> None:
        pid, task, _ = self.at_work[pipe]
        try:
            said = pipe.recv()
        except (EOFError, OSError):
            self._end(pipe, _died(task, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])))
            return
        if isinstance(said, Outcome):
            os.waitpid(pid, 0)
            self._end(pipe, said)
        else:
            self.tell(*said)

    def _end(self, pipe: Connection, outcome: Outcome) -> None:
        pipe.close()
        del self.at_work[pipe]
        self.outcomes.append(outcome)

    def _call_back(self) -> None:
        """Ctrl-C: the workers take back what they did, and that is waited for."""
        for pid, _, _ in self.at_work.values():
            os.kill(pid, signal.SIGTERM)
        while self.at_work:
            self._listen()


@contextlib.contextmanager
def _undisturbed() -> Iterator[set[signal.Signals | int]]:
    """No signal between a fork and its entry in the list, nor in a child without its handlers."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield mask
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _reap() -> None:
    """Workers that were given up and have ended since."""
    for pid in list(_LEFT):
        if os.waitpid(pid, os.WNOHANG)[0]:
            _LEFT.remove(pid)


def _stuck(task: Task, limit: float) -> Outcome:
    return Outcome(
        task.subject, OPEN,
        reason=f"the kernel has not answered for {limit:g} s; the other PFs were not held up",
        fix="look at `dmesg`; the next podrail goes on from the journal",
    )  # fmt: skip


def _died(task: Task, code: int) -> Outcome:
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    return Outcome(
        task.subject, OPEN if code else FAILED,
        reason=f"its worker ended early ({how})",
        fix="apply again: the journal knows how far it got",
    )  # fmt: skip
