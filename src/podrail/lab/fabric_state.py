"""What a fabric is once it is up."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from podrail.lab.process import started
from podrail.lab.shelf import Shelf
from podrail.lab.topology import FatTree


@dataclass(frozen=True, slots=True)
class FabricState:
    """A fabric that is up, or was."""

    name: str
    run: str
    socket: str
    """IBSIM_SOCKNAME."""
    preload: str
    keeper: int
    started: str
    """The keeper's start time from /proc, so that a reused pid is not taken for it."""
    tree: FatTree

    @property
    def place(self) -> Path:
        return Path(self.run)

    @property
    def alive(self) -> bool:
        return bool(self.started) and started(self.keeper) == self.started


def _read(raw: dict[str, Any]) -> FabricState:
    return FabricState(**{**raw, "tree": FatTree(**raw["tree"])})


fabrics = Shelf("fabric", "fabric", _read)
