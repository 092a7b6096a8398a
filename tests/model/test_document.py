"""YAML with every place kept: types, positions, and what must end in a message."""

from __future__ import annotations

from typing import Any

import pytest

from podrail.model.document import MAX_DEPTH, Document, parse
from podrail.model.finding import Finding
from podrail.model.scalars import scalar_value


def _read(text: str) -> Document:
    documents, findings = parse(text, "a.yaml")
    assert findings == []
    (document,) = documents
    return document


def _refused(text: str) -> Finding:
    documents, (finding,) = parse(text, "a.yaml")
    assert documents == []
    assert finding.id == "yaml.syntax"
    return finding


# --- scalars ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", True), ("On", True), ("TRUE", True), ("no", False), ("off", False),
        ("y", "y"), ("n", "n"), ("", None), ("~", None), ("null", None), ("NULL", None),
        ("7", 7), ("-7", -7), ("+7", 7), ("1_000", 1000), ("0", 0), ("0x1F", 31), ("0b11", 3),
        ("0o17", 15), ("017", 15), ("0777", 511), ("089", 89.0), ("1e3", 1000.0), ("1.5", 1.5),
        (".5", 0.5), ("24.10", 24.1), ("15b3", "15b3"), ("101e", "101e"), ("1021", 1021),
        ("1e10", 1e10), ("3.2.0", "3.2.0"), ("12:30:45", "12:30:45"), ("0x_", "0x_"),
        ("0o_", "0o_"), ("2001-01-01", "2001-01-01"), ("0-3", "0-3"), ("8,", "8,"),
    ],
)  # fmt: skip
def test_plain_scalars_get_the_type_the_api_server_sees(text: str, value: Any) -> None:
    found = scalar_value(text)
    assert found == value
    assert type(found) is type(value)


def test_a_number_too_long_to_convert_stays_text() -> None:
    assert scalar_value("9" * 5000) == "9" * 5000


def test_quotes_and_blocks_are_always_text() -> None:
    document = _read("a: 'on'\nb: \"5\"\nc: |\n  7\nd: !!str 8\ne: on\n")
    assert document.data == {"a": "on", "b": "5", "c": "7\n", "d": "8", "e": True}
    assert [document.quoted((key,)) for key in "abcde"] == [True, True, True, False, False]
    assert document.source(("e",)) == "on"
    assert document.source(()) is None


def test_keys_are_text_as_in_json() -> None:
    assert _read("1: a\ntrue: b\n~: c\n").data == {"1": "a", "true": "b", "~": "c"}


# --- places -------------------------------------------------------------------------------------


def test_places_of_keys_values_and_items() -> None:
    document = _read("spec:\n  pfNames:\n  - ens1\n  - ens2\n  mtu: 9000\n")
    value, key = document.where(("spec", "mtu")), document.where(("spec", "mtu"), key=True)
    item = document.where(("spec", "pfNames", 1))
    assert (value.line, value.column, value.path) == (5, 8, "spec.mtu")
    assert (key.line, key.column) == (5, 3)
    assert (item.line, item.column, item.path) == (4, 5, "spec.pfNames[1]")
    assert str(item) == "a.yaml:4:5"


def test_the_place_of_what_is_not_there_is_what_should_hold_it() -> None:
    document = _read("spec:\n  nicSelector:\n    vendor: x\n")
    where = document.where(("spec", "nicSelector", "deviceID"))
    assert (where.line, where.column, where.path) == (2, 3, "spec.nicSelector.deviceID")
    assert document.where(("status", "x")).line == 1


def test_windows_line_ends_and_a_byte_order_mark() -> None:
    document = _read("\ufeffa: 1\r\nb:\r\n  c: on\r\n")
    assert document.data == {"a": 1, "b": {"c": True}}
    assert document.where(("b", "c")).line == 3


# --- several documents --------------------------------------------------------------------------


def test_documents_are_split_and_keep_their_lines() -> None:
    documents, findings = parse("a: 1\n---\n# nothing\n---\nb: 2\n--- # note\nc: 3\n...\n", "f")
    assert findings == []
    assert [d.data for d in documents] == [{"a": 1}, {"b": 2}, {"c": 3}]
    assert [d.where((key,)).line for d, key in zip(documents, "abc", strict=True)] == [1, 5, 7]


def test_content_beside_the_dashes_keeps_its_column() -> None:
    where = _read("--- {a: 1}\n").where(("a",))
    assert (where.line, where.column) == (1, 9)


def test_a_directive_belongs_to_the_document_below() -> None:
    assert _read("%YAML 1.1\n---\na: 1\n").data == {"a": 1}


def test_dashes_inside_a_block_do_not_split() -> None:
    assert _read("a: |\n  x\n  ---\n  y\n").data == {"a": "x\n---\ny\n"}


def test_one_broken_document_does_not_take_the_others() -> None:
    documents, findings = parse("a: 1\n---\nb: [1\n---\nc: 3\n", "f")
    assert [d.data for d in documents] == [{"a": 1}, {"c": 3}]
    assert [f.where.line for f in findings if f.where] == [4]


# --- faults -------------------------------------------------------------------------------------


def test_a_key_that_stands_twice() -> None:
    documents, (finding,) = parse("spec:\n  mtu: 1\n  mtu: 2\n", "f")
    assert finding.id == "yaml.duplicate-key"
    assert finding.actual == "`mtu` stands on line 2 and again on line 3"
    assert finding.where is not None
    assert (finding.where.line, finding.where.column, finding.where.path) == (3, 3, "spec.mtu")
    assert documents[0].data == {"spec": {"mtu": 2}}


def test_a_placeholder_that_opens_a_flow_mapping() -> None:
    finding = _refused("image: {REGISTRY}/nvidia/cuda:12\n")
    assert finding.actual.startswith("`{REGISTRY}/nvidia/cuda:12`: a value that begins with {")
    assert finding.where is not None
    assert finding.where.line == 1


def test_a_line_indented_unlike_its_siblings() -> None:
    finding = _refused("spec:\n  a: 1\n   b: 2\n")
    assert "indented by 3, the keys before it by 2" in finding.actual


@pytest.mark.parametrize("text", ["\r\r\r[", "\x85\x85[\x85", "a:\r b: \r  - [\r", "\u2028{"])
def test_line_breaks_only_yaml_knows(text: str) -> None:
    _refused(text)


@pytest.mark.parametrize("text", ["a: *nope\n", "a: &x [*x]\n", "&x {b: *x}\n"])
def test_an_alias_to_nothing_or_to_itself(text: str) -> None:
    assert "refers to nothing before it" in _refused(text).actual


@pytest.mark.parametrize("text", ["? [1]\n: 2\n", "{a: 1}: 2\n", "x: &k a\n*k : 2\n"])
def test_a_key_json_cannot_say(text: str) -> None:
    finding = _refused(text)
    assert "where a key should" in finding.actual
    assert finding.where is not None
    assert finding.where.line == text.count("\n") - text.startswith("?")


def test_nesting_beyond_reason() -> None:
    assert _read("[" * MAX_DEPTH + "]" * MAX_DEPTH).data
    deep = "[" * 5000 + "]" * 5000
    assert "nested deeper" in _refused(deep).actual


def test_an_alias_bomb_ends_in_a_message() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    assert "aliases stand for more than" in _refused("\n".join(lines)).actual


def test_a_large_document_may_use_a_small_anchor_often() -> None:
    head = "".join(f"k{n}: {n}\n" for n in range(2000)) + "base: &b {x: 1}\n"
    document = _read(head + "".join(f"u{n}: *b\n" for n in range(500)))
    assert document.data["u499"] == {"x": 1}


@pytest.mark.parametrize("text", ["a: \x00\n", "\x01", "a: \ud800"])
def test_bytes_that_are_no_text(text: str) -> None:
    _refused(text)


# --- aliases and merge keys ---------------------------------------------------------------------


def test_merge_keys_fill_in_what_is_not_said() -> None:
    text = "b: &b {x: 1, y: 2}\nc: &c {z: 3}\nd:\n  <<: [*b, *c]\n  y: 9\n"
    document = _read(text)
    assert document.data["d"] == {"x": 1, "y": 9, "z": 3}
    assert document.where(("d", "x")).line == 3


def test_an_alias_stands_where_it_is_used() -> None:
    document = _read("a: &v 15b3\nb: *v\n")
    assert document.data == {"a": "15b3", "b": "15b3"}
    assert document.where(("b",)).line == 2


# --- documents inside strings -------------------------------------------------------------------


def _inside(text: str, *path: str) -> Document:
    document = _read(text)
    inner, problem = document.embedded(path)
    assert problem is None
    assert inner is not None
    return inner


def test_places_inside_a_block() -> None:
    inner = _inside(
        'spec:\n  ipam: |\n    {\n      "type": "x",\n      "r": [1]\n    }\n', "spec", "ipam"
    )
    assert inner.data == {"type": "x", "r": [1]}
    assert (inner.where(("type",)).line, inner.where(("type",)).column) == (4, 15)
    assert (inner.where(("r", 0)).line, inner.where(("r", 0)).column) == (5, 13)


def test_places_inside_a_block_that_begins_with_empty_lines() -> None:
    inner = _inside('c: |\n\n\n   {"a": 1}\n', "c")
    assert (inner.where(("a",)).line, inner.where(("a",)).column) == (4, 10)


def test_places_inside_quotes() -> None:
    inner = _inside('x: 1\nc: \'{"a": {"b": 2}}\'\n', "c")
    assert (inner.where(("a", "b")).line, inner.where(("a", "b")).column) == (2, 17)


def test_places_inside_the_second_document_of_a_file() -> None:
    documents, _ = parse('a: 1\n---\nc: |\n  {"k": 5}\n', "f")
    inner, _ = documents[1].embedded(("c",))
    assert inner is not None
    assert (inner.where(("k",)).line, inner.where(("k",)).column) == (4, 9)


def test_a_broken_inner_document_is_a_finding_at_its_line() -> None:
    inner, problem = _read('a: 1\nc: |\n  {\n   "a": 1\n   "b": 2\n  }\n').embedded(("c",))
    assert inner is None
    assert problem is not None
    assert problem.where is not None
    assert problem.where.line == 5
