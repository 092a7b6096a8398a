"""One lab for the whole tier: booted once, broken and mended by every test."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from podrail.cli.lab import bring_up
from podrail.host.seam import Host
from podrail.lab import lifecycle
from podrail.lab.host import LabHost
from podrail.lab.state import LabState


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
