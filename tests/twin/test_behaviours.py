"""No behaviour without a citation and a test, and no test of a behaviour that is not declared."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from podrail.host.twins.behaviours import BEHAVIOURS, PROVEN, UNPROVEN, Behaviour
from tests.conftest import ROOT

HERE = Path(__file__).parent
NODE = "tests/lab/test_contract.py"


def covered(pattern: str = "test_*.py") -> set[str]:
    found: set[str] = set()
    for path in HERE.glob(pattern):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "covers":
                found |= {a.value for a in node.args if isinstance(a, ast.Constant)}  # type: ignore[misc]
    return found


def test_every_behaviour_has_a_test() -> None:
    assert covered() == {b.id for b in BEHAVIOURS}


def test_what_runs_on_a_node_is_proven_and_what_cites_it_runs_there() -> None:
    there = covered("test_contract_*.py")
    assert not [b.id for b in BEHAVIOURS if b.id in there and b.status != PROVEN]
    assert not [b.id for b in BEHAVIOURS if b.citation == NODE and b.id not in there]


def test_ids_are_unique() -> None:
    assert len({b.id for b in BEHAVIOURS}) == len(BEHAVIOURS)


@pytest.mark.parametrize("behaviour", BEHAVIOURS, ids=lambda b: b.id)
def test_what_is_proven_cites_the_lab(behaviour: Behaviour) -> None:
    assert behaviour.statement
    assert behaviour.status in (PROVEN, UNPROVEN)
    recorded = behaviour.citation.startswith(("tests/data/lab/", "tests/lab/"))
    assert recorded == (behaviour.status == PROVEN)
    if recorded:
        file = re.match(r"[\w./*-]+", behaviour.citation)
        assert file
        assert list(ROOT.glob(file[0].rstrip(".,"))), f"{file[0]} is not in this repository"
