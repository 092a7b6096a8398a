"""The lab's host seam against its agent, over a real socket on this machine."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from podrail.lab.client import Address
from podrail.lab.guest.agent import serve
from podrail.lab.host import LabHost
from podrail.model.errors import Refused

SECRET = b"the lab's own"


@pytest.fixture(scope="module")
def host() -> Iterator[LabHost]:
    listening = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        try:
            serve(listening, SECRET)
        except OSError:
            return  # the tests are over and the socket closed

    threading.Thread(target=answer, daemon=True).start()
    with LabHost("node1", Address(listening.getsockname()[1], SECRET)) as found:
        yield found
    listening.close()


def test_a_file_is_placed_with_its_directories_and_taken_away(
    host: LabHost, tmp_path: Path
) -> None:
    path = tmp_path / "deep" / "er" / "a"
    for text, mode in (("one\n", 0o644), ("zwei ü\n", 0o600)):
        host.place(str(path), text, mode=mode)
        assert (path.read_text(), path.stat().st_mode & 0o777) == (text, mode)
    assert [entry.name for entry in path.parent.iterdir()] == ["a"]
    host.unlink(str(path))
    with pytest.raises(FileNotFoundError):
        host.unlink(str(path))


def test_a_link_is_followed_by_place_and_taken_by_unlink(host: LabHost, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("real")
    host.place(str(link), "text\n")
    assert link.is_symlink()
    assert (tmp_path / "real").read_text() == "text\n"
    host.unlink(str(link))
    assert [entry.name for entry in tmp_path.iterdir()] == ["real"]


def test_a_refusal_leaves_the_conversation_in_order(host: LabHost, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept\n")
    with pytest.raises(NotADirectoryError):
        host.place(str(tmp_path / "file" / "below"), "x" * 200_000)
    assert host.read(str(tmp_path / "file")) == "kept\n"


def test_standard_input_reaches_a_program(host: LabHost) -> None:
    assert host.run(["cat"], stdin="ü\n").stdout == "ü\n"
    assert host.run(["cat"]).stdout == ""


def test_events_are_told_inside_the_node_only(host: LabHost) -> None:
    with pytest.raises(Refused, match="podrail lab run node1 -- podrail"):
        host.watch()
