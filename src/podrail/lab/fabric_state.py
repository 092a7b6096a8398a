"""Where a fabric is written down, so that a later command finds it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from podrail.lab import fabric_programs, state
from podrail.lab.topology import FatTree
from podrail.model.errors import Refused


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
        return bool(self.started) and fabric_programs.started(self.keeper) == self.started


def base() -> Path:
    return state.base() / "fabric"


def file(name: str) -> Path:
    return base() / f"{state.check_name(name)}.json"


def save(fabric: FabricState) -> None:
    """Write a fabric down, whole or not at all."""
    partial = file(fabric.name).with_suffix(".part")
    partial.write_text(json.dumps(asdict(fabric), indent=1), encoding="utf-8")
    partial.replace(file(fabric.name))


def load(name: str) -> FabricState | None:
    """A fabric as it was written down, or None."""
    try:
        raw: dict[str, Any] = json.loads(file(name).read_text(encoding="utf-8"))
        return FabricState(**{**raw, "tree": FatTree(**raw["tree"])})
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError):
        forget(name)
        return None


def names() -> list[str]:
    return sorted(found.stem for found in base().glob("*.json"))


def forget(name: str) -> None:
    """Remove what a fabric left on disk; harmless when there is nothing."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        run = Path(json.loads(file(name).read_text(encoding="utf-8"))["run"])
        if run.name.startswith("podrail-"):
            shutil.rmtree(run, ignore_errors=True)
    file(name).unlink(missing_ok=True)


@contextlib.contextmanager
def locked(name: str) -> Iterator[None]:
    """Only one `up` or `down` of a fabric at a time."""
    state.check_name(name)
    base().mkdir(parents=True, exist_ok=True, mode=0o700)
    with (base() / f"{name}.lock").open("w", encoding="ascii") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Refused(
                f"fabric {name} is being started or stopped by another podrail; "
                "wait for it, or choose another --name"
            ) from None
        yield
