"""What the agent tells: one line for people or one JSON object, and a note in the journal."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TextIO

from podrail.model.errors import PodrailError
from podrail.realise.journal import Journal
from podrail.realise.step import MACHINE

DRIFT, MENDED, REFUSED, FAILED = "drift", "mended", "refused", "failed"
GIVEN_BACK, RESUMED, WANTED, READY, STOPPING = (
    "given-back", "resumed", "wanted", "ready", "stopping",
)  # fmt: skip
_UNKEPT = (READY, STOPPING)


@dataclass(frozen=True, slots=True)
class Report:
    """Something that happened to a PF, to the machine, or to the agent."""

    event: str
    pf: str = ""
    name: str = ""
    what: str = ""
    actual: str = ""
    wanted: str = ""
    set_by: str = ""
    seconds: float | None = None
    reason: str = ""
    fix: str = ""
    kind: str = "policy"
    """What `set_by` names."""

    def __str__(self) -> str:
        return f"{self._subject()}{_SAID[self.event](self)}"

    def _subject(self) -> str:
        who = self.name or self.pf
        return f"{who}: " if who else ""


def _value(report: Report, verb: str) -> str:
    by = f" ({report.kind} {report.set_by})" if report.set_by else ""
    return f"{report.what} {verb} {report.actual}, wanted {report.wanted}{by}"


def _mended(report: Report) -> str:
    took = "" if report.seconds is None else f"mended in {report.seconds:.1f} s"
    if not report.what:
        return "; ".join(filter(None, (took or "mended", report.reason)))
    return "; ".join(filter(None, (_value(report, "was"), took, report.reason)))


def _plain(word: str) -> Callable[[Report], str]:
    def say(report: Report) -> str:
        head = ": ".join(filter(None, (word, report.reason)))
        return f"{head}; next: {report.fix}" if report.fix else head

    return say


_SAID: dict[str, Callable[[Report], str]] = {
    DRIFT: lambda r: "; ".join(filter(None, (_value(r, "is"), r.reason))),
    MENDED: _mended,
    REFUSED: _plain("refused"),
    FAILED: _plain("failed"),
    GIVEN_BACK: _plain("given back as it was found"),
    RESUMED: _plain("an earlier podrail was interrupted"),
    WANTED: _plain("now wanted"),
    READY: _plain("ready"),
    STOPPING: _plain("stopping"),
}


class Reporter:
    """Writes reports down; a log or a journal that cannot be written stops nobody."""

    def __init__(
        self, journal: Journal, *, as_json: bool = False, to: TextIO | None = None
    ) -> None:
        self._journal, self._json, self._to = journal, as_json, to
        self.node = ""

    def __call__(self, report: Report) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._write(self._line(report))
        if report.event not in _UNKEPT:
            with contextlib.suppress(PodrailError):
                self._journal.note(report.pf or MACHINE, str(report))

    def _line(self, report: Report) -> str:
        if not self._json:
            return _printable(str(report))
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        shown = {key: value for key, value in asdict(report).items() if key != "kind"}
        if report.seconds is not None:
            shown["seconds"] = round(report.seconds, 3)
        return json.dumps({"at": at, "event": shown.pop("event"), "node": self.node, **shown})

    def _write(self, line: str) -> None:
        out = self._to or (sys.stdout if self._json else sys.stderr)
        out.write(line + os.linesep)
        out.flush()


def _printable(text: str) -> str:
    """Names come from strangers; a log may be read on a terminal that obeys."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
