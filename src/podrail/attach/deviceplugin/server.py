"""The device plugin: keeps what is offered true, and the kubelet told.

One thread waits for the machine, for the kubelet and for the clock, and does what they ask for;
gRPC answers calls in threads of its own. Programs are run (vfork and exec), nothing else forks.
"""

from __future__ import annotations

import os
import select
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from threading import RLock, Thread
from time import monotonic
from typing import Any

from podrail.attach.deviceplugin.candidates import Candidate, candidates
from podrail.attach.deviceplugin.configs import Wanted
from podrail.attach.deviceplugin.endpoint import Endpoint, changes
from podrail.attach.deviceplugin.health import HOLD, Marks, Port, damped, due, judge, ports
from podrail.attach.deviceplugin.kubelet import Doorway, Places
from podrail.attach.deviceplugin.naming import Resource
from podrail.attach.deviceplugin.nodes import extras
from podrail.attach.deviceplugin.papers import Papers, Say
from podrail.attach.deviceplugin.resources import Pool, offer
from podrail.host.seam import Event, Host, Watch
from podrail.inventory.collect import discover
from podrail.model.inventory import Inventory

EVERY = 60.0
"""Seconds between looks where no event comes: an InfiniBand port without IPoIB sends none."""
QUIET, GAP = 0.05, 1.0
"""Seconds after an event before the machine is looked at, and between two looks."""

_SUBSYSTEMS = frozenset({"pci", "infiniband", "auxiliary", "vdpa"})


class DevicePlugins:
    """All resources of one machine."""

    def __init__(
        self, host: Host, wanted: Wanted, *, places: Places = Places(),  # noqa: B008 - frozen
        look: Callable[[], Inventory] | None = None, clock: Callable[[], float] = monotonic,
        say: Say = print, cdi: bool = False, per_hca: bool = False, hold: float = HOLD,
        gap: float = GAP,
    ) -> None:  # fmt: skip
        self._host, self._wanted, self._clock, self._say = host, wanted, clock, say
        self._look = look or (lambda: discover(host))
        self._cdi, self._per_hca, self._hold, self._gap = cdi, per_hca, hold, gap
        self._papers = Papers(host, say, cdi=cdi)
        self._door = Doorway(places, say, clock)
        self._endpoints: dict[Resource, Endpoint] = {}
        self._marks: dict[Resource, Marks] = {}
        self._found: dict[str, Candidate] = {}
        self._inventory: Inventory | None = None
        self._ports: dict[str, Port] = {}
        self._pfs: frozenset[str] = frozenset()
        self._said: tuple[str, ...] = ()
        self._lock = RLock()
        self._bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._watch: Watch | None = None
        self._poll = select.poll()
        self._thread: Thread | None = None
        self._stopping = False
        self._look_at: float | None = None
        self._looked = float("-inf")

    # --- what is offered ------------------------------------------------------------------------

    def refresh(self, inventory: Inventory) -> None:
        """Offer what the machine has now."""
        with self._lock:
            if self._stopping:
                return
            self._inventory, self._looked = inventory, self._clock()
            self._look_at = self._looked + EVERY
            self._pfs = frozenset(n for pf in inventory.pfs for n in (pf.name, *pf.altnames))
            self._ports = ports(inventory)
            beside = extras(self._host, inventory, self._wanted.asks)
            self._found = candidates(inventory, beside, self._found)
            found = offer(self._wanted, inventory, self._found, per_hca=self._per_hca)
            self._tell(found.said)
            self._keep(found.pools)
        self._ring()

    def want(self, wanted: Wanted) -> None:
        """Offer something else from now on."""
        with self._lock:
            self._wanted = wanted
            if self._inventory is not None:
                self.refresh(self._inventory)

    def standing(self) -> list[dict[str, Any]]:
        """Every resource: its devices, which of them are healthy, and whether the kubelet knows."""
        with self._lock:
            return [self._stands(endpoint) for endpoint in self._endpoints.values()]

    def _stands(self, endpoint: Endpoint) -> dict[str, Any]:
        name = endpoint.pool.resource
        faults = {id: m.fault for id, m in self._marks.get(name, {}).items() if m.fault}
        return {
            "resource": str(name),
            "devices": [device.ID for device in endpoint.listed],
            "unhealthy": faults,
            "registered": endpoint.registered,
            "watched": endpoint.watched,
            "problem": endpoint.problem,
        }

    def _tell(self, said: tuple[str, ...]) -> None:
        for text in said:
            if text not in self._said:
                self._say(text)
        self._said = said

    def _keep(self, pools: Iterable[Pool]) -> None:
        wanted = {pool.resource: pool for pool in pools}
        for name in self._endpoints.keys() - wanted.keys():
            self._drop(name)
        for name, pool in wanted.items():
            if name not in self._endpoints:
                self._endpoints[name] = Endpoint(
                    self._host, pool, self._papers, self._say, cdi=self._cdi
                )
            self._offer(pool)

    def _offer(self, pool: Pool) -> None:
        before = self._marks.get(pool.resource, {})
        faults = {slot.id: judge(slot, self._ports) for slot in pool.slots}
        marks = damped(before, faults, self._clock(), self._hold)
        for id, text in changes(before, marks).items():
            self._say(f"{pool.resource}: {id} is {text}")
        self._marks[pool.resource] = marks
        self._endpoints[pool.resource].offer(pool, marks)

    def _drop(self, name: Resource) -> None:
        self._endpoints.pop(name).close()
        self._papers.drop(name)
        self._marks.pop(name, None)

    # --- its life -------------------------------------------------------------------------------

    def start(self) -> None:
        """Look at the machine, then keep what is offered true until `stop`."""
        self.refresh(self._look())
        self._thread = Thread(target=self._run, name="device-plugins", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Take every socket and file away again; running pods keep what they have."""
        with self._lock:
            if self._stopping:
                return
            self._stopping = True
        self._ring()
        if self._thread is not None:
            self._thread.join()
        for name in tuple(self._endpoints):
            self._drop(name)
        self._door.close()
        os.close(self._bell)

    @property
    def alive(self) -> bool:
        """Whether the keeping goes on; a service that finds it ended should end too."""
        return self._thread is not None and self._thread.is_alive()

    def _ring(self) -> None:
        with suppress(BlockingIOError):
            os.eventfd_write(self._bell, 1)

    def _run(self) -> None:
        with ExitStack() as open_:
            with suppress(OSError):  # a record does not change
                self._watch = open_.enter_context(self._host.watch())
            fds = (self._bell, self._door.directory.fileno())
            for fd in (*fds, self._watch.fileno() if self._watch else -1):
                if fd >= 0:
                    self._poll.register(fd, select.POLLIN)
            open_.callback(self._last_word)
            while not self._stopping:
                self._turn()

    def _last_word(self) -> None:
        if not self._stopping:
            self._say("the device plugin has stopped keeping up: restart the service")

    def _turn(self) -> None:
        with self._lock:
            if not self._stopping:
                self._door.tend(self._endpoints.values())
        self._poll.poll(self._seconds() * 1000)
        with suppress(BlockingIOError):
            os.eventfd_read(self._bell)
        self._door.directory.drain()
        self._hear()
        self._when_due()

    def _seconds(self) -> float:
        with self._lock:
            clears = [due(marks, self._hold) for marks in self._marks.values()]
            times = [at - self._clock() for at in (self._look_at, *clears) if at is not None]
            again = self._door.seconds()
        return max(0.0, min([EVERY, *times, *([] if again is None else [again])]))

    def _hear(self) -> None:
        events = self._watch.wait(0) if self._watch else ()
        if any(self._concerns(event) for event in events):
            now = self._clock()
            soon = max(now + QUIET, self._looked + self._gap)
            self._look_at = soon if self._look_at is None else min(self._look_at, soon)

    def _concerns(self, event: Event) -> bool:
        """VFs' own links come and go with pods, and tell nothing of what is offered."""
        if event.source == "link":
            return event.name in self._pfs
        return event.source == "lost" or event.subsystem in _SUBSYSTEMS

    def _when_due(self) -> None:
        now = self._clock()
        if self._look_at is not None and now >= self._look_at:
            self.refresh(self._look())
            return
        with self._lock:
            clears = [due(marks, self._hold) for marks in self._marks.values()]
            if not self._stopping and any(at is not None and now >= at for at in clears):
                for endpoint in self._endpoints.values():
                    self._offer(endpoint.pool)
