"""Twenty random operations on a real kernel end with no orphan and the machine as found."""

from __future__ import annotations

import pytest

from tests.lab.inside.caller import Inside

pytestmark = pytest.mark.usefixtures("as_found")

SEED, COUNT = 4, 20


def test_soak(inside: Inside) -> None:
    told = inside.call("soak.soak", SEED, COUNT)
    print("", *told, sep="\n")
    assert len(told) == COUNT
    for word in ("apply", "reset", "somebody", "killed"):
        assert any(word in line for line in told), f"no {word}: choose another seed"
    assert inside.must("pgrep", "-c", "-f", "inside.zygote").strip() == "1", "an orphan is left"
