"""The rig: a wanted `ens2` on the igb twin."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from podrail.host.twins import twin
from tests.agent.rig import Rig, policy


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    """Four VFs of ens2 with an MTU of 9000, made and kept."""
    made = Rig(twin("igb"), tmp_path, policy()).begin()
    yield made
    made.close()
