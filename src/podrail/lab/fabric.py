"""An InfiniBand fabric without hardware: ibsim, opensm, and the real infiniband-diags inside it.

    with Fabric.start("ib0", FatTree(hosts=4, rails=2)) as fabric:
        fabric.run(["ibnetdiscover"], host="node1")
        fabric.unlink("leaf0", 1)

ibsim answers management datagrams and nothing else: no data moves, `ibping`, `vendstat` and
`ibstatus` do not work, nor does `iblinkinfo -S` (combined routing), and umad2sim tells `ibstat` a
rate below HDR's. At most ten programs are inside at once, subnet managers included.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Any, Self

from podrail.lab import diags, fabric_start, fabric_state
from podrail.lab.fabric_inside import Inside, not_up
from podrail.lab.fabric_start import PRIORITY, Report, manager_place
from podrail.lab.fabric_state import FabricState
from podrail.lab.topology import FatTree, Net
from podrail.model.errors import Refused, Unmeasured, UsageError

_SETTLE = 30.0
_LOOK = 5.0
"""A question ibsim loses is asked again after this long."""
_PAUSE = 0.02


@dataclass(frozen=True, slots=True)
class Manager:
    """A subnet manager of the fabric."""

    host: str
    priority: int
    pid: int
    state: str
    """MASTER, STANDBY, DISCOVERING, NOT_ACTIVE, or SILENT when it does not answer."""


class Fabric(Inside):
    """A fabric that is up."""

    def __init__(self, state: FabricState, leash: int | None = None) -> None:
        super().__init__(state)
        self._leash = leash

    @classmethod
    def start(
        cls, name: str = "ib0", tree: FatTree | None = None, *, net: Net | None = None,
        keep: bool = True, report: Report = lambda _: None,
    ) -> Self:  # fmt: skip
        """Start a fabric and wait until every port is Active; on any failure nothing stays.

        With `keep` it outlives this process, until `stop`. Without, it ends when this process
        does, however that happens.
        """
        tree = tree or FatTree()
        beginning = fabric_start.started(name, tree, net, report)
        with fabric_state.fabrics.locked(name), beginning as begun:
            fabric = cls(begun.state, begun.leash)
            fabric.settle()
            report(f"{len(fabric.net.wiring())} links Active")
            if keep:
                begun.keep()
                fabric._leash = None
            return fabric

    @classmethod
    def find(cls, name: str | None = None) -> Self:
        """The fabric of that name, or the only one."""
        up = [state for state in running() if name in (None, state.name)]
        if not up:
            raise not_up(name)
        if len(up) > 1:
            names = ", ".join(state.name for state in up)
            raise UsageError(f"several fabrics are up: say --name, one of {names}")
        return cls(up[0])

    # --- faults -------------------------------------------------------------------------------

    def unlink(self, name: str, port: int | None = None) -> list[tuple[str, int]]:
        """Pull a cable, or every cable of a node; those that were in are returned."""
        node, cut = self.node(name), self._cut()
        wanted = [c for c in node.cables if port in (None, c.port)]
        if not wanted:
            raise UsageError(f"{node.name} port {port} has no cable; see podrail lab fabric list")
        pulled = [
            (node.name, c.port)
            for c in wanted
            if not {(node.name, c.port), (c.peer, c.peer_port)} & cut
        ]
        self._link("unlink", pulled)
        return pulled

    def relink(self, name: str, port: int | None = None) -> list[tuple[str, int]]:
        """Put back a cable that was pulled at either end; those that were out are returned."""
        node, cut = self.node(name), self._cut()
        ends = [
            end
            for c in node.cables
            if port in (None, c.port)
            for end in ((node.name, c.port), (c.peer, c.peer_port))
            if end in cut
        ]
        self._link("relink", ends)
        return ends

    def _link(self, verb: str, ends: list[tuple[str, int]]) -> None:
        for name, port in ends:
            cable = self.net[name].cable(port)
            self._ask(verb, name=name, port=port, peer=cable.peer if cable else "")

    def _cut(self) -> set[tuple[str, int]]:
        return {(name, port) for name, port in self._ask("status")["cut"]}

    # --- subnet managers ----------------------------------------------------------------------

    def sm_start(self, host: str | None = None, priority: int = PRIORITY) -> Manager:
        """Start a subnet manager, by default where the first one was; wait for its role."""
        if not 0 <= priority <= 15:
            raise UsageError(f"priority {priority}: a subnet manager's is 0 to 15")
        at = self.adapter(host) if host else manager_place(self.net)
        self._ask("sm-start", host=at, priority=priority)
        return next(manager for manager in self._settle_managers() if manager.host == at)

    def sm_double(self, host: str | None = None, priority: int | None = None) -> Manager:
        """A second subnet manager at another host, by default one rank lower than the others."""
        there = self.managers()
        if not there:
            raise UsageError("no subnet manager runs: podrail lab fabric sm start")
        hosts = {_host(manager.host) for manager in there}
        free = [n.name for n in self.net.adapters if _host(n.name) not in hosts]
        if host is None and not free:
            raise UsageError("every host has a subnet manager already")
        lower = max(0, min(manager.priority for manager in there) - 1)
        return self.sm_start(host or free[-1], lower if priority is None else priority)

    def sm_stop(self, host: str | None = None, *, kill: bool = False) -> list[str]:
        """Stop the subnet manager at a host, or all; `kill` as if its host had crashed."""
        at = None if host is None else self.adapter(host)
        stopped: list[str] = self._ask("sm-stop", host=at, kill=kill)["stopped"]
        if self.managers():
            self._settle_managers()
        return stopped

    def managers(self) -> list[Manager]:
        """Every subnet manager that runs, as it describes itself."""
        running = [m for m in self._ask("status")["managers"] if m["ended"] is None]
        return [Manager(m["host"], m["priority"], m["pid"], self._role(m["host"])) for m in running]

    def _role(self, at: str) -> str:
        try:
            # Directed route 0 is the port itself, so a standby answers too.
            ran = self.run(["sminfo", "-D", "0"], host=at, timeout=_LOOK)
            return diags.sminfo(ran.stdout).state
        except Unmeasured:
            return "SILENT"

    def _settle_managers(self) -> list[Manager]:
        """Until each connected part has one master and else standbys, and the master knows them."""
        found: list[Manager] = []

        def settled() -> bool:
            found[:] = self.managers()
            return all(
                sorted(m.state for m in those) == ["MASTER"] + ["STANDBY"] * (len(those) - 1)
                for those in self._parts(found)
            )

        def unsettled() -> str:
            return "subnet managers are " + ", ".join(f"{m.host} {m.state}" for m in found)

        self._until(settled, unsettled)
        if len(found) > 1:
            # A light sweep does not see that a port has become a subnet manager's.
            self._ask("sweep")
            self._until(lambda: settled() and self._known(found), unsettled)
        return found

    def _parts(self, managers: list[Manager]) -> list[list[Manager]]:
        """Those that can reach each other; one that is cut off has no part to manage."""
        parts: dict[frozenset[frozenset[tuple[int, int]]], list[Manager]] = {}
        for manager in managers:
            parts.setdefault(self._part(manager.host), []).append(manager)
        return [those for part, those in parts.items() if part]

    def _known(self, managers: list[Manager]) -> bool:
        """Whether every master has the others on record as they are."""
        for those in self._parts(managers):
            master = next(m.host for m in those if m.state == "MASTER")
            with contextlib.suppress(Unmeasured):
                said = self.run(["saquery", "SMIR"], host=master, timeout=_LOOK).stdout
                known = {sm.guid: sm.state for sm in diags.subnet_managers(said)}
                if known == {self.net.end(m.host, 1)[0]: m.state for m in those}:
                    continue
            return False
        return True

    def _part(self, at: str) -> frozenset[frozenset[tuple[int, int]]]:
        return self.net.reach(at, self._cut())

    # --- states -------------------------------------------------------------------------------

    def links(self, host: str | None = None, timeout: float = 60.0) -> tuple[diags.LinkInfo, ...]:
        """Every port, as iblinkinfo sees it from a host."""
        ran = self.run(["iblinkinfo", "--line"], host=host or self._vantage(), timeout=timeout)
        return diags.iblinkinfo(ran.stdout or ran.stderr)

    def _vantage(self) -> str:
        """An adapter from where to look: beside a subnet manager, better not at its own.

        ibsim tells programs at one adapter apart by transaction id alone, and now and then hands
        an answer to the wrong one.
        """
        busy: list[str] = [manager["host"] for manager in self._ask("status")["managers"]]
        home = self._part(busy[0] if busy else self.net.adapters[0].name)
        ends = {end for cable in home for end in cable}
        near = [n.name for n in self.net.adapters if self.net.end(n.name, 1) in ends]
        return next(iter((*(n for n in near if n not in busy), *busy, *near, "node1")))

    def settle(self, seconds: float = _SETTLE) -> None:
        """Until the subnet manager has made every linked port it can reach Active."""
        at = self._vantage()
        wanted = {end for cable in self._part(at) for end in cable}
        waiting = set(wanted)

        def settled() -> bool:
            with contextlib.suppress(Unmeasured):
                links = self.links(at, _LOOK + len(self.net.nodes) / 20)
                waiting.clear()
                waiting.update(wanted - {(k.guid, k.port) for k in links if k.state == "Active"})
            return not waiting

        def unsettled() -> str:
            guid, port = min(waiting)
            return f"{len(waiting)} ports are not Active, the first {guid:#018x} port {port}"

        if wanted:
            self._until(settled, unsettled, seconds)

    def _until(
        self, settled: Callable[[], bool], problem: Callable[[], str], seconds: float = _SETTLE
    ) -> None:
        deadline = time.monotonic() + seconds
        while not settled():
            if time.monotonic() > deadline:
                raise Unmeasured(
                    f"fabric {self.name}: after {seconds:.0f} s {problem()}; "
                    f"see the logs in {self._state.run}"
                )
            time.sleep(_PAUSE)

    def status(self) -> dict[str, Any]:
        """The fabric for `list -o json`."""
        keeper = self._ask("status")
        dead = keeper["ended"] is not None
        return {
            "name": self.name,
            "state": "broken" if dead else "up",
            "run": self._state.run,
            "tree": asdict(self.tree),
            "managers": [] if dead else [asdict(manager) for manager in self.managers()],
            "unlinked": [{"node": name, "port": port} for name, port in keeper["cut"]],
            "nodes": [
                {"name": n.name, "guid": f"{n.guid:#018x}", "description": n.description,
                 "cables": [asdict(cable) for cable in n.cables]}
                for n in self.net.nodes
            ],
        }  # fmt: skip

    # --- the end ------------------------------------------------------------------------------

    def stop(self) -> bool:
        """End it, leaving nothing; False when it was down already."""
        if self._leash is not None:
            os.close(self._leash)
            self._leash = None
        return stop(self.name)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self.stop()


def _host(adapter: str) -> str:
    return adapter.rpartition("-")[0]


def running() -> Iterator[FabricState]:
    """Every fabric that is up; what a crash left behind is cleared away on the way."""
    for name in fabric_state.fabrics.names():
        state = fabric_state.fabrics.load(name)
        if state is None:
            continue
        if state.alive:
            yield state
        else:
            with contextlib.suppress(Refused), fabric_state.fabrics.locked(name):
                fabric_state.fabrics.forget(name)


def stop(name: str) -> bool:
    """End a fabric by name; False when none was up. What it left on disk goes too."""
    with fabric_state.fabrics.locked(name):
        state = fabric_state.fabrics.load(name)
        was_up = state is not None and state.alive
        if state is not None and was_up:
            fabric_start.end(state)
        fabric_state.fabrics.forget(name)
        return was_up
