"""Signals, heard between two turns of the loop; only a stop reaches into work that is going on."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from types import FrameType
from typing import Any, Self

_STOPS = (signal.SIGTERM, signal.SIGINT)


class Signals:
    """SIGTERM and SIGINT stop, SIGHUP asks for a full pass."""

    def __init__(self) -> None:
        self.stop = False
        self._hangup = self._working = False
        self._read, self._write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._before: list[tuple[int, Any]] = []

    def __enter__(self) -> Self:
        self._before = [
            *((s, signal.signal(s, self._on_stop)) for s in _STOPS),
            (signal.SIGHUP, signal.signal(signal.SIGHUP, self._on_hangup)),
        ]
        self._woken = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        return self

    def __exit__(self, *_: object) -> None:
        signal.set_wakeup_fd(self._woken)
        for number, handler in self._before:
            signal.signal(number, handler)
        os.close(self._read)
        os.close(self._write)

    def fileno(self) -> int:
        """Readable when a signal came."""
        return self._read

    def heard(self) -> None:
        """Make it unreadable again."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._read, 4096)

    def hangup(self) -> bool:
        """Whether somebody asked for a full pass since the last time."""
        asked, self._hangup = self._hangup, False
        return asked

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        """A stop now is a KeyboardInterrupt, upon which workers take back what they began."""
        self._working = True
        try:
            if self.stop:
                raise KeyboardInterrupt
            yield
        finally:
            self._working = False

    def _on_stop(self, number: int, frame: FrameType | None) -> None:
        self.stop = True
        if self._working:
            self._working = False  # a second one may not cut short the way back
            raise KeyboardInterrupt

    def _on_hangup(self, number: int, frame: FrameType | None) -> None:
        self._hangup = True
