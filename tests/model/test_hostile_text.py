"""Whatever is in a file, reading it ends in objects and findings, never in an exception."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from podrail.model.annotation import parse_networks
from podrail.model.bundle import read
from podrail.model.document import parse
from podrail.model.kinds.configs import embedded_json
from tests.model import samples

_YAML = st.text(alphabet="ab:-? \n[]{},&*!|>'\"%@`#~0<.\t\r\x85", max_size=80)
_PARTS = [
    *"\n {}[]|,#5\t'\"\\", "  ", ": ", "- ", "&a ", "*a", "<<: ", "on", "null", "---\n", "!!str ",
    "? ", "spec:", "metadata:", "",
]  # fmt: skip


@given(st.text() | _YAML)
def test_any_text_can_be_parsed(text: str) -> None:
    documents, findings = parse(text, "f")
    lines = len(text.splitlines()) + 1  # YAML 1.1 breaks lines at more than \n
    for finding in findings:
        assert finding.where is not None
        assert 1 <= finding.where.line <= lines
    for document in documents:
        assert 1 <= document.where(("spec", "x")).line <= lines


@st.composite
def _mutated(draw: st.DrawFn) -> str:
    text = draw(st.sampled_from(samples.ALL))
    luck = random.Random(draw(st.integers(0, 2**32)))
    for _ in range(luck.randrange(1, 6)):
        start = luck.randrange(len(text))
        end = start + luck.choice([0, 0, 1, 3, 12])
        text = text[:start] + luck.choice(_PARTS) + text[end:]
    return text


@given(_mutated())
def test_a_mangled_manifest_can_be_read_and_looked_at(text: str) -> None:
    found = read([("f", text)])
    for finding in found.findings:
        assert finding.actual
        assert finding.expected
        assert finding.fix
        assert finding.where is not None
    for resource in found.resources:
        for path in (("spec", "ipam"), ("spec", "config"), ("spec", "sriovDevicePlugin", "config")):
            embedded_json(resource, path)


@given(st.text() | st.text(alphabet='[]{}",:/@ab', max_size=30))
def test_any_annotation_can_be_read(text: str) -> None:
    found = parse_networks(text)
    assert found.refs or found.problem or "".join(text.split()) in ("", "[]")
