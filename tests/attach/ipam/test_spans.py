from __future__ import annotations

import time
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from podrail.attach.ipam.spans import Spans, joined

_NUMBERS = st.integers(0, 40)
_SPANS = st.lists(st.tuples(_NUMBERS, _NUMBERS), max_size=8)
_STEPS = st.lists(st.tuples(st.booleans(), _NUMBERS), max_size=60)


def _numbers(spans: list[tuple[int, int]]) -> set[int]:
    return {number for a, b in spans for number in range(a, b + 1)}


@given(_SPANS, _STEPS, _NUMBERS)
def test_behaves_as_a_set(
    spans: list[tuple[int, int]], steps: list[tuple[bool, int]], start: int
) -> None:
    ours, model = Spans(spans), _numbers(spans)
    for put, number in steps:
        (ours.add if put else ours.discard)(number)
        (model.add if put else model.discard)(number)
    assert {n for n in range(-1, 42) if n in ours} == model
    assert ours.after(start) == next(n for n in range(start, 100) if n not in model)


@given(_SPANS, _STEPS)
def test_runs_never_touch(spans: list[tuple[int, int]], steps: list[tuple[bool, int]]) -> None:
    ours = Spans(spans)
    for put, number in steps:
        (ours.add if put else ours.discard)(number)
    runs = list(ours)
    assert all(a <= b for a, b in runs)
    assert all(before[1] + 1 < after[0] for before, after in pairwise(runs))


@given(_SPANS)
def test_joined_keeps_every_number(spans: list[tuple[int, int]]) -> None:
    assert _numbers(joined(spans)) == _numbers(spans)


def test_a_long_run_costs_no_more_than_a_short_one() -> None:
    """Scanning 2⁶⁴ numbers would not end."""
    ours = Spans([(1, 2**64)])
    assert ours.after(5) == 2**64 + 1
    ours.discard(2**63)
    assert ours.after(5) == 2**63


def _cost(runs: int) -> float:
    ours = Spans((2 * n, 2 * n) for n in range(runs))
    middle = runs // 2 * 2 + 1
    start = time.perf_counter()
    for _ in range(2000):
        ours.add(middle)
        ours.after(middle)
        ours.discard(middle)
    return time.perf_counter() - start


def test_cost_hardly_grows_with_the_runs() -> None:
    """A scan over a thousand times as many runs would take a thousand times as long."""
    small, large = min(_cost(100) for _ in range(3)), min(_cost(100_000) for _ in range(3))
    assert large < 60 * small
