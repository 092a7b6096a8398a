"""A lab's life: up, what is up, down. Each leaves a clean state however it ends."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from podrail.lab import process, state
from podrail.lab.client import Address, Connection
from podrail.lab.process import Child
from podrail.lab.qemu import NICS, Image, Machine, argv
from podrail.lab.state import LabState, NodeState
from podrail.model.errors import PodrailError, Refused, UsageError
from podrail.model.progress import Progress, Report

DEFAULT = "default"
BOOT_SECONDS = 180.0
_USUAL = 15.0
_PORT_TRIES = 3
MEMORY_MB = 1024
_MAX_NODES = 8


@dataclass(frozen=True, slots=True)
class Wanted:
    """A lab as asked for."""

    name: str
    nodes: int
    image: Image
    podrail: Path | None
    keep: bool = True
    """Whether it outlives this process; otherwise even kill -9 of it takes the lab down."""
    qemu: str = "qemu-system-x86_64"


def up(wanted: Wanted, report: Report, *, boot_seconds: float = BOOT_SECONDS) -> LabState:
    """Boot every node and wait until each answers; on any failure nothing stays."""
    check(wanted.name, wanted.nodes)
    with state.labs.locked(wanted.name):
        before = state.labs.load(wanted.name)
        if before and before.alive:
            raise Refused(
                f"lab {wanted.name} is up already; podrail lab down, or choose another --name"
            )
        if before:
            _put_away(before)
        return _patiently(wanted, report, boot_seconds)


def check(name: str, nodes: int) -> None:
    """What can be known to be wrong before anything is built."""
    state.labs.file(name)
    if not 2 <= nodes <= _MAX_NODES:
        raise UsageError(f"--nodes {nodes}: a lab has 2 to {_MAX_NODES} nodes")
    _check_memory(nodes)


class _PortTaken(Refused):
    """Somebody took a port between our asking for it and QEMU's using it."""


def _patiently(wanted: Wanted, report: Report, boot_seconds: float) -> LabState:
    for _ in range(_PORT_TRIES - 1):
        with contextlib.suppress(_PortTaken):
            return _boot(wanted, report, boot_seconds)
    return _boot(wanted, report, boot_seconds)


def _check_memory(nodes: int) -> None:
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            have, need = int(line.split()[1]) // 1024, nodes * (MEMORY_MB + 400)
            if have < need:
                raise Refused(f"{nodes} nodes need {need} MB of memory, {have} MB are free")


def _boot(wanted: Wanted, report: Report, boot_seconds: float) -> LabState:
    run = state.new_run_directory()
    with contextlib.ExitStack() as undo:
        undo.callback(shutil.rmtree, run, ignore_errors=True)
        _private(run / "secret", secrets.token_bytes(32))
        machines = [Machine(n + 1, _free_port(), run, MEMORY_MB) for n in range(wanted.nodes)]
        keeper = _start_keeper(wanted, machines, run)
        lab = _describe(wanted, machines, run, keeper.pid)
        undo.callback(_put_away, lab)
        undo.callback(keeper.stop)
        state.labs.save(lab)
        _wait(lab, wanted.image, keeper, report, boot_seconds)
        if wanted.keep:
            keeper.say(b"keep\n")
        undo.pop_all()
    return lab


def _put_away(lab: LabState) -> None:
    """Consoles and logs are kept beside the description of the lab, the last ones of each name."""
    kept = state.logs(lab.name)
    with contextlib.suppress(OSError):
        shutil.rmtree(kept, ignore_errors=True)
        kept.mkdir(parents=True)
        for file in (*Path(lab.run).glob("*.console"), Path(lab.run) / "log"):
            shutil.copy(file, kept)
    state.labs.forget(lab.name)


def _private(file: Path, data: bytes) -> None:
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
        stream.write(data)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


def _start_keeper(wanted: Wanted, machines: list[Machine], run: Path) -> Child:
    specification = run / "specification.json"
    nodes = [
        {
            "name": machine.name,
            "argv": argv(machine, wanted.image, wanted.podrail, wanted.qemu),
            "nics": [[str(machine.hub(k)), str(machine.wire(k))] for k in range(NICS)],
        }
        for machine in machines
    ]
    specification.write_text(
        json.dumps({"control": str(run / "control"), "log": str(run / "log"), "nodes": nodes}),
        encoding="utf-8",
    )
    return Child([sys.executable, "-m", "podrail.lab.keeper", str(specification)], run / "log")


def _describe(wanted: Wanted, machines: list[Machine], run: Path, pid: int) -> LabState:
    nodes = tuple(NodeState(m.name, m.port, str(m.console), str(m.qmp)) for m in machines)
    return LabState(wanted.name, str(run), pid, process.started(pid), nodes)


def _wait(lab: LabState, image: Image, keeper: Child, report: Report, boot_seconds: float) -> None:
    """Until every node's agent answers."""
    start, waiting = time.monotonic(), list(lab.nodes)
    while waiting:
        took = time.monotonic() - start
        report(_booting(waiting, took))
        for node in list(waiting):
            if _answers(lab.address(node.name)):
                waiting.remove(node)
                report(Progress(node.name, f"{node.name} ready after {took:.0f} s"))
        _still_booting(lab, image, keeper, waiting)
        if waiting and took > boot_seconds:
            node = waiting[0]
            raise Refused(
                f"{node.name} does not answer after {boot_seconds:.0f} s; its console ends with:\n"
                f"{_tail(Path(node.console))}"
            )


def _booting(waiting: Sequence[NodeState], took: float) -> Progress:
    names = ", ".join(node.name for node in waiting)
    return Progress("boot", f"booting {names}", min(0.95, took / _USUAL), max(1.0, _USUAL - took))


def _still_booting(
    lab: LabState, image: Image, keeper: Child, waiting: Sequence[NodeState]
) -> None:
    """Says what QEMU and the guest said when a machine, or the keeper of all, has ended."""
    said = Path(lab.run) / "log"
    if waiting and keeper.ended():
        raise Refused(f"the lab's keeper ended: {_tail(said)}")
    dead = next((node for node in waiting if _ended(lab, node.name)), None)
    if dead:
        text = _tail(said)
        error = _PortTaken if "host forwarding" in text else Refused
        raise error(
            f"{dead.name} did not start: {text}\nits console ends with:\n"
            f"{_tail(Path(dead.console))}\n"
            f"if the image is damaged, remove {image.root.parent} and it is built anew"
        )


def _answers(address: Address) -> bool:
    """One short try; slirp accepts before the guest does, so only a proof of the secret counts."""
    try:
        with Connection(address, timeout=1.0) as connection:
            connection.ask("ping")
            return True
    except (OSError, PodrailError):
        return False


def _ended(lab: LabState, node: str) -> bool:
    with contextlib.suppress(PodrailError):
        return control(lab, "status")["nodes"][node] is not None
    return False


def _tail(file: Path, lines: int = 12) -> str:
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "(nothing was written)"
    return "\n".join(text.strip().splitlines()[-lines:]) or "(nothing was written)"


def control(lab: LabState, operation: str, **request: object) -> dict[str, dict[str, int | None]]:
    """Ask the keeper."""
    try:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(5.0)
            sock.connect(str(lab.control))
            sock.sendall(json.dumps({"op": operation, **request}).encode() + b"\n")
            answer: dict[str, dict[str, int | None]] = json.loads(sock.makefile("rb").readline())
    except (OSError, ValueError) as failure:
        raise Refused(f"the keeper of lab {lab.name} does not answer ({failure})") from failure
    if "error" in answer:
        raise Refused(f"the keeper of lab {lab.name} refuses: {answer['error']}")
    return answer


def down(name: str) -> bool:
    """Take a lab down; False when none was up. What it left on disk goes too."""
    with state.labs.locked(name):
        lab = state.labs.load(name)
        if lab is None:
            return False
        was_up = lab.alive
        if was_up:
            process.end(lab.keeper)
        _put_away(lab)
        return was_up


def running() -> Iterator[LabState]:
    """Every lab that is up; what a crash left behind is cleared away on the way."""
    for name in state.labs.names():
        lab = state.labs.load(name)
        if lab is not None and lab.alive:
            yield lab
        elif lab is not None:
            with contextlib.suppress(Refused), state.labs.locked(name):
                _put_away(lab)


def find(node: str) -> tuple[LabState, str]:
    """`node1` of the lab `default` or else of the only lab that has it, or `LAB/node1`."""
    lab_name, _, name = node.rpartition("/")
    labs = [lab for lab in running() if not lab_name or lab.name == lab_name]
    labs = [lab for lab in labs if lab.name == DEFAULT and _has(lab, name)] or labs
    if not labs:
        which = f"lab {lab_name}" if lab_name else "a lab"
        raise UsageError(f"{which} is not up; start it with: podrail lab up")
    having = [lab for lab in labs if _has(lab, name)]
    if len(having) > 1:
        choices = ", ".join(f"{lab.name}/{name}" for lab in having)
        raise UsageError(f"several labs have a {name}: say one of {choices}")
    return (having or labs)[0], (having or labs)[0].node(name).name


def _has(lab: LabState, node: str) -> bool:
    return any(known.name == node for known in lab.nodes)
