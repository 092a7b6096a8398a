from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from podrail.attach.ipam.commit import GroupCommit, Ticket


class _Turns:
    """A disk that is slow exactly as long as the test wants."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.open = threading.Event()
        self.begun = threading.Event()

    def __call__(self, batch: Sequence[Ticket[Any]]) -> None:
        self.sizes.append(len(batch))
        self.begun.set()
        assert self.open.wait(30)
        for ticket in batch:
            ticket.answer = ticket.work()


def _until(group: GroupCommit, waiting: int) -> None:
    """Until so many are in the queue: it has no event of its own, and needs none."""
    while len(group._waiting) < waiting:
        threading.Event().wait(0.001)


def test_whatever_waits_shares_the_next_turn() -> None:
    turns = _Turns()
    group = GroupCommit(turns)
    with ThreadPoolExecutor(32) as pool:
        first = pool.submit(group.do, lambda: "first")
        assert turns.begun.wait(30)
        rest = [pool.submit(group.do, lambda n=n: n) for n in range(31)]
        _until(group, 31)
        assert not first.done(), "nobody may be answered before the turn is over"
        turns.open.set()
        assert first.result(30) == "first"
        assert [one.result(30) for one in rest] == list(range(31))
    assert turns.sizes == [1, 31]


def test_a_turn_that_fails_fails_all_it_held_and_no_other() -> None:
    broken = True

    def turn(batch: Sequence[Ticket[Any]]) -> None:
        if broken:
            raise OSError("no space")
        for ticket in batch:
            ticket.answer = ticket.work()

    group = GroupCommit(turn)
    with pytest.raises(OSError, match="no space"):
        group.do(lambda: 1)
    broken = False
    assert group.do(lambda: 2) == 2


def test_an_interrupt_does_not_leave_the_others_waiting() -> None:
    first = True

    def turn(batch: Sequence[Ticket[Any]]) -> None:
        nonlocal first
        if first:
            first = False
            raise KeyboardInterrupt
        for ticket in batch:
            ticket.answer = ticket.work()

    group = GroupCommit(turn)
    with pytest.raises(KeyboardInterrupt):
        group.do(lambda: 1)
    assert group.do(lambda: 2) == 2


def test_many_threads_every_work_once() -> None:
    done: list[int] = []

    def turn(batch: Sequence[Ticket[Any]]) -> None:
        for ticket in batch:
            ticket.answer = ticket.work()

    group = GroupCommit(turn)

    def worker(start: int) -> None:
        for n in range(start, start + 100):
            group.do(lambda n=n: done.append(n))  # type: ignore[misc]

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(worker, range(0, 1600, 100)))
    assert sorted(done) == list(range(1600))
