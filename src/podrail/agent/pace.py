"""When to try again: at once, unless it keeps failing or keeps coming undone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

FIRST, LONGEST = 1.0, 300.0
"""Seconds before the first and between the later attempts at what fails."""

FREE = 3
"""So often something is mended at once; after that somebody else is setting it, and will again."""

EARLY = 8
"""What failed is tried so many times sooner when it changed by itself."""

CALM = 10.0
"""Seconds after which something that came undone again is a new matter."""


@dataclass(slots=True)
class _Turn:
    tried: float
    due: float
    failures: int = 0
    again: int = 0


class Pace:
    """Attempts at every subject, by a clock that only goes forward."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._turns: dict[str, _Turn] = {}

    def due(self, subject: str) -> bool:
        turn = self._turns.get(subject)
        return turn is None or self._clock() >= turn.due

    def seconds(self, subject: str) -> float:
        """How long it still waits."""
        turn = self._turns.get(subject)
        return 0.0 if turn is None else max(0.0, turn.due - self._clock())

    def failed(self, subject: str) -> None:
        now, before = self._clock(), self._turns.get(subject)
        failures = before.failures + 1 if before else 1
        self._turns[subject] = _Turn(now, now + _delay(failures), failures)

    def worked(self, subject: str) -> None:
        """It was done; done again and again within a short while, it has to wait, too."""
        now, before = self._clock(), self._turns.get(subject)
        soon = before is not None and now - before.due < CALM
        again = before.again + 1 if before and soon else 0
        due = now + _delay(again - FREE + 1) if again >= FREE else now
        self._turns[subject] = _Turn(now, due, again=again)

    def contested(self, subject: str) -> int:
        """How often in a row it came undone, once that is too often; else 0."""
        turn = self._turns.get(subject)
        return turn.again + 1 if turn and turn.again >= FREE else 0

    def changed(self, subject: str) -> None:
        """What failed stands otherwise now: no need to wait out the time. But our own work may have
        changed it, so attempts become rarer all the same."""
        turn = self._turns.get(subject)
        if turn and turn.failures:
            turn.due = min(turn.due, turn.tried + max(FIRST, _delay(turn.failures) / EARLY))

    def forget(self, subject: str | None = None) -> None:
        """Somebody wants it tried now."""
        if subject is None:
            self._turns.clear()
        else:
            self._turns.pop(subject, None)


def _delay(times: int) -> float:
    return float(min(LONGEST, FIRST * 2 ** min(times - 1, 16)))
