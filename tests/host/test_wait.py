"""Waiting for a condition: no event falls between, no clock but the steady one counts."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from types import ModuleType
from typing import Self

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podrail.host import events, wait
from podrail.host.memory import MemoryHost
from podrail.host.seam import Event, Watch

CHANGE = Event("uevent", "change", "/sys/devices/x", subsystem="pci")


class Clock:
    """Seconds that pass only while somebody waits."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Scripted:
    """A machine's watch whose events come when the clock gets there."""

    timeless = False

    def __init__(self, clock: Clock, at: tuple[float, ...] = ()) -> None:
        self.clock = clock
        self.due = [clock.now + seconds for seconds in at]
        self.waited: list[float] = []
        self.closed = False

    def wait(self, timeout: float | None) -> tuple[Event, ...]:
        assert timeout is not None
        self.waited.append(timeout)
        end = self.clock.now + timeout
        if self.due and self.due[0] <= end:
            self.clock.now = max(self.clock.now, self.due[0])
            found = [moment for moment in self.due if moment <= self.clock.now]
            self.due = self.due[len(found) :]
            return (CHANGE,) * len(found)
        self.clock.now = end
        return ()

    def fileno(self) -> int:
        return -1

    def close(self) -> None:
        self.closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Watched(MemoryHost):
    """A host with that watch, opened when it is asked for."""

    def __init__(self, make: Callable[[], Watch]) -> None:
        super().__init__("watched")
        self._make = make

    def watch(self) -> Watch:
        return self._make()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(wait, "monotonic", clock)
    return clock


def never() -> bool:
    return False


def test_what_holds_already_waits_for_nothing(clock: Clock) -> None:
    watch = Scripted(clock)
    assert wait.until(Watched(lambda: watch), lambda: True, 0.0)
    assert (watch.waited, watch.closed) == ([], True)


def test_a_change_between_the_look_and_the_wait_is_not_missed(clock: Clock) -> None:
    """The world changes right after the first look has said no."""
    host, looks = MemoryHost("m"), itertools.count()

    def condition() -> bool:
        if next(looks):
            return True
        host.emit(CHANGE)
        return False

    assert wait.until(host, condition, 10.0)
    assert next(looks) == 2


def test_each_batch_is_one_more_look_and_nothing_else_is(clock: Clock) -> None:
    watch = Scripted(clock, (0.001, 0.002, 0.003))
    host, looks = Watched(lambda: watch), itertools.count(1)
    assert wait.until(host, lambda: next(looks) == 4, 10.0)
    assert clock.now == pytest.approx(1000.003)
    assert len(watch.waited) == 3


def test_what_changes_without_an_event_is_seen_within_a_second(clock: Clock) -> None:
    watch = Scripted(clock)
    assert wait.until(Watched(lambda: watch), lambda: clock.now >= 1020.0, 60.0)
    assert clock.now < 1021.0
    assert max(watch.waited) == wait.LONGEST_PAUSE
    assert watch.waited == sorted(watch.waited)


def test_the_time_is_over_and_the_last_look_is_after_it(clock: Clock) -> None:
    watch, seen = Scripted(clock, (0.5, 1.0)), []

    def look() -> bool:
        seen.append(clock.now)
        return False

    assert not wait.until(Watched(lambda: watch), look, 3.0)
    assert clock.now == seen[-1] == pytest.approx(1003.0)
    assert watch.closed


@given(
    st.lists(st.floats(0.0, 9.0), max_size=20),
    st.floats(0.0, 8.0),
    st.floats(0.0, 8.0),
)
def test_true_in_time_is_found_and_late_is_not(
    moments: list[float], ready: float, timeout: float
) -> None:
    clock = Clock()
    watch = Scripted(clock, tuple(sorted(moments)))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(wait, "monotonic", clock)
        came = wait.until(Watched(lambda: watch), lambda: clock.now >= 1000.0 + ready, timeout)
    assert came or ready > timeout - 1e-6
    assert not came or ready <= timeout + 1e-6
    assert clock.now <= 1000.0 + timeout + 1e-6


def test_a_jump_of_the_wall_clock_changes_nothing(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    jumps = itertools.cycle([0.0, 4e9, -4e9, 1.0])
    monkeypatch.setattr(time, "time", lambda: next(jumps))
    early, late = Scripted(clock), Scripted(clock)
    assert wait.until(Watched(lambda: early), lambda: clock.now >= 1005.0, 6.0)
    began = clock.now
    assert not wait.until(Watched(lambda: late), never, 6.0)
    assert clock.now == pytest.approx(began + 6.0)


@pytest.mark.parametrize("module", [wait, events])
def test_no_other_clock_is_known_here(module: ModuleType) -> None:
    assert vars(module)["monotonic"] is time.monotonic
    assert not {"time", "datetime"} & set(vars(module))


def test_a_watch_that_was_given_stays_open(clock: Clock) -> None:
    host = MemoryHost("m")
    with host.watch() as watch:
        host.emit(CHANGE)
        assert not wait.until(host, never, 10.0, watch=watch)
        host.emit(CHANGE)
        assert watch.wait(None) == (CHANGE,)


def test_where_nothing_happens_by_itself_nobody_waits(clock: Clock) -> None:
    host, looks = MemoryHost("m"), itertools.count()

    def condition() -> bool:
        if next(looks) < 2:
            host.emit(CHANGE)
        return False

    assert not wait.until(host, condition, 3600.0)
    assert next(looks) == 3
    assert clock.now == 1000.0
