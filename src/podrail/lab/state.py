"""What a lab is once it is up.

Two labs never meet: each has a directory of its own for sockets (short, for a Unix socket's path
may have 107 bytes), ports the kernel gave it, and a secret.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from podrail.lab.client import Address
from podrail.lab.process import started
from podrail.lab.shelf import RUN_PREFIX, Shelf
from podrail.model.errors import UsageError


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
    """The keeper's start time, so that a reused pid is not taken for it."""
    nodes: tuple[NodeState, ...]

    @property
    def control(self) -> Path:
        return Path(self.run) / "control"

    @property
    def alive(self) -> bool:
        return bool(self.started) and started(self.keeper) == self.started

    def node(self, name: str) -> NodeState:
        for node in self.nodes:
            if node.name == name:
                return node
        names = ", ".join(node.name for node in self.nodes)
        raise UsageError(f"lab {self.name} has no node {name!r}; it has {names}")

    def address(self, name: str) -> Address:
        secret = (Path(self.run) / "secret").read_bytes()
        return Address(self.node(name).port, secret)


def _read(raw: dict[str, Any]) -> LabState:
    return LabState(**{**raw, "nodes": tuple(NodeState(**node) for node in raw["nodes"])})


labs = Shelf("lab", "", _read)


def logs(name: str) -> Path:
    """Where the consoles of a lab are kept after it is down."""
    return labs.file(name).parent / "logs" / name


def new_run_directory() -> Path:
    """A short, private directory for sockets and consoles."""
    parent = os.environ.get("XDG_RUNTIME_DIR")
    usable = parent if parent and len(parent) < 40 and os.access(parent, os.W_OK) else None
    return Path(tempfile.mkdtemp(prefix=RUN_PREFIX, dir=usable))
