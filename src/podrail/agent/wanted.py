"""What is wanted of this machine: manifests from files, or those `podrail apply` left behind."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from podrail.model.document import parse
from podrail.model.errors import ManifestError, PodrailError
from podrail.model.finding import Finding
from podrail.realise.asked import Asked, kept, wrong
from podrail.realise.journal import Journal

_SUFFIXES = (".yaml", ".yml", ".json")

Reading = Callable[[Sequence[str]], list[tuple[str, str]]]
"""Files → (name, text); raises a PodrailError for one that cannot be read."""

Signature = tuple[tuple[str, int, int, int], ...]


# --- where it comes from ----------------------------------------------------------------------


class FromJournal:
    """What `podrail apply` applied last, whenever that was; nothing after `podrail reset`."""

    def __init__(self, journal: Journal, said: Asked) -> None:
        self._journal, self._said = journal, said
        self._version = journal.version()
        self.problem, self.overruled = "", False
        self.now: Asked | None = self._read()

    def changed(self) -> bool:
        """Whether another process has written; cheap, and asked often."""
        return self._journal.version() != self._version

    def refresh(self) -> bool:
        """Read again; whether something else is wanted now."""
        before, self.now = self.now, self._read()
        return self.now != before

    def settle(self) -> None:
        """After our own workers wrote to the journal."""
        self._version = self._journal.version()

    def _read(self) -> Asked:
        self._version = self._journal.version()
        found = kept(self._journal)
        labels = {**dict(found.labels), **dict(self._said.labels)}
        return replace(
            found,
            labels=tuple(sorted(labels.items())),
            management=found.management | self._said.management,
            prefix=self._said.prefix or found.prefix,
            firmware=self._said.firmware or found.firmware,
        )


@dataclass(slots=True)
class FromFiles:
    """Files and directories, read again when one of them changed; the last good ones count.

    What is read is left in the journal, so that `podrail status` knows it, and so that it still
    counts when the files cannot be read after a boot.
    """

    journal: Journal
    paths: Sequence[str]
    said: Asked
    reading: Reading
    now: Asked | None = None
    problem: str = ""
    overruled: bool = False
    """Whether another podrail wanted something else meanwhile."""
    _signature: Signature | None = None
    _version: int = field(default=-1)

    def __post_init__(self) -> None:
        last = kept(self.journal)
        self.now = last if last.manifests else None

    def changed(self) -> bool:
        if self._version != self.journal.version():
            return True
        return self._signature != signature(files(self.paths))

    def refresh(self) -> bool:
        before, found = self.now, files(self.paths)
        mark = signature(found)
        if mark != self._signature:
            self._signature = mark
            self._take(found)
        self.overruled = False
        if self.now is not None and self.now != (theirs := kept(self.journal)):
            self.overruled = self.now == before and bool(theirs.manifests or self._version >= 0)
            self.now.keep(self.journal)
        self.settle()
        return self.now != before

    def settle(self) -> None:
        self._version = self.journal.version()

    def _take(self, found: Sequence[str]) -> None:
        try:
            new = replace(self.said, manifests=tuple(self.reading(found or self.paths)))
            usable(new)
        except PodrailError as no:
            self.problem = str(no)
        else:
            self.problem, self.now = "", new


Source = FromJournal | FromFiles


def usable(wanted: Asked) -> None:
    """The same as stops `podrail apply`: a policy that cannot be read would count as taken back."""
    bundle = wanted.bundle()
    if not bundle.resources and not bundle.findings and not _says_nothing(wanted):
        raise ManifestError(f"no object in {wanted.names}; `kind: List` with `items: []` is none")
    if found := wrong(bundle):
        raise ManifestError(_first(found))


def _says_nothing(wanted: Asked) -> bool:
    """An empty list says that nothing is wanted; an empty file may be half written."""
    documents = (one for name, text in wanted.manifests for one in parse(text, name)[0])
    return any(isinstance(one.data, dict) and one.data.get("items") == [] for one in documents)


def _first(found: Sequence[Finding]) -> str:
    one = found[0]
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    field = f" {one.where.path}" if one.where and one.where.path else ""
    return f"{one.where or one.subject}:{field} {one.actual}, wanted {one.expected}{more}"


# --- files ------------------------------------------------------------------------------------


def files(paths: Sequence[str]) -> list[str]:
    """Every manifest file. What begins with a dot is no manifest: a mounted ConfigMap keeps its
    files a second time below `..data`."""
    return [file for path in paths for file in _expand(path)]


def _expand(path: str) -> Iterator[str]:
    if not os.path.isdir(path):
        yield path
        return
    for at, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        shown = sorted(n for n in names if not n.startswith(".") and Path(n).suffix in _SUFFIXES)
        yield from (os.path.join(at, name) for name in shown)


def signature(found: Sequence[str]) -> Signature:
    """What is different when a file was written, replaced, added or taken away."""
    return tuple(_mark(file) for file in found)


def _mark(file: str) -> tuple[str, int, int, int]:
    try:
        now = os.stat(file)
    except OSError:
        return file, -1, -1, -1
    return file, now.st_mtime_ns, now.st_size, now.st_ino
