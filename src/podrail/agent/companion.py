"""A process beside the agent: started, started again when it ends, and ended with it."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from time import monotonic

_PR_SET_PDEATHSIG = 1  # include/uapi/linux/prctl.h
_PATIENCE = 30.0
_STEADY = 60.0
"""Seconds after which a process that ended is not counted as one that cannot start."""
_LONGEST = 60.0


def _with_parent() -> None:
    """It ends when the agent is killed: the next agent brings its own."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _environment() -> dict[str, str]:
    """The same modules as here, wherever they came from."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


class Companion:
    """Kept running; later and later where it does not stay up."""

    def __init__(self, argv: Sequence[str], clock: Callable[[], float] = monotonic) -> None:
        self._argv, self._clock = list(argv), clock
        self._process: subprocess.Popen[bytes] | None = None
        self._began, self._next, self._pause = 0.0, 0.0, 1.0

    def look(self) -> str | None:
        """Start it where it does not run; what is worth telling of that."""
        if self._process is not None and self._process.poll() is None:
            return None
        ended = self._ended()
        if self._clock() >= self._next:
            self._process = subprocess.Popen(
                self._argv, stdin=subprocess.DEVNULL, env=_environment(), preexec_fn=_with_parent
            )
            self._began = self._clock()
        return ended

    def _ended(self) -> str | None:
        if self._process is None:
            return None
        code, self._process = self._process.returncode, None
        steady = self._clock() - self._began > _STEADY
        self._pause = 1.0 if steady else min(2 * self._pause, _LONGEST)
        self._next = self._clock() + self._pause
        return f"it ended with {code}; started again in {self._pause:g} s"

    def stop(self) -> None:
        """Ends after what it is doing."""
        if self._process is None or self._process.poll() is not None:
            return
        self._process.terminate()
        try:
            self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
