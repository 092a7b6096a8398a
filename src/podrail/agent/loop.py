"""The agent's loop: one thread that sleeps until the kernel, a signal or a clock wakes it."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import select
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from time import monotonic

from podrail.agent import reports
from podrail.agent.companion import Companion
from podrail.agent.keeper import Keeper
from podrail.agent.notify import Notifier
from podrail.agent.reports import Report, Reporter
from podrail.agent.signals import Signals
from podrail.agent.wanted import Source
from podrail.host.seam import Host, Watch
from podrail.model.errors import PodrailError, Refused
from podrail.realise.state import State
from podrail.realise.step import Failed

EVERY = 300.0
"""Seconds between full passes where nothing happens."""

TICK = 2.0
"""Seconds between looks for manifests that changed, in files or in the journal."""

QUIET, LONGEST = 0.05, 0.25
"""Seconds without an event after which what happened is over, and when it is looked at anyway."""


@dataclass(slots=True)
class Agent:
    """Keeps one machine."""

    host: Host
    state: State
    source: Source
    tell: Reporter
    signals: Signals
    every: float = EVERY
    notifier: Notifier = field(default_factory=Notifier)
    clock: Callable[[], float] = monotonic
    companion: Companion | None = None
    """The attach service, where it is wanted."""

    def once(self) -> int:
        """One pass; 0 all as wanted, 1 a PF refused or still differing, 3 manifests that cannot be
        read, 5 something failed."""
        with self.state.agent(), self.host.watch() as watch:
            loop = self._loop(watch)
            with self.signals.working():
                loop.keeper.full()
        said = {one.said[0] for one in loop.keeper.kept.values()}
        if reports.FAILED in said:
            return 5
        if self.source.problem:
            return 3
        return 1 if said - {""} or any(k.drift for k in loop.keeper.kept.values()) else 0

    def run(self) -> int:
        """Until a signal stops it. Nothing on the machine changes because it starts or stops."""
        with self.state.agent(), self.host.watch() as watch:
            loop = self._loop(watch)
            with contextlib.suppress(KeyboardInterrupt), self._accompanied():
                loop.full()
                self.notifier.ready(loop.standing())
                self.tell(Report(reports.READY, reason=loop.standing()))
                while not self.signals.stop:
                    loop.turn()
                    self._accompany()
            self.notifier.stopping()
            self.tell(Report(reports.STOPPING, reason="the VFs stay as they are"))
        return 0

    @contextlib.contextmanager
    def _accompanied(self) -> Iterator[None]:
        self._accompany()
        try:
            yield
        finally:
            if self.companion:
                self.companion.stop()

    def _accompany(self) -> None:
        ended = self.companion.look() if self.companion else None
        if ended:
            self.tell(Report(reports.FAILED, reason=f"the attach service: {ended}"))

    def _loop(self, watch: Watch) -> Loop:
        keeper = Keeper(self.host, self.state, self.source, watch, self.tell, self.clock)
        return Loop(keeper, watch, self.signals, self.notifier, self.every, self.clock)


class Loop:
    """The turns of an agent."""

    def __init__(
        self, keeper: Keeper, watch: Watch, signals: Signals, notifier: Notifier,
        every: float = EVERY, clock: Callable[[], float] = monotonic,
    ) -> None:  # fmt: skip
        self.keeper, self.watch, self.signals, self.notifier = keeper, watch, signals, notifier
        self.every, self.clock = every, clock
        self._next = self._check = clock()
        self._poll = select.poll()
        for fd in (watch.fileno(), signals.fileno()):
            self._poll.register(fd, select.POLLIN)

    def turn(self) -> None:
        """Wait for something, and do what it asks for."""
        self._wait()
        self.notifier.alive()
        if self.signals.stop:
            return
        if self.signals.hangup():
            self.keeper.pace.forget()
            self._next = self.clock()
        touched = self._collect()
        if touched:
            with self._guarded():
                self.keeper.touched(touched)
        if self._passes():
            self.full()

    def full(self) -> None:
        """A full pass; what stops it is told, and it is tried again."""
        with self._guarded():
            self.keeper.full()
        self._next = self.clock() + self.every
        self.notifier.status(self.standing())
        _give_memory_back()

    def standing(self) -> str:
        """In a line: how many PFs there are, and how many are not as wanted."""
        kept = [self.keeper.kept[pf] for pf in self.keeper.pfs()]
        off = sum(bool(one.drift or one.said[0]) for one in kept)
        wanted = self.keeper.source.now
        names = wanted.names if wanted else "nothing"
        return f"PFs wanted by {names}: {len(kept)}; {len(kept) - off} as wanted, {off} not"

    def _wait(self) -> None:
        if self.watch.timeless:
            return
        now = self.clock()
        ends = [self._next - now, TICK, self.notifier.feed_seconds, self.keeper.seconds()]
        left = max(0.0, min(end for end in ends if end is not None))
        if any(fd == self.signals.fileno() for fd, _ in self._poll.poll(left * 1000)):
            self.signals.heard()

    def _collect(self) -> set[str]:
        """What events are about, with all that follows shortly after."""
        touched = self.keeper.sift(self.watch.wait(0))
        quiet = self.clock() + QUIET
        end = self.clock() + LONGEST
        while touched and (left := min(quiet, end) - self.clock()) > 0:
            events = self.watch.wait(left)
            if not events and self.watch.timeless:
                break
            more = self.keeper.sift(events)
            quiet = self.clock() + QUIET if more else quiet
            touched |= more
        return touched

    def _passes(self) -> bool:
        now = self.clock()
        if now >= self._next or self.keeper.due():
            return True
        if now < self._check:
            return False
        self._check = now + TICK
        found: list[bool] = []
        with self._guarded():
            found.append(self.keeper.source.changed())
        return any(found)

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        """What goes wrong for the whole machine is a report, and not the end of the agent."""
        try:
            with self.signals.working():
                yield
        except Refused as no:
            self.keeper.troubled(reports.REFUSED, str(no))
        except Failed as no:
            self.keeper.troubled(reports.FAILED, no.reason, no.fix)
        except (PodrailError, OSError, sqlite3.Error) as no:
            self.keeper.troubled(reports.FAILED, str(no))


def _give_memory_back() -> None:
    """An inventory of many VFs is large, and the next one is minutes away."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc alone has it
    if trim is not None:
        trim(0)
