"""`kill -9` at every point of the journal, on a real kernel: the next podrail makes it whole."""

from __future__ import annotations

import json

import pytest

from tests.lab.inside.caller import Inside
from tests.lab.test_realise import PF

pytestmark = pytest.mark.usefixtures("as_found", "as_found2")

WANTED = {
    "create": 8, "reset": 8, "resize 2 to 1": 6, "resize 1 to 2": 6, "take back": 14,
}  # fmt: skip
"""The least number of points: opening, every step that has something to do, and the end, each
before and after its commit."""


def test_killed_at_every_point(inside: Inside, inside2: Inside) -> None:
    """In two nodes at a time: a kernel takes two seconds to remove VFs, one PF after the other."""
    begun = [
        (inside, inside.begin("crash.create_and_reset", PF)),
        (inside2, inside2.begin("crash.resize_and_take_back", PF)),
    ]
    points: dict[str, str] = {}
    for said in [node.wait(pid) for node, pid in begun]:
        points |= json.loads(said.good().out.splitlines()[-1])
    print(f"\nkilled at {len(points)} points:")
    for point, wrong in points.items():
        print(f"  {point}: {wrong or 'whole again'}")
    for name, least in WANTED.items():
        assert sum(point.startswith(f"{name}: ") for point in points) >= least, name
    assert not any(points.values())
