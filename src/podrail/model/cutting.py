"""Cutting what is at fault out of an object, so that the rest can still be read."""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

from pydantic_core import ErrorDetails

from podrail.model.document import Path

_GONE = object()


class Left:
    """What is left of an object while its faults are cut out."""

    def __init__(self, data: Any) -> None:
        self.data = data
        self._own = False
        self.gone: set[Path] = set()
        self.indexes: dict[int, list[int]] = {}
        """id of a list that lost items → where each of those left stood."""

    def faults(self, errors: Sequence[ErrorDetails]) -> dict[Path, list[ErrorDetails]]:
        """Errors by their place; the branches of a union meet in one."""
        faults: dict[Path, list[ErrorDetails]] = {}
        for error in errors:
            faults.setdefault(_real_path(self.data, error), []).append(error)
        return faults

    def was(self, path: Path) -> Path:
        """A path as it was before anything was cut."""
        here, original = self.data, list[str | int]()
        for part in path:
            moved = self.indexes.get(id(here))
            original.append(moved[part] if moved and isinstance(part, int) else part)
            here = here[part] if _has(here, part) else None
        return tuple(original)

    def cut(self, paths: Collection[Path]) -> bool:
        """Cut each of these out, and what lacks something it needs; False when nothing is left."""
        if not self._own:  # most objects have no fault and are never copied
            self.data, self._own = copy.deepcopy(self.data), True
        self.gone |= {self.was(path) for path in paths}
        done = [self._cut(path) for path in paths]
        self._close_gaps(self.data)
        return all(done)

    def _cut(self, path: Path) -> bool:
        if not path:
            return False
        here = self.data
        for part in path[:-1]:
            if not _has(here, part) or here[part] is _GONE:
                return True
            here = here[part]
        if not _has(here, path[-1]):
            self.gone.add(self.was(path[:-1]))
            return self._cut(path[:-1])
        if isinstance(here, list):
            here[cast("int", path[-1])] = _GONE
        else:
            del here[path[-1]]
        return True

    def _close_gaps(self, data: Any) -> None:
        """Lists without the items that are gone, each remembering where its items stood."""
        if isinstance(data, list) and any(item is _GONE for item in data):
            stood = self.indexes.get(id(data), list(range(len(data))))
            kept = [at for at, item in enumerate(data) if item is not _GONE]
            self.indexes[id(data)] = [stood[at] for at in kept]
            data[:] = [data[at] for at in kept]
        below = data.values() if isinstance(data, dict) else data if isinstance(data, list) else ()
        for item in below:
            self._close_gaps(item)


def _has(data: Any, part: str | int) -> bool:
    if isinstance(data, list):
        return isinstance(part, int) and part < len(data)
    return isinstance(data, Mapping) and part in data


def _real_path(data: Any, error: ErrorDetails) -> Path:
    """pydantic's location without the union branches it mixes in."""
    path: list[str | int] = []
    for depth, part in enumerate(error["loc"], 1):
        if _has(data, part):
            data = data[part]
        elif depth < len(error["loc"]) or error["type"] != "missing":
            continue
        path.append(part)
    return tuple(path)
