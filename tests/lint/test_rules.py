"""Every rule: a case that breaks it at a known line, and its nearest neighbour that does not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from podrail.model.bundle import read
from podrail.model.finding import Finding, Status
from podrail.planning.lint import lint, rules
from podrail.planning.lint.registry import Rule

CASES = Path(__file__).parent / "cases"
RULES = [pytest.param(rule, id=rule.id) for rule in rules()]


def _findings(file: Path) -> tuple[Finding, ...]:
    return lint(read([(file.name, file.read_text())]))


def _expected_line(text: str) -> int | None:
    """`# here` ends the line; inside a block of JSON `# expect-line: N` on the first says it."""
    stated = re.match(r"# expect-line: (\d+)\n", text)
    if stated:
        return int(stated[1])
    marked = (n for n, line in enumerate(text.split("\n"), 1) if line.endswith("# here"))
    return next(marked, None)


def _case(rule: Rule, kind: str) -> Path:
    file = CASES / f"{rule.id}.{kind}.yaml"
    assert file.exists(), f"write tests/lint/cases/{file.name}"
    return file


@pytest.mark.parametrize("rule", RULES)
def test_bad_case_is_found_where_it_stands(rule: Rule) -> None:
    file = _case(rule, "bad")
    hits = [f for f in _findings(file) if f.id == rule.id]
    assert hits
    assert all(f.where is not None and f.where.file == file.name for f in hits)
    lines = [f.where.line for f in hits if f.where]
    wanted = _expected_line(file.read_text())
    assert wanted in lines if wanted else min(lines) > 1


@pytest.mark.parametrize("rule", RULES)
def test_good_neighbour_is_silent(rule: Rule) -> None:
    found = _findings(_case(rule, "good"))
    blamed = [(f.id, f.actual) for f in found if f.id == rule.id or f.status is Status.FAIL]
    assert blamed == []


@pytest.mark.parametrize("rule", RULES)
def test_finding_says_what_and_why_and_how(rule: Rule) -> None:
    assert rule.why
    for finding in _findings(_case(rule, "bad")):
        assert finding.actual, finding.id
        assert finding.expected, finding.id
        assert finding.fix, finding.id


@pytest.mark.parametrize("rule", RULES)
def test_errata_exist(rule: Rule) -> None:
    assert all(re.fullmatch(r"E\d{2,3}", e) and 1 <= int(e[1:]) <= 120 for e in rule.errata)


@pytest.mark.parametrize("rule", RULES)
def test_id_is_dotted_kebab(rule: Rule) -> None:
    assert re.fullmatch(r"[a-z]+\.[a-z0-9]+(-[a-z0-9]+)*", rule.id)


def test_no_case_without_rule() -> None:
    known = {rule.id for rule in rules()}
    named = {file.name.rsplit(".", 2)[0] for file in CASES.glob("*.yaml")}
    assert named - known == set()
