"""Waiting for a machine to become what it should be: by its events, never by the clock alone."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from time import monotonic

from podrail.host.seam import Host, Watch

FIRST_PAUSE, LONGEST_PAUSE = 0.02, 1.0
"""Seconds between looks while no event comes: some attributes change without one."""


def until(
    host: Host, condition: Callable[[], bool], timeout: float, *, watch: Watch | None = None
) -> bool:
    """Whether the condition came true in time; looked at again after whatever happens.

    Watching begins before the first look, so nothing falls between the two. Events taken from a
    `watch` that is given are gone for its owner. On a machine where nothing happens by itself (a
    twin) there is no waiting for what no event announces.
    """
    with ExitStack() as opened:
        heard = opened.enter_context(host.watch()) if watch is None else watch
        return _until(condition, monotonic() + timeout, heard)


def _until(condition: Callable[[], bool], deadline: float, watch: Watch) -> bool:
    pause = FIRST_PAUSE
    while not condition():
        left = deadline - monotonic()
        if left <= 0:
            return False
        events = watch.wait(min(pause, left))
        if not events and watch.timeless:
            return False
        pause = FIRST_PAUSE if events else min(2 * pause, LONGEST_PAUSE)
    return True
