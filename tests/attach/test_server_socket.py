"""The socket itself: whose it is, who may speak on it, and what is in its place."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import stat
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from podrail.attach import wire
from podrail.attach.result import Code
from podrail.model.errors import Refused
from tests.attach.sockets import Desk, asking, dial, hear, serving, short_place, talk

NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")


@pytest.fixture
def place() -> Iterator[Path]:
    with short_place() as found:
        yield found


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.mark.parametrize("before", [None, 0o755, 0o777])
def test_the_socket_is_root_s_alone(place: Path, desk: Desk, before: int | None) -> None:
    inner = place / "run"
    if before is not None:
        inner.mkdir()
        inner.chmod(before)
    with serving(inner, desk):
        assert stat.S_IMODE((inner / "cni.sock").stat().st_mode) == 0o600
        assert stat.S_IMODE(inner.stat().st_mode) == 0o700
    assert not (inner / "cni.sock").exists()


@as_root
def test_another_user_cannot_reach_it(place: Path, desk: Desk) -> None:
    place.chmod(0o755)
    with serving(place / "run", desk):
        assert _as(NOBODY, place / "run" / "cni.sock") == b"PermissionError"
    assert desk.asked == []


@as_root
def test_another_user_who_reaches_it_is_refused(place: Path, desk: Desk) -> None:
    with serving(place, desk):
        place.chmod(0o755)
        (place / "cni.sock").chmod(0o666)
        answer = wire.unanswer(_as(NOBODY, place / "cni.sock"))
    assert (answer.code, json.loads(answer.body)["code"]) == (1, Code.REFUSED)
    assert f"uid {NOBODY} may not ask" in json.loads(answer.body)["msg"]
    assert desk.asked == []
    assert any(f"uid {NOBODY}" in line for line in desk.said)


def _as(uid: int, path: Path) -> bytes:
    """What that user gets for a good request."""
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the child touches no other thread's
        pid = os.fork()
    if pid == 0:
        os.write(write, _become(uid, path))
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        found = pipe.read()
    os.waitpid(pid, 0)
    return found


def _become(uid: int, path: Path) -> bytes:
    try:
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        with dial(path) as sock:
            with contextlib.suppress(BrokenPipeError):
                sock.sendall(asking())
            return hear(sock)
    except OSError as no:
        return type(no).__name__.encode()


def test_a_stale_socket_is_replaced(place: Path, desk: Desk) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as dead:
        dead.bind(str(place / "cni.sock"))
    with serving(place, desk):
        assert talk(place / "cni.sock", asking()).code == 0


def test_a_socket_somebody_answers_on_is_left_alone(place: Path, desk: Desk) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
        other.bind(str(place / "cni.sock"))
        other.listen()
        with pytest.raises(Refused, match="somebody else answers there"):
            serving(place, desk).start()
        dial(place / "cni.sock").close()


def test_two_services_do_not_share(place: Path, desk: Desk) -> None:
    with serving(place, desk):
        with pytest.raises(Refused, match="another attach service has it"):
            serving(place, desk).start()
        assert talk(place / "cni.sock", asking()).code == 0
    with serving(place, desk):
        assert talk(place / "cni.sock", asking()).code == 0


def test_something_else_in_its_place_is_left_alone(place: Path, desk: Desk) -> None:
    (place / "cni.sock").write_text("mine")
    with pytest.raises(Refused, match="no socket"):
        serving(place, desk).start()
    assert (place / "cni.sock").read_text() == "mine"


def test_a_stop_leaves_another_s_socket(place: Path, desk: Desk) -> None:
    path = place / "cni.sock"
    with serving(place, desk), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
        path.unlink()
        other.bind(str(path))
    assert path.exists()
