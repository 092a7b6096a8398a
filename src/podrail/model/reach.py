"""Reading an object as it was written, when its model could not be built.

A rule must still speak about an object in which something else is wrong: a ClusterPolicy that lacks
a required key has no model, yet its image name is as wrong as before. So these rules reach into the
plain data and take every shape it may have.
"""

from __future__ import annotations

from typing import Any

from podrail.model.bundle import Resource
from podrail.model.document import Path
from podrail.model.finding import Where


def at(data: Any, *path: str | int) -> Any:
    """The value at a path, or None where the way ends."""
    for part in path:
        if isinstance(data, dict) and isinstance(part, str):
            data = data.get(part)
        elif isinstance(data, list) and isinstance(part, int) and part < len(data):
            data = data[part]
        else:
            return None
    return data


def mapping(data: Any, *path: str | int) -> dict[str, Any]:
    """The mapping at a path, or an empty one."""
    value = at(data, *path)
    return value if isinstance(value, dict) else {}


def items(data: Any, *path: str | int) -> list[Any]:
    """The list at a path, or an empty one."""
    value = at(data, *path)
    return value if isinstance(value, list) else []


def text(data: Any, *path: str | int) -> str:
    """The string at a path, or an empty one."""
    value = at(data, *path)
    return value if isinstance(value, str) else ""


def texts(data: Any, *path: str | int) -> list[str]:
    """The strings of the list at a path."""
    return [value for value in items(data, *path) if isinstance(value, str)]


def line_of(resource: Resource, path: Path, line: int) -> Where:
    """The place of a line (from 0) inside a text value."""
    where = resource.where(*path)
    scalar = resource.document.scalars.get((*resource.base, *path))
    if scalar is None or scalar.style not in ("|", ">"):
        return where
    at_line = scalar.line + 1 + line
    source = resource.document.lines[at_line - 1 - resource.document.first_line :][:1]
    column = len(source[0]) - len(source[0].lstrip()) + 1 if source else 1
    return Where(where.file, at_line, column, where.path)
