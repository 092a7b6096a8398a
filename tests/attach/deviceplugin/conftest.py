from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from podrail.attach.deviceplugin.configs import Wanted
from podrail.attach.deviceplugin.server import DevicePlugins
from tests.attach.deviceplugin.kubelet import Kubelet
from tests.attach.deviceplugin.machines import Machine

Serve = Callable[..., DevicePlugins]


@pytest.fixture
def root() -> Iterator[Path]:
    """Short: a Unix socket's path has 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="pr") as place:
        yield Path(place)


@pytest.fixture(params=["watcher", "legacy"])
def kubelet(request: pytest.FixtureRequest, root: Path) -> Iterator[Kubelet]:
    """Running, of either sort; nothing a plugin does may displease it."""
    made = Kubelet(root, watcher=request.param == "watcher").start()
    yield made
    made.stop()
    assert made.violations == []


@pytest.fixture
def serve(kubelet: Kubelet) -> Iterator[Serve]:
    """A device plugin for that kubelet; what it says is kept in `said`."""
    running: list[DevicePlugins] = []

    def served(machine: Machine, wanted: Wanted, **options: Any) -> DevicePlugins:
        chosen = {"hold": 0.0, "gap": 0.0, "say": lambda text: None, **options}
        plugins = DevicePlugins(machine, wanted, places=kubelet.places, look=machine.look, **chosen)
        plugins.start()
        running.append(plugins)
        return plugins

    yield served
    for plugins in running:
        plugins.stop()
