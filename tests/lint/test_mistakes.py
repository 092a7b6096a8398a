"""The mistakes as they were published: each is found, at its line, and nothing else is blamed.

Beside `X.yaml` stands `X.expect.yaml`: a list of {id, line, errata} that must be found.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from podrail.model.bundle import read
from podrail.model.finding import Finding, Status
from podrail.planning.lint import lint
from tests.lint.test_errata import ERRATA

MISTAKES = Path(__file__).resolve().parents[2] / "examples" / "mistakes"
PUBLISHED = sorted(f for f in MISTAKES.rglob("*.yaml") if not f.name.endswith(".expect.yaml"))


def _findings(file: Path) -> tuple[Finding, ...]:
    return lint(read([(file.name, file.read_text())]))


def _expected(file: Path) -> list[dict[str, Any]]:
    listed = yaml.safe_load(file.with_suffix(".expect.yaml").read_text())
    assert isinstance(listed, list)
    return listed


def _name(file: Path) -> str:
    return str(file.relative_to(MISTAKES))


@pytest.mark.parametrize("file", PUBLISHED, ids=_name)
def test_every_mistake_is_found(file: Path) -> None:
    found = {(f.id, f.where.line) for f in _findings(file) if f.where}
    ids = {id for id, _ in found}
    for wanted in _expected(file):
        if "line" in wanted:
            assert (wanted["id"], wanted["line"]) in found
        else:
            assert wanted["id"] in ids


@pytest.mark.parametrize("file", PUBLISHED, ids=_name)
def test_nothing_else_fails(file: Path) -> None:
    wanted = {entry["id"] for entry in _expected(file)}
    failed = {f.id for f in _findings(file) if f.status is Status.FAIL}
    assert failed - wanted == set()


@pytest.mark.parametrize("file", PUBLISHED, ids=_name)
def test_errata_and_rule_belong_together(file: Path) -> None:
    stated = [(entry["id"], entry["errata"]) for entry in _expected(file) if "errata" in entry]
    assert [(id, e) for id, e in stated if id not in ERRATA[e].split()] == []


def test_every_expectation_has_its_file() -> None:
    for expect in MISTAKES.rglob("*.expect.yaml"):
        assert expect.with_name(expect.name.replace(".expect.yaml", ".yaml")).exists()
