"""The kubelet of these tests refuses what the real one refuses, and sees what it only suffers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event

import pytest

from podrail.attach.deviceplugin import api
from podrail.attach.deviceplugin.rpc import Server, Unanswered, channel, handler
from tests.attach.deviceplugin.kubelet import CHECKPOINT, Kubelet

Listed = Callable[[], Iterator[api.ListAndWatchResponse]]
GOOD = api.Device(ID="0000:9c:00.2", health=api.HEALTHY)


class Plugin:
    """As bad as a test wants it."""

    def __init__(self, path: str, listed: Listed, info: api.PluginInfo | None = None) -> None:
        self.statuses: list[api.RegistrationStatus] = []
        self.told, self.end = Event(), Event()
        handlers = [
            handler(api.GET_OPTIONS, lambda request, context: api.DevicePluginOptions()),
            handler(api.LIST_AND_WATCH, lambda request, context: listed()),
            handler(api.GET_INFO, lambda request, context: info or api.PluginInfo()),
            handler(api.NOTIFY, lambda request, context: self._notified(request)),
        ]
        self.server = Server(path, handlers)

    def _notified(self, status: api.RegistrationStatus) -> api.RegistrationStatusResponse:
        self.statuses.append(status)
        self.told.set()
        return api.RegistrationStatusResponse()

    def __enter__(self) -> Plugin:
        return self

    def __exit__(self, *_: object) -> None:
        self.end.set()
        self.server.stop()


class Lists:
    """Lists that come one after the other; the stream then stays open until told otherwise."""

    def __init__(self, *lists: list[api.Device], stays: bool = True) -> None:
        self.lists, self.stays, self.end = lists, stays, Event()

    def __call__(self) -> Iterator[api.ListAndWatchResponse]:
        for devices in self.lists:
            yield api.ListAndWatchResponse(devices=devices)
        if self.stays:
            self.end.wait(20)


@pytest.fixture
def legacy(root: Path) -> Iterator[Kubelet]:
    kubelet = Kubelet(root, watcher=False).start()
    yield kubelet
    kubelet.stop()


@pytest.fixture
def watcher(root: Path) -> Iterator[Kubelet]:
    kubelet = Kubelet(root, watcher=True).start()
    yield kubelet
    kubelet.stop()


def register(kubelet: Kubelet, **fields: str) -> None:
    asked = {"version": "v1beta1", "endpoint": "a.sock", "resource_name": "a.com/b", **fields}
    with channel(f"{kubelet.places.plugins}/kubelet.sock") as opened:
        opened.call(
            api.REGISTER,
            api.RegisterRequest(
                version=asked["version"],
                endpoint=asked["endpoint"],
                resource_name=asked["resource_name"],
            ),
        )


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        pytest.param({"version": "v1beta2"}, "unsupported version", id="version"),
        pytest.param({"endpoint": "none.sock"}, "no socket", id="endpoint"),
        pytest.param({"endpoint": "../a.sock"}, "no file name", id="endpoint-elsewhere"),
        pytest.param({"resource_name": "rail"}, "invalid", id="no-prefix"),
        pytest.param({"resource_name": "kubernetes.io/rail"}, "invalid", id="native"),
        pytest.param({"resource_name": "A.com/rail"}, "invalid", id="upper-case-domain"),
    ],
)
def test_a_wrong_registration_is_refused(legacy: Kubelet, fields: dict[str, str], why: str) -> None:
    lists = Lists([GOOD])
    with Plugin(f"{legacy.places.plugins}/a.sock", lists):
        with pytest.raises(Unanswered, match=why):
            register(legacy, **fields)
        assert legacy.plugins == {}


def test_a_second_registration_is_refused_and_seen(legacy: Kubelet) -> None:
    lists = Lists([GOOD])
    with Plugin(f"{legacy.places.plugins}/a.sock", lists):
        register(legacy)
        legacy.has("a.com/b", 1)
        with pytest.raises(Unanswered, match="ALREADY_EXISTS"):
            register(legacy)
        assert legacy.violations == ["a.com/b is registered twice"]
        lists.end.set()
        legacy.stop()


@pytest.mark.parametrize(
    ("lists", "seen"),
    [
        pytest.param(Lists([GOOD], stays=False), "closed ListAndWatch", id="stream-ends"),
        pytest.param(Lists([GOOD], [GOOD]), "the same twice", id="nothing-new"),
        pytest.param(Lists([GOOD, GOOD]), "a device twice", id="one-id-twice"),
        pytest.param(Lists([api.Device(ID="a", health="fine")]), "health 'fine'", id="health"),
        pytest.param(Lists([api.Device(ID="a" * 64, health="Healthy")]), "no device id", id="id"),
    ],
)
def test_a_wrong_list_is_seen(legacy: Kubelet, lists: Lists, seen: str) -> None:
    with Plugin(f"{legacy.places.plugins}/a.sock", lists):
        register(legacy)
        legacy.until(lambda: any(seen in text for text in legacy.violations), seen)
        lists.end.set()
        legacy.stop()


@pytest.mark.parametrize(
    ("info", "why"),
    [
        pytest.param({"type": "CSIPlugin"}, "no handler", id="type"),
        pytest.param({"supported_versions": ["v1alpha1"]}, "is not among", id="version"),
        pytest.param({"endpoint": "/elsewhere.sock"}, "is not the socket", id="endpoint"),
        pytest.param({"name": "rail"}, "invalid", id="name"),
    ],
)
def test_the_watcher_refuses_too(watcher: Kubelet, info: dict[str, object], why: str) -> None:
    given = {"type": "DevicePlugin", "name": "a.com/b", "supported_versions": ["v1beta1"], **info}
    told = api.PluginInfo()
    for key, value in given.items():
        if isinstance(value, list):
            told.supported_versions.extend(value)
        else:
            setattr(told, key, value)
    with Plugin(f"{watcher.places.registry}/a.sock", Lists(), told) as plugin:
        assert plugin.told.wait(20)
        assert not plugin.statuses[0].plugin_registered
        assert why in plugin.statuses[0].error
        assert watcher.plugins == {}


def test_a_socket_others_may_open_is_seen(legacy: Kubelet) -> None:
    lists = Lists([GOOD])
    with Plugin(f"{legacy.places.plugins}/a.sock", lists):
        os.chmod(f"{legacy.places.plugins}/a.sock", 0o666)
        register(legacy)
        assert "may be opened by others" in legacy.violations[0]
        lists.end.set()
        legacy.stop()


def test_it_cleans_its_directory_when_it_starts(root: Path) -> None:
    kubelet = Kubelet(root, watcher=False)
    place = Path(kubelet.places.plugins)
    place.mkdir()
    for name in (CHECKPOINT, "a.sock", "DEPRECATION"):
        (place / name).touch()
    kubelet.start()
    assert sorted(os.listdir(place)) == ["kubelet.sock", CHECKPOINT]
    kubelet.stop()
