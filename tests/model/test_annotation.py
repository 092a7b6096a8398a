"""The networks annotation: what Multus accepts and refuses."""

from __future__ import annotations

import pytest

from podrail.model.annotation import NetworkRef, parse_networks


@pytest.mark.parametrize(
    ("text", "refs"),
    [
        ("", ()),
        ("a", (NetworkRef(None, "a"),)),
        ("ns/a@net9", (NetworkRef("ns", "a", "net9"),)),
        (" a , ns/b ", (NetworkRef(None, "a"), NetworkRef("ns", "b"))),
        ('[{"name": "a"}]', (NetworkRef(None, "a"),)),
        (
            '[{"name": "a", "namespace": "ns", "interface": "ib0", "ips": ["10.0.0.1/24"]}]',
            (NetworkRef("ns", "a", "ib0"),),
        ),
        ('[{"name": "a"}, {"name": "a"}]', (NetworkRef(None, "a"), NetworkRef(None, "a"))),
    ],
)
def test_networks_as_multus_reads_them(text: str, refs: tuple[NetworkRef, ...]) -> None:
    found = parse_networks(text)
    assert (found.refs, found.problem) == (refs, None)


@pytest.mark.parametrize(
    ("text", "problem", "left"),
    [
        ("a,,b", "an empty entry", 2),
        ("a/b/c", "more than one /", 0),
        ("a@b@c", "more than one / or @", 0),
        ("/a", "names nothing", 0),
        ("a@", "names nothing", 0),
        ("Rail0", "`Rail0` is no valid name", 0),
        ("a@interface-too-long", "`interface-too-long` is no interface name", 0),
        ("[{]", "looks like JSON but is not", 0),
        ('{"name": "a"}', "no list", 0),
        ('[{"name": "a"}, {"namespace": "n"}]', "entry 1: it has no `name`", 1),
        ('["a"]', 'entry 0: "a" is no object', 0),
    ],
)
def test_networks_multus_refuses(text: str, problem: str, left: int) -> None:
    found = parse_networks(text)
    assert problem in (found.problem or "")
    assert len(found.refs) == left
