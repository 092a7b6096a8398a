"""Starting and ending the keeper of a fabric, with a leash until all is well."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from podrail.lab import fabric_programs, fabric_state, process, state
from podrail.lab.fabric_state import FabricState
from podrail.lab.topology import FatTree, Net, render
from podrail.model.errors import Refused

PRIORITY = 8
_READY = 30.0

Report = Callable[[str], None]


@dataclass(slots=True)
class Begun:
    """A fabric that ends with this process unless `keep` is said."""

    state: FabricState
    leash: int

    def keep(self) -> None:
        os.write(self.leash, b"keep\n")
        self.let_go()

    def let_go(self) -> None:
        if self.leash >= 0:
            os.close(self.leash)
            self.leash = -1


@contextlib.contextmanager
def started(name: str, tree: FatTree, net: Net | None, report: Report) -> Iterator[Begun]:
    """ibsim ready and a subnet manager started; if the body fails, all of it is gone again."""
    before = fabric_state.fabrics.load(name)
    if before and before.alive:
        raise Refused(
            f"fabric {name} is up already; podrail lab fabric down --name {name}, "
            "or choose another --name"
        )
    fabric_state.fabrics.forget(name)
    programs = fabric_programs.installed()
    run = state.new_run_directory()
    with contextlib.ExitStack() as undo:
        undo.callback(fabric_state.fabrics.forget, name)
        undo.callback(shutil.rmtree, run, ignore_errors=True)
        specification = _write(run, name, tree, net or tree.net(), programs)
        reading, leash = _keeper(run)
        undo.callback(_gone, reading)
        begun = Begun(_describe(specification, tree, name), leash)
        undo.callback(begun.let_go)
        pid = _ready(reading, run)
        begun.state = replace(begun.state, keeper=pid, started=process.started(pid))
        report("ibsim ready")
        fabric_state.fabrics.save(begun.state)
        yield begun
        undo.pop_all()
        os.close(reading)


def manager_place(net: Net) -> str:
    """Where the first subnet manager sits: far from node1, where people look around."""
    return net.adapters[-1].name


def _write(
    run: Path, name: str, tree: FatTree, net: Net, programs: fabric_programs.Programs
) -> dict[str, object]:
    (run / "clients").mkdir()
    (run / "net").write_text(render(net), encoding="ascii")
    ports = sum(node.ports + 1 for node in net.nodes)
    specification: dict[str, object] = {
        **asdict(programs),
        "run": str(run),
        "state": str(fabric_state.fabrics.file(name)),
        "control": str(run / "control"),
        "socket": f"podrail-{secrets.token_hex(6)}",
        "net": str(run / "net"),
        # ibsim's tables have a fixed size: 2048 nodes, 256 switches, 13312 ports unless told.
        "limits": ["-N", str(max(2048, len(net.nodes))),
                   "-S", str(max(256, len(net.switches))), "-P", str(max(13312, ports))],
        "prefix": f"{tree.prefix:#x}",
        "host": manager_place(net),
        "priority": PRIORITY,
    }  # fmt: skip
    (run / "specification.json").write_text(json.dumps(specification), encoding="utf-8")
    return specification


def _keeper(run: Path) -> tuple[int, int]:
    """Where the keeper talks, and the leash it listens on."""
    listening, leash = os.pipe()
    reading, talking = os.pipe()
    try:
        with (run / "log").open("wb") as log:
            # It goes into the background by itself; what is waited for here is only its launcher.
            subprocess.run(
                [sys.executable, "-m", "podrail.lab.fabric_keeper",
                 str(run / "specification.json")],
                stdin=listening, stdout=talking, stderr=log, check=False,
            )  # fmt: skip
    finally:
        os.close(listening)
        os.close(talking)
    return reading, leash


def _ready(reading: int, run: Path) -> int:
    """The pid of the keeper, once ibsim runs."""
    said = _line(reading, time.monotonic() + _READY)
    if "pid" in said:
        return int(said["pid"])
    why = said.get("error") or _tail(run / "log") or f"no word from it within {_READY:.0f} s"
    raise Refused(f"the fabric did not start: {why}")


def _tail(log: Path) -> str:
    with contextlib.suppress(OSError):  # a keeper that ends in good order takes it along
        text = log.read_text(encoding="utf-8", errors="replace")
        return " | ".join(text.strip().splitlines()[-3:])
    return ""


def _line(reading: int, deadline: float) -> dict[str, str]:
    said = b""
    while not said.endswith(b"\n"):
        ready, _, _ = select.select([reading], [], [], max(0.0, deadline - time.monotonic()))
        more = os.read(reading, 4096) if ready else b""
        if not more:
            return {}
        said += more
    answer: dict[str, str] = json.loads(said)
    return answer


def _describe(spec: dict[str, object], tree: FatTree, name: str) -> FabricState:
    run, socket, preload = (str(spec[key]) for key in ("run", "socket", "preload"))
    return FabricState(name, run, socket, preload, 0, "", tree)


def _gone(reading: int) -> None:
    """Once its leash is let go the keeper ends, and with it its end of the pipe."""
    deadline = time.monotonic() + 8.0
    while _line(reading, deadline):
        pass
    os.close(reading)


def end(fabric: FabricState) -> None:
    """End a keeper by its pid and wait until it is gone; what it started goes with it."""
    for number, seconds in ((signal.SIGTERM, 8.0), (signal.SIGKILL, 2.0)):
        with contextlib.suppress(ProcessLookupError):
            descriptor = os.pidfd_open(fabric.keeper)
            try:
                if fabric.alive:
                    signal.pidfd_send_signal(descriptor, number)
                    select.select([descriptor], [], [], seconds)
            finally:
                os.close(descriptor)
