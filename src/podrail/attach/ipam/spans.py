"""Whole numbers in runs: what is taken of a range of addresses, found again by bisection."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator

Span = tuple[int, int]
"""First and last, both in."""


class Spans:
    """A set of numbers, kept as the runs they form. 2¹²⁸ numbers in a row cost as much as one."""

    __slots__ = ("_last", "_starts")

    def __init__(self, spans: Iterable[Span] = ()) -> None:
        runs = joined(spans)
        self._starts = [first for first, _ in runs]
        self._last = dict(runs)

    def __contains__(self, number: int) -> bool:
        start = self._run(number)
        return start is not None and number <= self._last[start]

    def __iter__(self) -> Iterator[Span]:
        return ((start, self._last[start]) for start in self._starts)

    def after(self, number: int) -> int:
        """The first number from here on that is not in the set."""
        start = self._run(number)
        return number if start is None else max(number, self._last[start] + 1)

    def add(self, number: int) -> None:
        """Put one number in, joining the runs on both sides of it."""
        if number in self:
            return
        below = self._run(number)
        last = self._last.get(number + 1)
        if last is not None:
            self._drop(number + 1)
        if below is not None and self._last[below] == number - 1:
            self._last[below] = number if last is None else last
        else:
            insort(self._starts, number)
            self._last[number] = number if last is None else last

    def discard(self, number: int) -> None:
        """Take one number out, parting the run it is in."""
        start = self._run(number)
        if start is None or number > self._last[start]:
            return
        last = self._last[start]
        if start == number:
            self._drop(start)
        else:
            self._last[start] = number - 1
        if number < last:
            insort(self._starts, number + 1)
            self._last[number + 1] = last

    def _run(self, number: int) -> int | None:
        """The start of the last run that starts at the number or before."""
        at = bisect_right(self._starts, number)
        return self._starts[at - 1] if at else None

    def _drop(self, start: int) -> None:
        del self._starts[bisect_right(self._starts, start) - 1], self._last[start]


def joined(spans: Iterable[Span]) -> list[Span]:
    """The spans in order, those that touch made one; an empty one (last before first) is none."""
    found: list[Span] = []
    for first, last in sorted(span for span in spans if span[0] <= span[1]):
        if found and first <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(last, found[-1][1])
        else:
            found.append((first, last))
    return found
