"""The spool: what came while nobody served is done before anything else, and lost by nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from podrail.attach import wire
from podrail.attach.request import Request
from podrail.attach.result import CniError, Code
from podrail.attach.server import replay
from tests.attach.sockets import CONFIG, Desk, asking, dial, serving, short_place, talk


@pytest.fixture
def place() -> Iterator[Path]:
    with short_place() as found:
        yield found


@pytest.fixture
def desk() -> Desk:
    return Desk()


def keep(spool: Path, name: str, data: bytes) -> Path:
    spool.mkdir(mode=0o700, exist_ok=True)
    (spool / name).write_bytes(data)
    return spool / name


def del_of(container: str) -> bytes:
    return asking(CNI_COMMAND="DEL", CNI_CONTAINERID=container)


def test_what_waits_is_done_in_order_and_goes(place: Path, desk: Desk) -> None:
    for name, container in (("2-9.cni", "b"), ("1-9.cni", "a"), ("3-1.cni", "c")):
        keep(place / "spool", name, del_of(container))
    found = replay(place / "spool", desk, desk.said.append)
    assert [one.container_id for one in desk.asked] == ["a", "b", "c"]
    assert (found.done, found.failed, found.bad) == (("1-9.cni", "2-9.cni", "3-1.cni"), (), ())
    assert os.listdir(place / "spool") == []


@pytest.mark.parametrize("error", [CniError(Code.INTERNAL, "busy"), OSError("gone"), KeyError("x")])
def test_what_fails_stays_and_holds_up_nothing(place: Path, desk: Desk, error: Exception) -> None:
    def first_fails(request: Request) -> dict[str, Any]:
        assert (place / "spool" / "1-1.cni").exists()
        if request.container_id == "a":
            raise error
        return {}

    desk.answers = first_fails
    for name, container in (("1-1.cni", "a"), ("2-1.cni", "b")):
        keep(place / "spool", name, del_of(container))
    found = replay(place / "spool", desk, desk.said.append)
    assert (found.done, found.failed) == (("2-1.cni",), ("1-1.cni",))
    assert (place / "spool" / "1-1.cni").read_bytes() == del_of("a")
    assert any("stays for another try" in line for line in desk.said)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="empty"), pytest.param(del_of("a")[:-1], id="cut"),
        pytest.param(del_of("a") + b"x", id="more"), pytest.param(b"\0" * 4096, id="zeros"),
        pytest.param(del_of("../x"), id="path trick"),
        pytest.param(asking(b"{", CNI_COMMAND="DEL"), id="no JSON"),
        pytest.param(b"x" * (wire.FRAME_MAX + 10), id="huge"),
    ],
)  # fmt: skip
def test_a_torn_file_is_set_aside(place: Path, desk: Desk, data: bytes) -> None:
    keep(place / "spool", "1-1.cni", data)
    keep(place / "spool", "2-1.cni", del_of("b"))
    found = replay(place / "spool", desk, desk.said.append)
    assert (found.bad, found.done) == (("1-1.cni",), ("2-1.cni",))
    assert (place / "spool" / "bad" / "1-1.cni").read_bytes() == data
    assert any("'1-1.cni' is no request" in line for line in desk.said)
    assert [one.container_id for one in desk.asked] == ["b"]


def test_a_link_in_the_spool_is_not_followed(place: Path, desk: Desk) -> None:
    outside = keep(place, "outside", del_of("a"))
    (place / "spool").mkdir()
    (place / "spool" / "1-1.cni").symlink_to(outside)
    assert replay(place / "spool", desk, desk.said.append).bad == ("1-1.cni",)
    assert (outside.exists(), desk.asked) == (True, [])


def test_a_gc_from_the_past_collects_nothing(place: Path, desk: Desk) -> None:
    """Its list of the living is old: what was attached since would go."""
    config = json.dumps(CONFIG | {"cniVersion": "1.1.0", "cni.dev/valid-attachments": []}).encode()
    kept = keep(place / "spool", "1-1.cni", asking(config, CNI_COMMAND="GC"))
    assert replay(place / "spool", desk, desk.said.append).done == ("1-1.cni",)
    assert (desk.asked, kept.exists()) == ([], False)


def test_what_is_being_written_is_left_and_what_was_abandoned_goes(place: Path, desk: Desk) -> None:
    fresh, old = (keep(place / "spool", name, b"PRC") for name in (".1.cni.tmp", ".2.cni.tmp"))
    os.utime(old, (1, 1))
    keep(place / "spool", "3-1.cni", del_of("a"))
    replay(place / "spool", desk, desk.said.append)
    assert (fresh.exists(), old.exists()) == (True, False)


def test_without_a_spool_nothing_waits(place: Path, desk: Desk) -> None:
    assert replay(place / "none", desk).done == ()


def test_the_spool_is_done_before_anything_is_served(place: Path, desk: Desk) -> None:
    tried: list[str] = []

    def look(request: Request) -> dict[str, Any]:
        try:
            dial(place / "cni.sock").close()
        except ConnectionRefusedError:
            tried.append(request.container_id)
        return {}

    desk.answers = look
    keep(place / "spool", "1-1.cni", del_of("a"))
    with serving(place, desk, spool=place / "spool"):
        assert tried == ["a"]
        assert talk(place / "cni.sock", asking()).code == 0


def test_a_late_del_is_done_before_the_next_add(place: Path, desk: Desk) -> None:
    """Its forwarder looked before we served, and wrote after."""
    with serving(place, desk, spool=place / "spool"):
        keep(place / "spool", "1-1.cni", del_of("old"))
        assert talk(place / "cni.sock", asking(CNI_COMMAND="CHECK")).code == 0
        assert (place / "spool" / "1-1.cni").exists()
        assert talk(place / "cni.sock", asking()).code == 0
    assert [(one.command, one.container_id) for one in desk.asked] == [
        ("CHECK", "c1"), ("DEL", "old"), ("ADD", "c1"),
    ]  # fmt: skip


def test_a_del_that_keeps_failing_is_not_tried_for_every_add(place: Path, desk: Desk) -> None:
    def never(request: Request) -> dict[str, Any]:
        if request.command == "DEL":
            raise CniError(Code.INTERNAL, "busy")
        return {}

    desk.answers = never
    keep(place / "spool", "1-1.cni", del_of("old"))
    with serving(place, desk, spool=place / "spool"):
        for _ in range(3):
            assert talk(place / "cni.sock", asking()).code == 0
    assert [one.command for one in desk.asked] == ["DEL", "ADD", "ADD", "ADD"]
