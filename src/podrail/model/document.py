"""YAML read with the place of every key and value kept.

Built from parser events instead of a ready-made loader, for three reasons: a finding must name line
and column; the source text of a scalar must survive (`trust: on` arrives as a boolean); and hostile
nesting or alias bombs must end in a message. Scalars get the types the API server would see, which
is YAML 1.1 without its base-60 numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml
from yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    Event,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceStartEvent,
)

from podrail.model import folding
from podrail.model.finding import LINT, Finding, Status, Subject, Where
from podrail.model.scalars import scalar_value
from podrail.model.slips import explain

Path = tuple[str | int, ...]

MAX_DEPTH = 64
MAX_ALIASED = 200_000

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class Scalar:
    """Where a scalar stands and how it was written."""

    line: int
    column: int
    text: str
    style: str | None


@dataclass(slots=True)
class Document:
    """One YAML document: its data and where each part of it stands."""

    file: str
    data: Any = None
    keys: dict[Path, tuple[int, int]] = field(default_factory=dict)
    values: dict[Path, tuple[int, int]] = field(default_factory=dict)
    scalars: dict[Path, Scalar] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    first_line: int = 0

    def where(self, path: Path, *, key: bool = False) -> Where:
        """The place of a value (or of its key), or of the nearest thing above it."""
        text = dotted(path)
        at = path
        while True:
            place = (self.keys.get(at) if key else None) or self.values.get(at)
            if place is not None or not at:
                line, column = place or (self.first_line + 1, 1)
                return Where(self.file, line, column, text)
            at, key = at[:-1], True

    def source(self, path: Path) -> str | None:
        """A scalar as it was written, without quotes; None for anything else."""
        scalar = self.scalars.get(path)
        return scalar.text if scalar else None

    def quoted(self, path: Path) -> bool:
        """Whether a scalar was written in quotes or as a block."""
        scalar = self.scalars.get(path)
        return scalar is not None and scalar.style is not None

    def embedded(self, path: Path) -> tuple[Document | None, Finding | None]:
        """The document inside a string value, such as the JSON of `ipam`."""
        scalar = self.scalars[path]
        line, _ = self.inner_place(path, 1, 1)
        inner = Document(self.file, lines=scalar.text.split("\n"), first_line=line - 1)
        findings: list[Finding] = []
        problem = _read(scalar.text, inner, findings)
        if problem is not None or findings:
            return None, problem or findings[0]
        for places in (inner.keys, inner.values):
            for at, (row, column) in places.items():
                places[at] = self.inner_place(path, row - line + 1, column)
        return inner, None

    def inner_place(self, path: Path, line: int, column: int) -> tuple[int, int]:
        """Line and column in the file of a place in the text of a string value."""
        scalar = self.scalars[path]
        row, start = scalar.line - self.first_line - 1, scalar.column - 1
        begin = (row + 1, 0) if scalar.style in ("|", ">") else (row, start + bool(scalar.style))
        found = folding.place(self.lines, begin, scalar.style, scalar.text, (line - 1, column - 1))
        return found[0] + self.first_line + 1, found[1] + 1


def dotted(path: Path) -> str:
    """`spec.nicSelector.pfNames[0]`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


class _Refused(Exception):
    """Something no manifest needs and JSON cannot say."""


_ODD_KEY = "a list, a mapping or an alias stands where a key should"


@dataclass(slots=True)
class _Open:
    """A collection being read."""

    value: Any
    path: Path
    before: int
    """Nodes counted before it."""
    key: str | None = None
    anchor: str | None = None
    merges: list[Any] = field(default_factory=list)

    @property
    def wants_key(self) -> bool:
        return isinstance(self.value, dict) and self.key is None


class _Builder:
    """Events of one document → Document."""

    def __init__(self, document: Document, findings: list[Finding]) -> None:
        self.document = document
        self.findings = findings
        self.stack: list[_Open] = []
        self.anchors: dict[str, tuple[Any, int]] = {}
        self.nodes = 0
        self.aliased = 0
        self.last = (1, 1)

    def feed(self, event: Event) -> None:
        self.last = self._at(event)
        if isinstance(event, CollectionEndEvent):
            self._close()
        elif isinstance(event, ScalarEvent):
            self._scalar(event)
        elif isinstance(event, AliasEvent):
            self._alias(event)
        elif isinstance(event, MappingStartEvent):
            self._open(event, {})
        elif isinstance(event, SequenceStartEvent):
            self._open(event, [])

    def _count(self) -> None:
        self.nodes += 1
        if len(self.stack) > MAX_DEPTH:
            raise _Refused(f"nested deeper than {MAX_DEPTH}")

    def _path(self) -> Path:
        """Where the next value goes."""
        if not self.stack:
            return ()
        top = self.stack[-1]
        part = top.key if isinstance(top.value, dict) else len(top.value)
        return (*top.path, "" if part is None else part)

    def _at(self, event: Event) -> tuple[int, int]:
        mark = event.start_mark
        assert mark is not None
        return mark.line + 1 + self.document.first_line, mark.column + 1

    def _open(self, event: NodeEvent, value: Any) -> None:
        self._count()
        if self.stack and self.stack[-1].wants_key:
            raise _Refused(_ODD_KEY)
        path = self._path()
        self.document.values[path] = self._at(event)
        self.stack.append(_Open(value, path, self.nodes - 1, anchor=event.anchor))

    def _close(self) -> None:
        done = self.stack.pop()
        for merged in done.merges:
            for key, value in merged.items() if isinstance(merged, dict) else ():
                done.value.setdefault(key, value)
        if done.anchor:
            self.anchors[done.anchor] = (done.value, self.nodes - done.before)
        self._place(done.value)

    def _scalar(self, event: ScalarEvent) -> None:
        self._count()
        if self.stack and self.stack[-1].wants_key:
            self._key(event)
            return
        path, (line, column) = self._path(), self._at(event)
        style = event.style or None
        plain = style is None and event.tag is None
        value = scalar_value(event.value) if plain else event.value
        self.document.values[path] = (line, column)
        self.document.scalars[path] = Scalar(line, column, event.value, style)
        if event.anchor:
            self.anchors[event.anchor] = (value, 1)
        self._place(value)

    def _key(self, event: ScalarEvent) -> None:
        top = self.stack[-1]
        top.key = event.value
        path = (*top.path, event.value)
        if event.value in top.value:
            self._duplicate(event, path)
        self.document.keys[path] = self._at(event)

    def _duplicate(self, event: ScalarEvent, path: Path) -> None:
        first, again = self.document.keys[path], self._at(event)
        self.findings.append(
            Finding(
                id="yaml.duplicate-key",
                layer=LINT,
                subject=Subject("file", self.document.file),
                status=Status.FAIL,
                actual=f"`{event.value}` stands on line {first[0]} and again on line {again[0]}",
                expected="each key once",
                why="only one of the two survives; strict validation refuses the document",
                fix=f"delete one of the two `{event.value}`",
                where=Where(self.document.file, *again, dotted(path)),
            )
        )

    def _alias(self, event: AliasEvent) -> None:
        if event.anchor not in self.anchors:
            raise _Refused(
                f"`*{event.anchor}` refers to nothing before it, or to what it is part of"
            )
        if self.stack and self.stack[-1].wants_key:
            raise _Refused(_ODD_KEY)
        value, nodes = self.anchors[event.anchor]
        self.nodes += nodes
        self.aliased += nodes
        if self.aliased > MAX_ALIASED:
            raise _Refused(f"its aliases stand for more than {MAX_ALIASED} nodes")
        self.document.values[self._path()] = self._at(event)
        self._place(value)

    def _place(self, value: Any) -> None:
        if not self.stack:
            self.document.data = value
            return
        top = self.stack[-1]
        if isinstance(top.value, list):
            top.value.append(value)
        elif top.key == "<<":
            top.merges.extend(value if isinstance(value, list) else [value])
            top.key = None
        else:
            top.value[top.key] = value
            top.key = None


def _split(text: str) -> Iterator[tuple[int, str]]:
    """Documents with the line each starts on; `---` or `...` ends one (YAML 1.1 §9.1)."""
    start, held = 0, list[str]()
    for number, line in enumerate(text.split("\n")):
        if line.startswith(("---", "...")) and (len(line) == 3 or line[3] in " \t\r"):
            yield start, "\n".join(held)
            start, held = number, ["   " + line[3:]]
        elif line.startswith("%") and not any(row.strip() for row in held):
            held.append("")  # a directive: it belongs to the `---` below it
        else:
            held.append(line)
    yield start, "\n".join(held)


def parse(text: str, file: str) -> tuple[list[Document], list[Finding]]:
    """Every document of a file; one that cannot be read becomes a finding, the others count."""
    documents: list[Document] = []
    findings: list[Finding] = []
    for first_line, part in _split(text):
        document = Document(file, lines=part.split("\n"), first_line=first_line)
        problem = _read(part, document, findings)
        if problem is not None:
            findings.append(problem)
        elif document.data is not None:
            documents.append(document)
    return documents, findings


def _read(part: str, document: Document, findings: list[Finding]) -> Finding | None:
    builder = _Builder(document, findings)
    try:
        for event in yaml.parse(part, Loader=_LOADER):
            builder.feed(event)
    except yaml.MarkedYAMLError as wrong:
        return _syntax(document, wrong)
    except _Refused as wrong:
        return _unreadable(document, str(wrong), builder.last)
    except (yaml.YAMLError, ValueError) as wrong:
        return _unreadable(document, str(wrong).splitlines()[0], (document.first_line + 1, 1))
    return None


def _syntax(document: Document, wrong: yaml.MarkedYAMLError) -> Finding:
    mark = wrong.problem_mark or wrong.context_mark
    line, column = (mark.line, mark.column) if mark else (0, 0)
    place = (document.first_line + line + 1, column + 1)
    return _unreadable(document, wrong.problem or "unreadable", place)


def _unreadable(document: Document, problem: str, place: tuple[int, int]) -> Finding:
    actual, fix = explain(document.lines, place[0] - document.first_line - 1, problem)
    return Finding(
        id="yaml.syntax",
        layer=LINT,
        subject=Subject("file", document.file),
        status=Status.FAIL,
        actual=actual,
        expected="a YAML document",
        why="nothing in this document can be checked or applied",
        fix=fix,
        where=Where(document.file, *place),
    )
