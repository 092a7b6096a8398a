"""A finding is one check's result on one subject; a report is findings with a verdict."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

SCHEMA = "podrail/findings/1"

LINT = 0
"""The layer number of what is wrong in a manifest before any machine is looked at."""


class Status(StrEnum):
    """What a check found. `unknown` means it could not be measured, and is never a pass."""

    PASS = "pass"
    WARN = "warn"
    FAIL = "fail"
    UNKNOWN = "unknown"
    SKIP = "skip"


@dataclass(frozen=True, slots=True, order=True)
class Where:
    """A place in a manifest; line and column count from 1."""

    file: str
    line: int
    column: int
    path: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True, order=True)
class Subject:
    """What a finding is about."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"


@dataclass(frozen=True, slots=True)
class Finding:
    """One check's result on one subject."""

    id: str
    layer: int
    subject: Subject
    status: Status
    actual: str
    expected: str
    why: str
    fix: str
    evidence: tuple[str, ...] = ()
    where: Where | None = None

    def to_json(self) -> dict[str, Any]:
        where = self.where
        return {
            "id": self.id,
            "layer": self.layer,
            "subject": {"kind": self.subject.kind, "name": self.subject.name},
            "status": self.status.value,
            "actual": self.actual,
            "expected": self.expected,
            "why": self.why,
            "fix": self.fix,
            "evidence": list(self.evidence),
            "where": where
            and {
                "file": where.file,
                "line": where.line,
                "column": where.column,
                "path": where.path,
            },
        }


def in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """By place, then id: two runs over the same input print the same list."""
    nowhere = Where("", 0, 0)
    return tuple(sorted(findings, key=lambda f: (f.where or nowhere, f.id, f.subject, f.actual)))


@dataclass(frozen=True, slots=True)
class Report:
    """Findings with what was meant to be measured and what was."""

    findings: Sequence[Finding]
    declared: int
    measured: int

    @property
    def verdict(self) -> str:
        found = {f.status for f in self.findings}
        if Status.FAIL in found:
            return "fail"
        if Status.UNKNOWN in found or self.measured < self.declared:
            return "incomplete"
        return "warn" if Status.WARN in found else "pass"

    def to_json(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "verdict": self.verdict,
            "coverage": {"declared": self.declared, "measured": self.measured},
            "findings": [f.to_json() for f in self.findings],
        }
