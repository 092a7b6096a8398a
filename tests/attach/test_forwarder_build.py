"""The forwarder compiled and placed."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from pathlib import Path

import pytest

from podrail.attach import result, wire
from podrail.attach.forwarder import build, install
from podrail.model.errors import Refused
from tests.attach.forwarding import CUT, Forwarder, needs_compiler, nobody_serves
from tests.attach.sockets import ENV, PATIENCE, Peer, short_place


@needs_compiler
def test_it_is_small_and_static(tmp_path: Path) -> None:
    assert len(build.SOURCE.read_text(encoding="utf-8").splitlines()) <= 200
    built = build.build(tmp_path / "deep" / "podrail")
    assert str(built).endswith(f": static ({built.compiler})")
    assert os.access(built.path, os.X_OK)
    assert os.listdir(built.path.parent) == ["podrail"]
    assert b"PODRAIL_CNI_SOCKET" not in built.path.read_bytes()


@needs_compiler
def test_it_touches_no_memory_but_its_own(tmp_path: Path) -> None:
    """The answers that nobody should give, under the compiler's sanitizers."""
    out = tmp_path / "checked"
    argv = [str(build.compiler()), "-std=c11", "-g", "-fsanitize=address,undefined", "-o", str(out),
            "-fno-sanitize-recover=all", "-DPODRAIL_TESTING", str(build.SOURCE)]  # fmt: skip
    if subprocess.run(argv, capture_output=True, check=False).returncode:
        pytest.skip("this compiler has no sanitizers")
    with short_place() as place:
        checked = Forwarder(out, place)
        used = len(wire.frame(ENV | {wire.NAME: "checked", "CNI_X": ""}, b"").partition(b"\n")[2])
        full = {"CNI_X": "x" * (wire.ENV_MAX - used)}
        assert checked.run(stdin=b"x" * (wire.STDIN_MAX + 1), cni=full).error["code"] == 7
        assert checked.run(stdin=b"x" * wire.STDIN_MAX, cni=full).error["code"] == 11
        assert checked.run("DEL").code == 0
        for says in CUT:
            checked.socket.unlink(missing_ok=True)
            with Peer(checked.socket, says.values[0]):  # type: ignore[arg-type]
                assert checked.run("ADD", b'"cniVersion":"' + b"1" * wire.STDIN_MAX).code == 1
                assert checked.run("ADD").error["code"] == 11


@needs_compiler
@nobody_serves
def test_what_is_installed_listens_to_no_environment(tmp_path: Path) -> None:
    compiled = build.build(tmp_path / "podrail").path
    for program in (compiled, None):
        install.install(tmp_path / "bin", program)
        with short_place() as place, Peer(place / "cni.sock", wire.answer(0, b"")) as peer:
            said = Forwarder(tmp_path / "bin" / "sriov", place).run("ADD")
            assert (said.error["code"], wire.SOCKET in said.error["msg"]) == (11, True)
            assert peer.heard == []


def fake_compiler(place: Path, text: str) -> str:
    path = place / "fakecc"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


@needs_compiler
def test_where_it_cannot_be_static_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = build.compiler()
    no = f'case "$*" in *-static*) echo no libc.a >&2; exit 1;; esac; exec {real} "$@"'
    monkeypatch.setenv("CC", fake_compiler(tmp_path, no))
    assert build.main([str(tmp_path / "out")]) == 0
    assert "dynamic: no libc.a" in capsys.readouterr().out
    ran = subprocess.run([tmp_path / "out"], env={"CNI_COMMAND": "VERSION"}, capture_output=True,
                         check=True)  # fmt: skip
    assert json.loads(ran.stdout) == result.versions()


def test_without_a_compiler_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    assert build.main([str(tmp_path / "out")]) == 1
    assert "found none of" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_compiler_that_fails_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", fake_compiler(tmp_path, "echo broken >&2; exit 1"))
    (tmp_path / "out").write_text("before")
    with pytest.raises(build.NoCompiler, match="broken"):
        build.build(tmp_path / "out")
    assert (tmp_path / "out").read_text() == "before"


def test_the_twin_is_installed_under_every_name(tmp_path: Path) -> None:
    (tmp_path / "sriov").write_text("another's")
    done = install.install(tmp_path)
    assert {one.path.name: one.replaced for one in done} == {
        "podrail": False, "sriov": True, "ib-sriov": False, "rdma": False,
    }  # fmt: skip
    assert sorted(os.listdir(tmp_path)) == sorted(install.NAMES)
    for name in install.NAMES:
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o755
        ran = subprocess.run([tmp_path / name], env={"CNI_COMMAND": "VERSION"}, check=True,
                             capture_output=True)  # fmt: skip
        assert json.loads(ran.stdout) == result.versions()


@needs_compiler
@nobody_serves
def test_a_running_one_is_replaced(tmp_path: Path) -> None:
    program = build.build(tmp_path / "build" / "podrail").path
    install.install(tmp_path, program)
    with subprocess.Popen([tmp_path / "sriov"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          env=ENV) as running:  # fmt: skip
        assert all(one.replaced for one in install.install(tmp_path, program))
        running.communicate(b"", timeout=PATIENCE)
    assert running.returncode == 1
    assert (tmp_path / "rdma").read_bytes() == program.read_bytes()


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("keep")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "sriov").symlink_to(tmp_path / "precious")
    install.install(tmp_path / "bin")
    assert (tmp_path / "precious").read_text() == "keep"
    assert not (tmp_path / "bin" / "sriov").is_symlink()


def test_where_it_cannot_be_installed_it_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert install.main([str(tmp_path / "file" / "bin")]) == 5
    assert "bin_dir" in capsys.readouterr().err
    with pytest.raises(Refused, match="is no program"):
        install.install(tmp_path / "bin", tmp_path / "file")
    with pytest.raises(Refused, match="cannot be read"):
        install.install(tmp_path / "bin", tmp_path / "none")
    assert not (tmp_path / "bin").exists()


def test_a_half_install_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "podrail").write_text("before")
    written: list[int] = []

    def fills_up(path: Path, data: bytes) -> None:
        if written:
            raise OSError(28, "No space left on device")
        written.append(path.write_bytes(data))

    monkeypatch.setattr(install, "_write", fills_up)
    with pytest.raises(Refused, match="No space left"):
        install.install(tmp_path)
    assert os.listdir(tmp_path) == ["podrail"]
    assert (tmp_path / "podrail").read_text() == "before"
