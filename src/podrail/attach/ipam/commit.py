"""Many small changes, few disk flushes: whatever waits when the disk is free shares one commit."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

T = TypeVar("T")

_MOST = 256
"""So that the first of a batch does not wait for thousands behind it."""


class Ticket(Generic[T]):
    """One piece of work and what became of it."""

    __slots__ = ("_turn", "answer", "done", "failure", "work")

    def __init__(self, work: Callable[[], T]) -> None:
        self.work, self.done = work, False
        self.answer: T | None = None
        self.failure: BaseException | None = None
        self._turn = threading.Lock()
        self._turn.acquire()

    def wait(self) -> None:
        """Until it is done, or its thread is to do the next turn."""
        self._turn.acquire()

    def wake(self) -> None:
        self._turn.release()

    def result(self) -> T:
        if self.failure is not None:
            raise self.failure
        return self.answer  # type: ignore[return-value]


class GroupCommit:
    """Runs work of many threads in turns; each turn takes all that has gathered during the last.

    One of the waiting threads does the turn, then wakes those it served and hands over to the
    first that is left. No answer is known before its turn is over, and nobody is overtaken.
    """

    def __init__(self, turn: Callable[[Sequence[Ticket[Any]]], None]) -> None:
        self._turn = turn
        self._waiting: deque[Ticket[Any]] = deque()
        self._gate = threading.Lock()
        self._led = False

    def do(self, work: Callable[[], T]) -> T:
        """Run one piece of work, with whatever else is waiting."""
        ticket = Ticket(work)
        with self._gate:
            self._waiting.append(ticket)
            leads, self._led = not self._led, True
        if not leads:
            ticket.wait()
        if not ticket.done:
            self._lead(ticket)
        return ticket.result()

    def _lead(self, mine: Ticket[Any]) -> None:
        with self._gate:
            batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), _MOST))]
        try:
            self._turn(batch)
        except BaseException as no:
            for ticket in batch:
                ticket.failure = no
            if not isinstance(no, Exception):
                raise
        finally:
            self._hand_over(mine, batch)

    def _hand_over(self, mine: Ticket[Any], batch: Sequence[Ticket[Any]]) -> None:
        with self._gate:
            heir = self._waiting[0] if self._waiting else None
            self._led = heir is not None
        if heir is not None:
            heir.wake()
        for ticket in batch:
            ticket.done = True
            if ticket is not mine:
                ticket.wake()
