"""Sockets that replace each other."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from podrail.attach.deviceplugin import api
from podrail.attach.deviceplugin.rpc import Channel, Refusal, Server, Unanswered, channel, handler


@contextmanager
def serving(path: Path, name: str) -> Iterator[Server]:
    info = api.PluginInfo(name=name)
    server = Server(str(path), [handler(api.GET_INFO, lambda request, context: info)])
    try:
        yield server
    finally:
        server.stop()


def name_of(opened: Channel) -> str:
    return opened.call(api.GET_INFO, api.InfoRequest()).name


def test_a_new_connection_goes_to_whoever_is_there_now(root: Path) -> None:
    """A kubelet that restarted is another one, also while the old connection is still open."""
    path = root / "a.sock"
    with serving(path, "old"), channel(str(path)) as first:
        assert name_of(first) == "old"
        with serving(path, "new"), channel(str(path)) as second:
            assert name_of(second) == "new"
            assert name_of(first) == "old"


def test_the_old_one_does_not_unlink_the_new_one(root: Path) -> None:
    path = root / "a.sock"
    with serving(path, "old") as old:
        assert (old.there, old.superseded) == (True, False)
        with serving(path, "new") as new:
            assert old.superseded
            old.stop()
            assert new.there
            with channel(str(path)) as opened:
                assert name_of(opened) == "new"


def test_a_stale_socket_is_replaced_and_nothing_is_left(root: Path) -> None:
    path = root / "a.sock"
    path.touch()
    with serving(path, "a"):
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        assert os.listdir(root) == ["a.sock"]
    assert os.listdir(root) == []


def test_a_place_that_is_not_there(root: Path) -> None:
    with pytest.raises(OSError, match="cannot serve at"), serving(root / "no" / "a.sock", "a"):
        pass


def test_a_refusal_reaches_the_caller(root: Path) -> None:
    def refuse(request: api.InfoRequest, context: object) -> api.PluginInfo:
        raise Refusal("FAILED_PRECONDITION", "load ib_uverbs")

    server = Server(str(root / "a.sock"), [handler(api.GET_INFO, refuse)])
    with channel(str(root / "a.sock")) as opened:
        with pytest.raises(Unanswered, match="FAILED_PRECONDITION: load ib_uverbs"):
            name_of(opened)
        with pytest.raises(Unanswered, match="UNIMPLEMENTED"):
            opened.call(api.GET_OPTIONS, api.Empty())
    server.stop()


def test_nobody_there(root: Path) -> None:
    with channel(str(root / "a.sock")) as opened, pytest.raises(Unanswered, match="UNAVAILABLE"):
        name_of(opened)
