"""Places inside scalars that YAML folded, quoted or escaped."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podrail.model.document import parse

JSON = '{\n  "type": "whereabouts",\n  "range": "300.1.2.0/24"\n}'


def place_of_range(text: str) -> str:
    """The source line, cut at where the embedded `range` is said to stand."""
    (document,), findings = parse(text, "f.yaml")
    assert not findings
    inner, problem = document.embedded(("ipam",))
    assert problem is None
    assert inner is not None
    where = inner.where(("range",))
    return text.split("\n")[where.line - 1][where.column - 1 :]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("ipam: |\n  " + JSON.replace("\n", "\n  "), id="literal"),
        pytest.param("ipam: >\n  " + JSON.replace("\n", "\n  "), id="folded"),
        pytest.param("ipam: >-\n\n    " + JSON.replace("\n", "\n    "), id="folded-deeper"),
        pytest.param("ipam: '" + JSON.replace("\n", "\n  ") + "'", id="single-quoted"),
        pytest.param("ipam: '" + JSON.replace("\n", "") + "'", id="one-line"),
    ],
)
def test_the_place_is_that_of_the_value(text: str) -> None:
    assert place_of_range(text).startswith('"300.1.2.0/24"')


def test_escapes_are_stepped_over() -> None:
    text = f"ipam: {json.dumps(JSON)}"
    assert place_of_range(text).startswith('\\"300.1.2.0/24')


@given(st.dictionaries(st.text("abc\"'\\ \n\té", min_size=1, max_size=8), st.integers(0, 99)))
def test_any_double_quoted_json_is_placed_inside_itself(data: dict[str, int]) -> None:
    text = f"ipam: {json.dumps(json.dumps(data))}"
    (document,), _ = parse(text, "f.yaml")
    inner, problem = document.embedded(("ipam",))
    if problem is None and inner is not None:
        for key, value in data.items():
            where = inner.where((key,))
            assert text[where.column - 1 :].startswith(str(value))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param("spec:\n\tnumVfs: 8\n", "a tab in the indentation", id="tab"),
        pytest.param("a: 1\n{{- if .Values.on }}\nb: 2\n", "is a template", id="helm"),
        pytest.param("```yaml\na: 1\n```\n", "left over from a Markdown page", id="fence"),
    ],
)
def test_slips_are_named(text: str, says: str) -> None:
    _, findings = parse(text, "f.yaml")
    assert says in findings[0].actual


def test_a_long_list_is_no_bomb() -> None:
    text = "items:\n" + "".join(f"- {{a: {n}, b: [1, 2, 3]}}\n" for n in range(60_000))
    (document,), findings = parse(text, "f.yaml")
    assert not findings
    assert len(document.data["items"]) == 60_000
