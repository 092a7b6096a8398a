"""The forwarder and its twin, held to one contract."""

from __future__ import annotations

import json
import os
import shutil
import socket
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from podrail.attach import request, result, wire
from podrail.attach.server import Server
from tests.attach.forwarding import CUT, STDIN, Forwarder, Said, made, needs_compiler
from tests.attach.sockets import ENV, PATIENCE, Peer, short_place

ADDING = ("ADD", "CHECK", "STATUS")
ENDING = ("DEL", "GC")


@pytest.fixture(scope="module")
def programs() -> Iterator[dict[str, Path]]:
    """Both, with the doors that only a test has."""
    with short_place() as place:
        yield made(place)


@pytest.fixture(params=[pytest.param("c", marks=needs_compiler), "python"])
def forwarder(
    request: pytest.FixtureRequest, programs: dict[str, Path]
) -> Iterator[Forwarder]:  # fmt: skip
    with short_place() as place:
        yield Forwarder(programs[request.param], place)


def test_the_service_gets_what_the_runtime_gave(forwarder: Forwarder) -> None:
    with Peer(forwarder.socket, wire.answer(0, b'{"a": 1}\n')) as peer:
        said = forwarder.run(cni={"CNI_EXTRA": "ä=;x"})
    assert said == Said(0, b'{"a": 1}\n')
    (heard,) = peer.heard
    frame = wire.unframe(heard)
    assert frame.env == ENV | {"CNI_EXTRA": "ä=;x", wire.NAME: "sriov"}
    assert frame.stdin == STDIN


@pytest.mark.parametrize("code", [0, 1, 3, 255])
@pytest.mark.parametrize("body", [b"", b"\0\xff\n", b"x" * wire.ANSWER_MAX])
def test_the_answer_is_passed_on(forwarder: Forwarder, code: int, body: bytes) -> None:
    with Peer(forwarder.socket, wire.answer(code, body)):
        assert forwarder.run() == Said(code, body)


def test_with_the_real_service(forwarder: Forwarder) -> None:
    def handle(asked: request.Request) -> dict[str, Any]:
        return {"cniVersion": asked.version, "for": [asked.plugin, asked.ifname, asked.network]}

    with Server(forwarder.socket, handle, uids=frozenset({0, os.geteuid()})):
        assert forwarder.run().error["for"] == ["sriov", "net1", "rails"]
        refused = forwarder.run(cni={"CNI_IFNAME": "../x"})
        assert (refused.code, refused.error["code"], refused.error["cniVersion"]) == (1, 4, "1.0.0")


def test_version_is_answered_without_the_service(forwarder: Forwarder) -> None:
    said = forwarder.run("VERSION")
    assert (said.code, said.error) == (0, result.versions())


def test_version_does_not_wait_for_stdin(forwarder: Forwarder) -> None:
    read, write = os.pipe()
    try:
        env = forwarder.env() | {"CNI_COMMAND": "VERSION"}
        ran = subprocess.run([forwarder.program], stdin=read, env=env, capture_output=True,
                             timeout=PATIENCE, check=False)  # fmt: skip
    finally:
        os.close(read)
        os.close(write)
    assert ran.returncode == 0


@pytest.mark.parametrize("env", [{}, {"CNI_COMMAND": ""}])
def test_without_a_command_it_says_so(forwarder: Forwarder, env: dict[str, str]) -> None:
    ran = subprocess.run([forwarder.program], input=b"", env=forwarder.env() | env,
                         capture_output=True, timeout=PATIENCE, check=False)  # fmt: skip
    assert (ran.returncode, json.loads(ran.stdout)["code"]) == (1, 4)


# The service is down, in every way it can be.


def nothing(path: Path) -> None:
    """No socket at all."""


def dead(path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.bind(str(path))


@pytest.mark.parametrize(("make", "why"), [(nothing, "No such file"), (dead, "Connection refused")])
@pytest.mark.parametrize("command", ADDING)
def test_down_an_add_is_to_be_tried_again(
    forwarder: Forwarder, make: Any, why: str, command: str
) -> None:
    make(forwarder.socket)
    said = forwarder.run(command)
    assert said.code == 1
    assert (said.error["cniVersion"], said.error["code"]) == ("1.0.0", 11)
    assert why in said.error["msg"]
    assert str(forwarder.socket) in said.error["msg"]
    assert forwarder.kept() == []


@pytest.mark.parametrize("make", [nothing, dead])
@pytest.mark.parametrize("command", ENDING)
def test_down_a_del_is_kept_and_succeeds(forwarder: Forwarder, make: Any, command: str) -> None:
    make(forwarder.socket)
    assert forwarder.run(command) == Said(0, b"")
    assert forwarder.run(command) == Said(0, b"")
    first, second = forwarder.kept()
    for path in (first, second):
        frame = wire.unframe(path.read_bytes())
        assert frame == wire.Frame(ENV | {"CNI_COMMAND": command, wire.NAME: "sriov"}, STDIN)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(forwarder.spool.stat().st_mode) == 0o700
    # Their order is that of their names.
    assert first.stat().st_mtime_ns <= second.stat().st_mtime_ns
    assert first.name.partition("-")[0] < second.name.partition("-")[0]
    assert len(first.name.partition("-")[0]) == 20


@pytest.mark.parametrize("says", CUT)
def test_nothing_is_printed_that_was_not_all_there(forwarder: Forwarder, says: bytes) -> None:
    with Peer(forwarder.socket, says):
        said = forwarder.run("ADD")
        assert (said.code, said.error["code"]) == (1, 11)
        assert "Connection reset" in said.error["msg"]
        assert forwarder.run("DEL") == Said(0, b"")
    assert len(forwarder.kept()) == 1


@pytest.mark.parametrize("command", ["ADD", "DEL"])
def test_a_service_that_does_not_answer_is_not_down(forwarder: Forwarder, command: str) -> None:
    """It may be at work on that very request: the runtime asks again."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as silent:
        silent.bind(str(forwarder.socket))
        silent.listen(1)
        said = forwarder.run(command, ms=200)
    assert (said.code, said.error["code"]) == (1, 11)
    assert "timed out" in said.error["msg"]
    assert forwarder.kept() == []


@pytest.mark.parametrize("command", ["ADD", "DEL"])
def test_a_service_with_a_full_backlog_is_not_down(forwarder: Forwarder, command: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as busy:
        busy.bind(str(forwarder.socket))
        busy.listen(0)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as first:
            first.connect(str(forwarder.socket))
            said = forwarder.run(command, ms=200)
    assert (said.code, said.error["code"]) == (1, 11)
    assert "timed out" in said.error["msg"]
    assert forwarder.kept() == []


def test_a_refusal_before_all_was_sent_is_passed_on(forwarder: Forwarder) -> None:
    """Closing with something unread resets the other end, after what was sent to it."""
    with Peer(forwarder.socket, wire.answer(1, b"no\n"), listens=False):
        for size in (10, 100_000, wire.STDIN_MAX) * 4:
            assert forwarder.run(stdin=b" " * size) == Said(1, b"no\n")


# Bounds


def test_the_largest_configuration(forwarder: Forwarder) -> None:
    with Peer(forwarder.socket, wire.answer(0, b"")) as peer:
        assert forwarder.run(stdin=b"x" * wire.STDIN_MAX) == Said(0, b"")
    assert wire.unframe(peer.heard[0]).stdin == b"x" * wire.STDIN_MAX


@pytest.mark.parametrize("command", ["ADD", "DEL"])
def test_a_larger_configuration_is_refused(forwarder: Forwarder, command: str) -> None:
    with Peer(forwarder.socket, wire.answer(0, b"")) as peer:
        said = forwarder.run(command, STDIN + b" " * wire.STDIN_MAX)
    assert (said.code, said.error["code"], said.error["cniVersion"]) == (1, 7, "1.0.0")
    assert (peer.heard, forwarder.kept()) == ([], [])


def test_the_largest_environment_and_one_more(forwarder: Forwarder) -> None:
    used = len(wire.frame(ENV | {wire.NAME: "sriov", "CNI_X": ""}, b"").partition(b"\n")[2])
    room = wire.ENV_MAX - used
    with Peer(forwarder.socket, wire.answer(0, b"")) as peer:
        assert forwarder.run(cni={"CNI_X": "x" * room}) == Said(0, b"")
        assert wire.unframe(peer.heard[0]).env["CNI_X"] == "x" * room
        said = forwarder.run(cni={"CNI_X": "x" * (room + 1)})
        assert (said.code, said.error["code"]) == (1, 4)
        assert len(peer.heard) == 1


def test_a_stdin_that_never_ends_is_given_up(forwarder: Forwarder) -> None:
    read, write = os.pipe()
    try:
        os.write(write, STDIN)
        ran = subprocess.run([forwarder.program], stdin=read, env=forwarder.env(200) | ENV,
                             capture_output=True, timeout=PATIENCE, check=False)  # fmt: skip
    finally:
        os.close(read)
        os.close(write)
    assert (ran.returncode, json.loads(ran.stdout)["code"]) == (1, 5)


@pytest.mark.parametrize(
    ("stdin", "version"),
    [
        (b'{"cniVersion": "0.4.0"}', "0.4.0"), (b'{"cniVersion"\n\t: \r "1.1.0" }', "1.1.0"),
        (b'{"cniVersion":"0.3.1","prevResult":{"cniVersion":"9.9.9"}}', "0.3.1"),
        (b"", "1.0.0"), (b'{"cniVersion"', "1.0.0"), (b'{"cniVersion":', "1.0.0"),
        (b'{"cniVersion":"', "1.0.0"), (b'{"cniVersion":"1.0', "1.0.0"),
        (b'{"cniVersion":""}', "1.0.0"), (b'{"cniVersion":"1.0\\"}', "1.0.0"),
        (b'{"cniVersion":"1\\",\\"code\\":0}', "1.0.0"), (b'{"cniVersion":11}', "1.0.0"),
        (b'{"cniVersion":"123456789012345"}', "123456789012345"),
        (b'{"cniVersion":"1234567890123456"}', "1.0.0"), (b'\0"cniVersion":"0.4.0"', "1.0.0"),
        (b'{"cniVersion" "0.4.0"}', "0.4.0"),
    ],
)  # fmt: skip
def test_the_version_is_taken_from_the_configuration_and_nothing_else(
    forwarder: Forwarder, stdin: bytes, version: str
) -> None:
    assert forwarder.run(stdin=stdin).error["cniVersion"] == version


# The spool


def test_a_spool_that_cannot_be_made_fails_the_del(forwarder: Forwarder) -> None:
    (forwarder.place / "lib").write_text("in the way")
    said = forwarder.run("DEL")
    assert (said.code, said.error["code"]) == (1, 5)
    assert "DEL cannot be kept in" in said.error["msg"]


def test_a_link_in_place_of_the_spool_is_not_followed(forwarder: Forwarder) -> None:
    elsewhere = forwarder.place / "elsewhere"
    elsewhere.mkdir()
    forwarder.spool.parent.mkdir()
    forwarder.spool.symlink_to(elsewhere)
    assert forwarder.run("DEL").error["code"] == 5
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_a_spool_others_may_write_is_not_used(forwarder: Forwarder, mode: int) -> None:
    forwarder.spool.mkdir(parents=True)
    forwarder.spool.chmod(mode)
    said = forwarder.run("DEL")
    assert (said.code, "not permitted" in said.error["msg"]) == (1, True)
    assert forwarder.kept() == []


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a directory away")
def test_a_spool_of_somebody_else_is_not_used(forwarder: Forwarder) -> None:
    forwarder.spool.mkdir(parents=True, mode=0o700)
    os.chown(forwarder.spool, 65534, 65534)
    assert forwarder.run("DEL").code == 1
    assert forwarder.kept() == []


def test_a_full_disk_leaves_nothing_half_written(forwarder: Forwarder) -> None:
    """RLIMIT_FSIZE is a disk with 100 bytes left; its SIGXFSZ is ignored, as EFBIG remains."""
    argv = ["prlimit", "--fsize=100", "env", "--ignore-signal=XFSZ", str(forwarder.program)]
    if not shutil.which("prlimit"):
        pytest.skip("needs prlimit")
    ran = subprocess.run(argv, input=STDIN, env=forwarder.env() | ENV | {"CNI_COMMAND": "DEL"},
                         capture_output=True, timeout=PATIENCE, check=False)  # fmt: skip
    assert (ran.returncode, json.loads(ran.stdout)["code"]) == (1, 5)
    assert forwarder.kept() == []


def test_a_del_is_on_disk_before_it_succeeds(forwarder: Forwarder) -> None:
    """The file, then its name, then the directory that has the name."""
    log = forwarder.place / "calls"
    argv = ["strace", "-o", str(log), "-e", "trace=fsync,rename,renameat,renameat2",
            str(forwarder.program)]  # fmt: skip
    if not shutil.which("strace"):
        pytest.skip("needs strace")
    ran = subprocess.run(argv, input=STDIN, env=forwarder.env() | ENV | {"CNI_COMMAND": "DEL"},
                         capture_output=True, timeout=PATIENCE, check=False)  # fmt: skip
    if b"ptrace" in ran.stderr:
        pytest.skip("may not trace here")
    calls = [line.partition("(")[0] for line in log.read_text().splitlines() if "= 0" in line]
    assert [call[:6] for call in calls[-3:]] == ["fsync", "rename", "fsync"]
    assert len(forwarder.kept()) == 1


def test_what_it_keeps_the_service_does(forwarder: Forwarder) -> None:
    assert forwarder.run("DEL").code == 0
    asked: list[request.Request] = []

    def handle(one: request.Request) -> dict[str, Any]:
        asked.append(one)
        return {}

    uids = frozenset({os.geteuid()})
    with Server(forwarder.socket, handle, spool=forwarder.spool, uids=uids):
        assert forwarder.run("ADD").code == 0
    assert [one.command for one in asked] == ["DEL", "ADD"]
    assert forwarder.kept() == []


def test_without_a_stdout_it_does_not_answer_into_something_else(forwarder: Forwarder) -> None:
    """The next descriptor it opens would be number 1."""
    with Peer(forwarder.socket, wire.answer(0, b"secret")) as peer:
        pid = os.posix_spawn(
            forwarder.program, [str(forwarder.program)], forwarder.env() | ENV,
            file_actions=[(os.POSIX_SPAWN_CLOSE, 1), (os.POSIX_SPAWN_OPEN, 0, "/dev/null", 0, 0)],
        )  # fmt: skip
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 2
    assert peer.heard == []


TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)


@needs_compiler
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    cni=st.dictionaries(st.sampled_from(["CNI_ARGS", "CNI_IFNAME", "CNI_X"]), TEXT),
    stdin=st.binary(max_size=40) | TEXT.map(lambda text: b'{"cniVersion":"' + text.encode()),
    answer=st.binary(max_size=12)
    | st.builds(wire.answer, st.integers(0, 300), st.binary(max_size=9)),
)  # fmt: skip
def test_the_twin_does_the_same(
    programs: dict[str, Path], cni: dict[str, str], stdin: bytes, answer: bytes
) -> None:
    seen = []
    for program in (programs["c"], programs["python"]):
        with short_place() as place:
            one = Forwarder(program, place)
            with Peer(one.socket, answer) as peer:
                said = one.run("ADD", stdin, cni=cni)
            ended = one.run("DEL", stdin, cni=cni)
            kept = [wire.unframe(path.read_bytes()) for path in one.kept()]
            text = said.stdout.replace(str(place).encode(), b"")
            seen.append((said.code, text, [wire.unframe(h) for h in peer.heard], ended, kept))
    assert seen[0] == seen[1]
