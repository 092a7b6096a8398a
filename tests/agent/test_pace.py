"""When something is tried again."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from podrail.agent.pace import CALM, FIRST, FREE, LONGEST, Pace
from tests.agent.rig import Clock


def tries(pace: Pace, clock: Clock, times: int) -> list[float]:
    """When a subject that always fails is tried, looked at every tenth of a second."""
    found: list[float] = []
    while len(found) < times:
        if pace.due("pf"):
            found.append(clock.now)
            pace.failed("pf")
        clock.now += 0.1
    return found


def test_what_fails_waits_twice_as_long_each_time() -> None:
    clock = Clock()
    gaps = [b - a for a, b in pairwise(tries(Pace(clock), clock, 12))]
    expected = [min(LONGEST, FIRST * 2**n) for n in range(11)]
    assert all(want <= gap < want + 0.25 for gap, want in zip(gaps, expected, strict=True))


def test_what_worked_starts_anew() -> None:
    clock = Clock()
    pace = Pace(clock)
    tries(pace, clock, 6)
    pace.worked("pf")
    assert pace.due("pf")
    pace.failed("pf")
    assert pace.seconds("pf") == FIRST


def test_mended_a_few_times_at_once_then_slower() -> None:
    clock = Clock()
    pace = Pace(clock)
    for _ in range(FREE):
        pace.worked("pf")
        assert (pace.due("pf"), pace.contested("pf")) == (True, 0)
    pace.worked("pf")
    assert (pace.due("pf"), pace.contested("pf"), pace.seconds("pf")) == (False, FREE + 1, FIRST)
    clock.now += FIRST + CALM
    pace.worked("pf")
    assert (pace.due("pf"), pace.contested("pf")) == (True, 0)


@given(st.lists(st.tuples(st.sampled_from(["failed", "changed", "look"]), st.floats(0, 2)),
                max_size=300))  # fmt: skip
def test_no_order_of_events_makes_it_a_tight_loop(steps: list[tuple[str, float]]) -> None:
    clock = Clock()
    pace = Pace(clock)
    tried: list[float] = []
    for what, seconds in steps:
        clock.now += seconds
        if what == "changed":
            pace.changed("pf")
        elif pace.due("pf"):
            tried.append(clock.now)
            pace.failed("pf")
    gaps = [b - a for a, b in pairwise(tried)]
    assert all(gap >= FIRST for gap in gaps)
    assert all(gap >= FIRST * 2**n / 8 for n, gap in enumerate(gaps[:10]))


@given(st.integers(1, 5000))
def test_no_number_of_failures_is_too_many(times: int) -> None:
    pace = Pace(Clock())
    for _ in range(times):
        pace.failed("pf")
    assert 0 < pace.seconds("pf") <= LONGEST


def test_subjects_do_not_wait_for_each_other() -> None:
    pace = Pace(Clock())
    pace.failed("one")
    assert (pace.due("one"), pace.due("other")) == (False, True)
    pace.forget("one")
    assert pace.due("one")
