"""Progress on standard error: one line that is rewritten on a terminal, few lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import click

_EVERY = 5.0
"""Seconds between lines where the line cannot be rewritten."""


class Ticker:
    """Shows what is going on, from `after` seconds on: what ends sooner needs no progress."""

    def __init__(self, after: float = 0.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._from = clock() + after
        self._rewrites = sys.stderr.isatty()
        self._clock = clock
        self._stage = ""
        self._said = -_EVERY
        self._open = False

    def __call__(self, progress: object) -> None:
        """Anything whose text says how far it is."""
        if self._clock() < self._from:
            return
        text = str(progress)
        stage = getattr(progress, "stage", text)
        if self._rewrites:
            click.echo(f"\r\x1b[K{text}", nl=False, err=True)
            self._open = True
        elif stage != self._stage or self._clock() - self._said >= _EVERY:
            click.echo(text, err=True)
            self._said = self._clock()
        self._stage = stage

    def done(self) -> None:
        """End the line that is being rewritten."""
        if self._open:
            click.echo("\r\x1b[K", nl=False, err=True)
            self._open = False
