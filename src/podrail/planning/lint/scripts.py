"""Shell text wherever a manifest carries it: container arguments, ConfigMaps, systemd units, files.

A script is matched as one text with comments blanked and continued lines joined, both without
changing its length, so that an offset still tells the line.
"""

from __future__ import annotations

import base64
import binascii
import re
import urllib.parse
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from podrail.model.bundle import Bundle, Resource
from podrail.model.document import Path
from podrail.model.finding import Where
from podrail.model.reach import at, items, line_of, text
from podrail.planning.lint.memo import once
from podrail.planning.lint.registry import Hit

_COMMENT = re.compile(r"(?m)(?:^|(?<=[ \t;]))#.*$")
_DATA_URL = re.compile(r"^data:[^,]*,", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Script:
    """Shell text made of one or several values of an object."""

    resource: Resource
    pieces: tuple[tuple[Path, str], ...]

    @property
    def raw(self) -> str:
        """As written, values apart by a space."""
        return " ".join(piece for _, piece in self.pieces)

    @property
    def code(self) -> str:
        """Comments blanked and continued lines joined; as long as `raw`."""
        bare = _COMMENT.sub(lambda found: " " * len(found[0]), self.raw)
        return bare.replace("\\\n", "  ")

    def place(self, offset: int) -> tuple[Path, Where]:
        """The value and the line at an offset of the text."""
        starts = [0]
        for _, piece in self.pieces[:-1]:
            starts.append(starts[-1] + len(piece) + 1)
        number = bisect_right(starts, offset) - 1
        path, piece = self.pieces[number]
        return path, line_of(self.resource, path, piece.count("\n", 0, offset - starts[number]))

    def hit(self, offset: int, *, actual: str, expected: str, fix: str) -> Hit:
        """A finding at an offset of the text."""
        path, where = self.place(offset)
        return Hit(self.resource, path, actual, expected, fix, where=where)


@once
def scripts(bundle: Bundle) -> Iterator[Script]:
    """Every script of every object."""
    for resource in bundle.resources:
        yield from scripts_of(resource)


def scripts_of(resource: Resource) -> Iterator[Script]:
    """Every script of one object."""
    if resource.kind == "ConfigMap":
        yield from _values(resource, ("data",))
    elif resource.kind == "MachineConfig":
        yield from _machine_config(resource)
    else:
        yield from _arguments(resource, resource.data, ())


def _values(resource: Resource, base: Path) -> Iterator[Script]:
    data = at(resource.data, *base)
    for key, value in data.items() if isinstance(data, dict) else ():
        if isinstance(value, str):
            yield Script(resource, (((*base, key), value),))


def _arguments(resource: Resource, data: Any, base: Path) -> Iterator[Script]:
    """`command` with its `args`, at any depth: containers, probes, hooks, launchers of jobs."""
    if isinstance(data, dict):
        pieces = [*_strings(data, "command", base), *_strings(data, "args", base)]
        if pieces:
            yield Script(resource, tuple(pieces))
    below = data.items() if isinstance(data, dict) else enumerate(data)
    for key, value in below:
        if isinstance(value, dict | list):
            yield from _arguments(resource, value, (*base, key))


def _strings(data: dict[str, Any], key: str, base: Path) -> Iterator[tuple[Path, str]]:
    for number, value in enumerate(items(data, key)):
        if isinstance(value, str):
            yield (*base, key, number), value


def _machine_config(resource: Resource) -> Iterator[Script]:
    for path, contents in unit_texts(resource):
        yield Script(resource, ((path, contents),))
    for path, contents in file_texts(resource):
        yield Script(resource, ((path, contents),))


def unit_texts(resource: Resource) -> Iterator[tuple[Path, str]]:
    """The systemd units of a MachineConfig and their drop-ins: where, and what they say."""
    units: Path = ("spec", "config", "systemd", "units")
    for number, unit in enumerate(items(resource.data, *units)):
        if contents := text(unit, "contents"):
            yield (*units, number, "contents"), contents
        for drop, part in enumerate(items(unit, "dropins")):
            if contents := text(part, "contents"):
                yield (*units, number, "dropins", drop, "contents"), contents


def file_texts(resource: Resource) -> Iterator[tuple[Path, str]]:
    """The files of a MachineConfig, out of their data URLs."""
    files: Path = ("spec", "config", "storage", "files")
    for number, file in enumerate(items(resource.data, *files)):
        source = text(file, "contents", "source")
        if _DATA_URL.match(source) and not at(file, "contents", "compression"):
            yield (*files, number, "contents", "source"), _decoded(source)


def _decoded(source: str) -> str:
    head, _, body = source.partition(",")
    if not head.lower().endswith(";base64"):
        return urllib.parse.unquote(body)
    try:
        return base64.b64decode(body).decode(errors="replace")
    except (binascii.Error, ValueError):
        return ""
