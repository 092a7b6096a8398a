"""The agent and its client, over a real socket on this machine."""

from __future__ import annotations

import errno
import io
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from podrail.inventory import discover
from podrail.lab.client import Address, Connection, Lost
from podrail.lab.guest.agent import Closed, receive, send, serve
from podrail.lab.host import LabHost
from podrail.model.errors import Refused

SECRET = b"the lab's own"


@pytest.fixture(scope="module")
def address() -> Iterator[Address]:
    listening = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        try:
            serve(listening, SECRET)
        except OSError:
            return  # the test module is over and the socket closed

    threading.Thread(target=answer, daemon=True).start()
    yield Address(listening.getsockname()[1], SECRET)
    listening.close()


@pytest.fixture
def node(address: Address) -> Iterator[Connection]:
    with Connection(address) as connection:
        yield connection


def test_output_and_status_of_a_program(node: Connection) -> None:
    ran = node.run(["sh", "-c", "echo out; echo err >&2; exit 3"])
    assert (ran.rc, ran.stdout, ran.stderr) == (3, "out\n", "err\n")


def test_standard_input_reaches_the_program(node: Connection) -> None:
    data = os.urandom(300_000).hex().encode()
    assert node.run(["cat"], stdin=data).stdout == data.decode()


def test_a_death_by_signal_reads_as_in_a_shell(node: Connection) -> None:
    assert node.run(["sh", "-c", "kill -9 $$"]).rc == 137


def test_a_late_program_is_ended_with_all_it_started(node: Connection, tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    with pytest.raises(TimeoutError, match="no end within"):
        node.run(["sh", "-c", f"sleep 600 & echo $! > {mark}; wait"], timeout=0.5)
    assert (
        not Path(f"/proc/{mark.read_text().strip()}/cmdline").exists()
        or not Path(f"/proc/{mark.read_text().strip()}/cmdline").read_bytes()
    )


def test_the_connection_survives_a_failed_request(node: Connection) -> None:
    with pytest.raises(FileNotFoundError):
        node.read("/no/such/file")
    with pytest.raises(FileNotFoundError):
        node.run(["/no/such/program"])
    with pytest.raises(OSError, match="dance"):
        node.ask("dance")
    assert node.ask("ping")["node"]


def test_the_nodes_errno_comes_back(node: Connection, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="directory") as raised:
        node.ask("write", path=str(tmp_path), text="x")
    assert raised.value.errno == errno.EISDIR


def test_a_file_arrives_whole_with_its_mode(node: Connection, tmp_path: Path) -> None:
    data = os.urandom(200_001)
    node.put(str(tmp_path / "it"), data, 0o750)
    assert node.read(str(tmp_path / "it")) == data
    assert (tmp_path / "it").stat().st_mode & 0o777 == 0o750
    assert [p.name for p in tmp_path.iterdir()] == ["it"]


def test_streams_are_carried(node: Connection, tmp_path: Path) -> None:
    given = tmp_path / "in"
    given.write_bytes(b"a\nb\n")
    out, err = io.BytesIO(), io.BytesIO()
    with given.open("rb") as stdin:
        rc = node.stream(["sh", "-c", "tac; echo done >&2; exit 4"], stdin, out, err)
    assert (rc, out.getvalue(), err.getvalue()) == (4, b"b\na\n", b"done\n")


def test_a_large_plain_file_as_input(node: Connection, tmp_path: Path) -> None:
    given = tmp_path / "in"
    given.write_bytes(os.urandom(9_000_000))
    out = io.BytesIO()
    with given.open("rb") as stdin:
        assert node.stream(["cat"], stdin, out, io.BytesIO()) == 0
    assert out.getvalue() == given.read_bytes()


def test_a_file_of_any_size_comes_out(node: Connection, tmp_path: Path) -> None:
    given, back = tmp_path / "in", io.BytesIO()
    given.write_bytes(os.urandom(3_000_001))
    node.get(str(given), back)
    assert back.getvalue() == given.read_bytes()
    with pytest.raises(FileNotFoundError):
        node.get("/no/such/file", back)


def test_a_program_that_closed_its_streams_is_ended_in_time(node: Connection) -> None:
    with pytest.raises(TimeoutError):
        node.run(["sh", "-c", "exec >&- 2>&-; exec sleep 600"], timeout=0.5)


def test_a_program_left_in_the_background_lives_on(node: Connection) -> None:
    ran = node.run(["sh", "-c", "sleep 600 >/dev/null 2>&1 & echo $!"])
    pid = int(ran.stdout)
    assert Path(f"/proc/{pid}").exists()
    os.kill(pid, 9)


def test_input_nobody_takes_stays_out_of_memory(address: Address) -> None:
    """The agent stops reading: the sender's socket fills up instead."""
    with Connection(address) as connection:
        connection._request("run", argv=["sleep", "600"], timeout=None)
        connection._sock.settimeout(1.0)
        with pytest.raises(Lost, match="went away"):
            _pour(connection)


def _pour(connection: Connection) -> None:
    for _ in range(2000):
        connection._send(b"I", b"x" * 65536)


def test_a_node_that_is_gone_is_not_an_empty_machine(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with LabHost("node1", Address(port, SECRET)) as host, pytest.raises(Lost, match="lab:node1"):
        discover(host)


def test_a_wrong_secret_is_refused(address: Address) -> None:
    with pytest.raises(Refused, match="secret"):
        Connection(Address(address.port, b"another lab's"))


def test_an_impostor_on_the_port_is_refused() -> None:
    """Someone else took the port after the node died: it must not be believed."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def pretend() -> None:
            sock, _ = listening.accept()
            with sock:
                send(sock, b"N", b"x" * 16)
                receive(sock)
                send(sock, b"A", b"y" * 32)

        threading.Thread(target=pretend, daemon=True).start()
        with pytest.raises(Refused, match="does not know"):
            Connection(Address(listening.getsockname()[1], SECRET))


def test_no_request_is_answered_before_the_proof(address: Address) -> None:
    with socket.create_connection(("127.0.0.1", address.port), timeout=5) as sock:
        receive(sock)
        send(sock, b"Q", b'{"op": "ping"}')
        with pytest.raises(Closed):
            receive(sock)


def test_a_vanished_client_takes_its_program_along(address: Address, tmp_path: Path) -> None:
    pipe = tmp_path / "alive"
    os.mkfifo(pipe)
    with Connection(address) as connection:
        connection._request("run", argv=["sh", "-c", f"exec 3> {pipe}; sleep 600"])
        reader = pipe.open("rb")
    with reader:
        assert reader.read() == b"", "the fifo closes when the program is gone"


def test_the_host_seam(address: Address, tmp_path: Path) -> None:
    with LabHost("node1", address) as host:
        (tmp_path / "file").write_text("text")
        (tmp_path / "link").symlink_to("file")
        base = str(tmp_path)
        assert host.label == "lab:node1"
        assert host.entries(base) == ("file", "link")
        assert host.readlink(f"{base}/link") == "file"
        assert host.resolve(f"{base}/link") == f"{base}/file"
        host.write(f"{base}/file", "more")
        assert host.read(f"{base}/link") == "more"
        assert host.run(["true"]).rc == 0
