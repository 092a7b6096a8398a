"""Where labs and fabrics are written down, so that a later command finds them."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, Generic, TypeVar

from podrail.model.errors import Refused, UsageError

S = TypeVar("S")

_NAME = re.compile(r"^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$")
RUN_PREFIX = "podrail-"
"""What every run directory begins with; nothing else is ever removed."""


def base() -> Path:
    """Where everything of the lab is written down."""
    home = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(home) / "podrail" / "lab"


class Shelf(Generic[S]):
    """Descriptions by name, each a dataclass with a `name` and a `run` directory."""

    def __init__(self, noun: str, folder: str, read: Callable[[dict[str, Any]], S]) -> None:
        self._noun, self._folder, self._read = noun, folder, read

    def _place(self) -> Path:
        return base() / self._folder

    def file(self, name: str) -> Path:
        if not _NAME.match(name):
            raise UsageError(
                f"{name!r} cannot name a {self._noun}: use a-z, 0-9 and -, at most 32 characters"
            )
        return self._place() / f"{name}.json"

    def save(self, described: Any) -> None:
        """Write one down, whole or not at all."""
        file = self.file(described.name)
        partial = file.with_suffix(".part")
        partial.write_text(json.dumps(asdict(described), indent=1), encoding="utf-8")
        partial.replace(file)

    def load(self, name: str) -> S | None:
        """One as it was written down, or None."""
        try:
            return self._read(json.loads(self.file(name).read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, KeyError) as wrong:
            raise Refused(
                f"the description {self.file(name)} is damaged ({wrong}); "
                f"remove it once no process of {self._noun} {name} is left"
            ) from wrong

    def names(self) -> list[str]:
        place = self._place()
        if not place.exists():
            return []
        found = (file.stem for file in place.iterdir() if file.suffix == ".json")
        return sorted(name for name in found if _NAME.match(name))

    def forget(self, name: str) -> None:
        """Remove what one left on disk; harmless when there is nothing."""
        file = self.file(name)
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            run = Path(json.loads(file.read_text(encoding="utf-8"))["run"])
            if run.name.startswith(RUN_PREFIX):
                shutil.rmtree(run, ignore_errors=True)
        file.unlink(missing_ok=True)

    @contextlib.contextmanager
    def locked(self, name: str) -> Iterator[None]:
        """Only one `up` or `down` of a name at a time."""
        lock = self.file(name).with_suffix(".lock")
        lock.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with lock.open("w", encoding="ascii") as held:
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Refused(
                    f"{self._noun} {name} is being started or stopped by another podrail; "
                    "wait for it, or choose another --name"
                ) from None
            yield
