"""The socket server: what it serves, what it refuses, and that neither hurts the next one."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from podrail.attach import result, wire
from podrail.attach.request import Request
from podrail.attach.result import CniError, Code
from podrail.attach.server import Limits
from tests.attach.sockets import (
    CONFIG,
    PATIENCE,
    Desk,
    asking,
    dial,
    hear,
    serving,
    short_place,
    talk,
)  # fmt: skip


@pytest.fixture
def place() -> Iterator[Path]:
    with short_place() as found:
        yield found


@pytest.fixture
def desk() -> Desk:
    return Desk()


def body(answer: wire.Answer) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(answer.body)
    return found


def test_an_add_and_its_answer(place: Path, desk: Desk) -> None:
    with serving(place, desk):
        answer = talk(place / "cni.sock", asking(CNI_ARGS="K8S_POD_UID=u1"))
    assert (answer.code, body(answer)) == (0, {"ok": "net1"})
    (asked,) = desk.asked
    assert (asked.command, asked.container_id, asked.plugin) == ("ADD", "c1", "sriov")
    assert (asked.args, asked.config) == ({"K8S_POD_UID": "u1"}, CONFIG)


def test_nothing_to_say_is_said_as_nothing(place: Path, desk: Desk) -> None:
    desk.answers = lambda request: {}
    with serving(place, desk):
        assert talk(place / "cni.sock", asking(CNI_COMMAND="DEL")) == wire.Answer(0, b"")


def test_an_error_is_answered_in_the_version_that_was_asked(place: Path, desk: Desk) -> None:
    def refuse(request: Request) -> dict[str, Any]:
        raise CniError(Code.UNKNOWN_CONTAINER, "who?")

    desk.answers = refuse
    with serving(place, desk):
        answer = talk(place / "cni.sock", asking())
    assert (answer.code, body(answer)) == (1, {"cniVersion": "1.0.0", "code": 3, "msg": "who?"})


@pytest.mark.parametrize("answers", [lambda r: 1 / 0, lambda r: {"x": object()}])
def test_a_defect_is_answered_and_told(place: Path, desk: Desk, answers: Any) -> None:
    desk.answers = answers
    with serving(place, desk):
        answer = talk(place / "cni.sock", asking())
        assert (answer.code, body(answer)["code"]) == (1, Code.INTERNAL)
        assert any("Traceback" in line for line in desk.said)
        desk.answers = lambda request: {}
        assert talk(place / "cni.sock", asking()).code == 0


def test_version_needs_no_handler(place: Path, desk: Desk) -> None:
    with serving(place, desk):
        answer = talk(place / "cni.sock", asking(b"", CNI_COMMAND="VERSION"))
    assert (answer.code, body(answer), desk.asked) == (0, result.versions(), [])


@pytest.mark.parametrize(
    ("env", "stdin", "code"),
    [
        pytest.param({"CNI_IFNAME": "a/b"}, None, 4, id="slash"),
        pytest.param({"CNI_CONTAINERID": "../../x"}, None, 4, id="path trick"),
        pytest.param({"CNI_IFNAME": "ne\0t1"}, None, 4, id="NUL"),
        pytest.param({}, b"{", 6, id="no JSON"),
        pytest.param({}, b"\xff" * 100, 6, id="binary"),
        pytest.param({}, b"[" * 500_000, 6, id="deep"),
    ],
)
def test_a_hostile_request_reaches_no_handler(
    place: Path, desk: Desk, env: dict[str, str], stdin: bytes | None, code: int
) -> None:
    with serving(place, desk):
        answer = talk(place / "cni.sock", asking(stdin, **env))
        assert (answer.code, body(answer)["code"]) == (1, code)
        assert desk.asked == []
        assert any(f"error {code}" in line for line in desk.said)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\x00\xff" * 500, id="binary"),
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", id="another protocol"),
        pytest.param(b"PRCNI1 -1 0\n", id="negative"),
        pytest.param(b"PRCNI1 0 99999999999999999999\n", id="too many digits"),
        pytest.param(b"PRCNI1 0 1000000000\n", id="huge stdin"),
        pytest.param(b"PRCNI1 65537 0\n", id="huge environment"),
        pytest.param(b"P" * 64, id="no line"),
        pytest.param(asking() + b"x", id="more than announced"),
    ],
)
def test_what_is_no_request_is_refused_at_once(place: Path, desk: Desk, data: bytes) -> None:
    # The read deadline is an hour: an answer now means that nobody waited for the rest.
    with serving(place, desk, limits=Limits(read_seconds=3600)):
        answer = talk(place / "cni.sock", data)
        assert (answer.code, body(answer)["code"]) == (1, Code.REFUSED)
        assert desk.asked == []
        assert any("refused" in line for line in desk.said)
        assert talk(place / "cni.sock", asking()).code == 0


def test_a_client_that_never_finishes_is_cut_off(place: Path, desk: Desk) -> None:
    with serving(place, desk, limits=Limits(read_seconds=0.2)):
        began = time.monotonic()
        with dial(place / "cni.sock") as slow:
            slow.sendall(asking()[:-1])
            answer = wire.unanswer(hear(slow))
        assert 0.2 <= time.monotonic() - began < PATIENCE / 2
        assert "after 0.2 s, wanted a whole request" in body(answer)["msg"]
        assert desk.asked == []


def test_the_deadline_is_for_the_whole_request(place: Path, desk: Desk) -> None:
    """A byte now and then does not keep a connection."""
    with (
        serving(place, desk, limits=Limits(read_seconds=0.3)),
        dial(place / "cni.sock") as slow,
    ):
        slow.settimeout(0.02)
        for byte in asking():
            slow.sendall(bytes([byte]))
            try:
                found = slow.recv(4096)
            except TimeoutError:
                continue
            break
        assert b"wanted a whole request" in found


def test_half_a_request_and_gone(place: Path, desk: Desk) -> None:
    with serving(place, desk):
        for cut in (0, 5, 20, len(asking()) - 1):
            with dial(place / "cni.sock") as client:
                client.sendall(asking()[:cut])
        assert talk(place / "cni.sock", asking()).code == 0
    assert len(desk.asked) == 1


def test_a_client_that_does_not_wait_for_its_answer(place: Path, desk: Desk) -> None:
    gone = threading.Event()

    def slowly(request: Request) -> dict[str, Any]:
        gone.wait(PATIENCE)
        return {"x": "y" * 500_000}

    desk.answers = slowly
    with serving(place, desk, limits=Limits(workers=1)):
        with dial(place / "cni.sock") as client:
            client.sendall(asking())
        gone.set()
        desk.answers = lambda request: {}
        assert talk(place / "cni.sock", asking()).code == 0
    assert any("did not arrive" in line for line in desk.said)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=300) | st.binary(max_size=100).map(lambda b: b"PRCNI1 9 9\n" + b))
def test_garbage_hurts_nobody(served: tuple[Path, Desk], data: bytes) -> None:
    path, desk = served
    with dial(path) as client:
        client.sendall(data)
        client.shutdown(socket.SHUT_WR)
        hear(client)
    assert desk.asked == []


@pytest.fixture
def served(place: Path, desk: Desk) -> Iterator[tuple[Path, Desk]]:
    with serving(place, desk) as server:
        yield place / "cni.sock", desk
        assert server.alive
        assert talk(place / "cni.sock", asking()).code == 0


def test_idle_connections_keep_nobody_waiting(place: Path, desk: Desk) -> None:
    limits = Limits(workers=2, connections=512, read_seconds=3600)
    with serving(place, desk, limits=limits):
        idle = [dial(place / "cni.sock") for _ in range(500)]
        for client in idle[::2]:
            client.sendall(b"PRCNI1 ")
        assert talk(place / "cni.sock", asking()).code == 0
        for client in idle:
            client.close()
        assert talk(place / "cni.sock", asking()).code == 0


def test_a_flood_is_served_within_bounds(place: Path, desk: Desk) -> None:
    at_once, most, lock = [0], [0], threading.Lock()

    def count(request: Request) -> dict[str, Any]:
        with lock:
            at_once[0] += 1
            most[0] = max(most[0], at_once[0])
        with lock:
            at_once[0] -= 1
        return {"id": request.container_id}

    desk.answers = count
    limits = Limits(workers=4, connections=16, backlog=32)
    with serving(place, desk, limits=limits), ThreadPoolExecutor(50) as crowd:
        answers = crowd.map(
            lambda at: body(talk(place / "cni.sock", asking(CNI_CONTAINERID=f"c{at}"))), range(500)
        )
        assert [one["id"] for one in answers] == [f"c{at}" for at in range(500)]
        assert 1 <= most[0] <= 4
        assert len([t for t in threading.enumerate() if t.name.startswith("podrail-cni_")]) <= 4


def test_a_full_house_leaves_the_others_in_the_backlog(
    place: Path, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("podrail.attach.server._TURN", 3600.0)  # whoever leaves makes room at once
    free, both = threading.Event(), threading.Barrier(3)

    def wait(request: Request) -> dict[str, Any]:
        if not free.is_set():
            both.wait(PATIENCE)
            assert free.wait(PATIENCE)
        return {}

    desk.answers = wait
    with serving(place, desk, limits=Limits(workers=2, connections=2, backlog=1)):
        clients = [dial(place / "cni.sock") for _ in range(2)]
        for client in clients:
            client.sendall(asking())
        both.wait(PATIENCE)
        while len(clients) < 9 and (one := _at_once(place / "cni.sock")):
            clients.append(one)
        # A backlog of 1 takes two: net/unix/af_unix.c:unix_recvq_full.
        assert len(clients) == 2 + 2
        for client in clients[2:]:
            client.settimeout(PATIENCE)
            client.sendall(asking())
        free.set()
        assert [wire.unanswer(hear(client)).code for client in clients] == [0] * 4
        for client in clients:
            client.close()


def _at_once(path: Path) -> socket.socket | None:
    """A connection, if there is a place for it now."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        sock.connect(str(path))
    except BlockingIOError:
        sock.close()
        return None
    return sock


def test_a_stop_lets_work_finish_and_takes_no_more(place: Path, desk: Desk) -> None:
    begun, free, order = threading.Event(), threading.Event(), list[str]()

    def stop() -> None:
        server.stop()
        order.append("stopped")

    def wait(request: Request) -> dict[str, Any]:
        begun.set()
        assert free.wait(PATIENCE)
        order.append("worked")
        return {"done": True}

    desk.answers = wait
    path = place / "cni.sock"
    server = serving(place, desk).start()
    with dial(path) as working, dial(path) as half:
        working.sendall(asking())
        half.sendall(asking()[:10])
        assert begun.wait(PATIENCE)
        stopping = threading.Thread(target=stop)
        stopping.start()
        assert hear(half) == b""
        with pytest.raises(FileNotFoundError):
            dial(path)
        free.set()
        stopping.join(PATIENCE)
        assert body(wire.unanswer(hear(working))) == {"done": True}
    assert not server.alive
    assert order == ["worked", "stopped"]
