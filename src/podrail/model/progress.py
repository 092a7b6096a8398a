"""How far a long job is, and how much longer it takes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """One moment of a long job; `fraction` and `left` are None where nobody can know."""

    stage: str
    text: str
    fraction: float | None = None
    left: float | None = None

    def __str__(self) -> str:
        parts = [self.text]
        if self.fraction is not None:
            parts.append(f"{self.fraction:.0%}")
        if self.left is not None:
            parts.append(f"about {_span(self.left)} left")
        return ", ".join(parts)


Report = Callable[[Progress], None]


def _span(seconds: float) -> str:
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{seconds / 60:.0f} min"


_EVERY = 2.0


class Meter:
    """Turns stages of known usual length into a percentage and a time left.

    The pace so far scales what is left, so a slow machine is told the truth after a few seconds.
    """

    def __init__(
        self,
        report: Report,
        usual: Mapping[str, float],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._report, self._usual, self._clock = report, dict(usual), clock
        self._done: dict[str, float] = {}
        self._stage, self._text, self._began = "", "", clock()
        self._said = float("-inf")

    @property
    def took(self) -> dict[str, float]:
        """The seconds each finished stage took."""
        return dict(self._done)

    def start(self, stage: str, text: str) -> None:
        """Ends the stage before, and begins this one."""
        self.finish()
        self._stage, self._text, self._began = stage, text, self._clock()
        self._said = float("-inf")
        self.at(0.0)

    def at(self, part: float) -> None:
        """This much (0 to 1) of the stage is done; said every few seconds."""
        now = self._clock()
        if now - self._said < _EVERY:
            return
        self._said, spent = now, now - self._began
        total = sum(self._usual.values()) or 1.0
        usual = self._usual.get(self._stage, 0.0)
        passed = sum(self._usual.get(s, 0.0) for s in self._done) + min(1.0, part) * usual
        left = (total - passed) * self._pace(passed, spent)
        self._report(Progress(self._stage, self._text, min(0.99, passed / total), left))

    def say(self, text: str) -> None:
        """A word that belongs to no stage."""
        self._report(Progress(self._stage, text))

    def finish(self) -> None:
        """Ends the stage that is running, if one is."""
        if self._stage:
            self._done[self._stage] = self._clock() - self._began
        self._stage = ""

    def _pace(self, passed: float, spent: float) -> float:
        if passed < 3.0:
            return 1.0
        return min(10.0, max(0.2, (sum(self._done.values()) + spent) / passed))
