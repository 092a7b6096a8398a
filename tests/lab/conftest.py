"""One lab for the whole tier: booted once, broken and mended by every test."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from podrail.cli.lab import bring_up
from podrail.host.seam import Host
from podrail.lab import lifecycle
from podrail.lab.host import LabHost
from podrail.lab.state import LabState
from tests.lab.inside.caller import Inside


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/lab/" in str(item.path):
            item.add_marker(pytest.mark.lab)


@pytest.fixture(scope="session")
def lab() -> Iterator[LabState]:
    """Two nodes, in a lab of this run's own."""
    name = f"test-{os.getpid()}"
    state = bring_up(name, 2)
    yield state
    lifecycle.down(name)


@pytest.fixture(scope="session")
def node1(lab: LabState) -> Iterator[LabHost]:
    with LabHost("node1", lab.address("node1")) as host:
        yield host


@pytest.fixture(scope="session")
def node2(lab: LabState) -> Iterator[LabHost]:
    with LabHost("node2", lab.address("node2")) as host:
        yield host


@pytest.fixture(scope="session")
def contract_host(node1: LabHost) -> Host:
    """What the contract of the host seam is held against here: a real kernel."""
    return node1


@pytest.fixture(scope="session")
def inside(lab: LabState, node1: LabHost) -> Iterator[Inside]:
    """podrail in node1, its interpreter started once."""
    yield from conversation(lab, node1)


@pytest.fixture(scope="session")
def inside2(lab: LabState, node2: LabHost) -> Iterator[Inside]:
    """podrail in node2, for what takes long and needs a kernel of its own."""
    yield from conversation(lab, node2)


def conversation(lab: LabState, host: LabHost) -> Iterator[Inside]:
    inside = Inside(lab, host)
    inside.call("machine.bare")
    yield inside
    inside.close()


@pytest.fixture
def as_found(inside: Inside) -> Iterator[None]:
    """What a test does to node1 is undone when it ends, or it fails."""
    yield from unchanged(inside)


@pytest.fixture
def as_found2(inside2: Inside) -> Iterator[None]:
    """The same for node2."""
    yield from unchanged(inside2)


def unchanged(inside: Inside) -> Iterator[None]:
    before = inside.call("machine.snapshot")
    yield
    left = differences(before, inside.call("machine.snapshot"))
    if left:
        inside.reset("--force")
        inside.call("machine.bare")
    assert not left, "left behind:\n" + "\n".join(left)


def differences(before: Any, after: Any, at: str = "") -> list[str]:
    """Where two snapshots are not the same."""
    if not (isinstance(before, dict) and isinstance(after, dict)):
        return [] if before == after else [f"{at}: {before!r} -> {after!r}"]
    keys = [k for k in {**before, **after} if before.get(k, "none") != after.get(k, "none")]
    return [
        line
        for key in keys
        for line in differences(before.get(key, "none"), after.get(key, "none"), f"{at}/{key}")
    ]
