"""Where a lab lives on disk: its description, its lock, its sockets.

Two labs never meet: each has a directory of its own for sockets (short, for a Unix socket's path
may have 107 bytes), ports the kernel gave it, and a secret.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from podrail.lab.client import Address
from podrail.model.errors import Refused, UsageError

_NAME = re.compile(r"^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$")


@dataclass(frozen=True, slots=True)
class NodeState:
    name: str
    port: int
    console: str
    qmp: str


@dataclass(frozen=True, slots=True)
class LabState:
    """A lab that is up, or was."""

    name: str
    run: str
    keeper: int
    """The pid of the keeper."""
    started: str
    """The keeper's start time from /proc, so that a reused pid is not taken for it."""
    nodes: tuple[NodeState, ...]

    @property
    def control(self) -> Path:
        return Path(self.run) / "control"

    @property
    def alive(self) -> bool:
        return start_time(self.keeper) == self.started

    def node(self, name: str) -> NodeState:
        for node in self.nodes:
            if node.name == name:
                return node
        names = ", ".join(node.name for node in self.nodes)
        raise UsageError(f"lab {self.name} has no node {name!r}; it has {names}")

    def address(self, name: str) -> Address:
        secret = (Path(self.run) / "secret").read_bytes()
        return Address(self.node(name).port, secret)


def start_time(pid: int) -> str:
    """Field 22 of /proc/PID/stat; empty when there is no such process."""
    with contextlib.suppress(OSError):
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
        return text.rpartition(")")[2].split()[19]
    return ""


def base() -> Path:
    """Where labs are written down."""
    home = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(home) / "podrail" / "lab"


def check_name(name: str) -> str:
    if not _NAME.match(name):
        raise UsageError(f"{name!r} cannot name a lab: use a-z, 0-9 and -, at most 32 characters")
    return name


def _file(name: str) -> Path:
    return base() / f"{check_name(name)}.json"


def save(state: LabState) -> None:
    """Write a lab down, whole or not at all."""
    file = _file(state.name)
    partial = file.with_suffix(".part")
    partial.write_text(json.dumps(asdict(state), indent=1), encoding="utf-8")
    partial.replace(file)


def load(name: str) -> LabState | None:
    """A lab as it was written down, or None."""
    try:
        raw: dict[str, Any] = json.loads(_file(name).read_text(encoding="utf-8"))
        return LabState(**{**raw, "nodes": tuple(NodeState(**node) for node in raw["nodes"])})
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError):
        forget(name)
        return None


def names() -> list[str]:
    """Every lab that is written down."""
    return sorted(file.stem for file in base().glob("*.json"))


def forget(name: str) -> None:
    """Remove what a lab left on disk; harmless when there is nothing."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        run = Path(json.loads(_file(name).read_text(encoding="utf-8"))["run"])
        if run.name.startswith("podrail-"):
            shutil.rmtree(run, ignore_errors=True)
    _file(name).unlink(missing_ok=True)


def new_run_directory() -> Path:
    """A short, private directory for sockets and consoles."""
    parent = os.environ.get("XDG_RUNTIME_DIR")
    usable = parent if parent and len(parent) < 40 and os.access(parent, os.W_OK) else None
    return Path(tempfile.mkdtemp(prefix="podrail-", dir=usable))


@contextlib.contextmanager
def locked(name: str) -> Iterator[None]:
    """Only one `up` or `down` of a lab at a time."""
    base().mkdir(parents=True, exist_ok=True, mode=0o700)
    with (base() / f"{check_name(name)}.lock").open("w", encoding="ascii") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Refused(
                f"lab {name} is being started or stopped by another podrail; "
                "wait for it, or choose another --name"
            ) from None
        yield
