"""Plugins that are run: small ones made here, and the installed host-local where there is one."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from podrail.attach.ipam.delegate import Delegated, delegate, find
from podrail.attach.ipam.facts import Facts, facts_of
from podrail.attach.ipam.leases import LocalAddresses
from podrail.attach.request import Request
from podrail.attach.result import Address, CniError, Code, Route
from tests.attach.ipam.made import POD, facts

_CONFIG = {"cniVersion": "1.0.0", "name": "rail0", "ipam": {"type": "host-local"}}
_INSTALLED = shutil.which("host-local", path="/opt/cni/bin:/usr/lib/cni:/usr/libexec/cni")


def _plugin(folder: Path, body: str, name: str = "host-local") -> dict[str, str]:
    """A plugin that runs Python; and the environment that finds it."""
    path = folder / name
    path.write_text(f"#!{sys.executable}\nimport json, os, sys\n{body}\n")
    path.chmod(0o755)
    return {"CNI_PATH": str(folder), "CNI_CONTAINERID": "c", "CNI_IFNAME": "net1"}


def _run(environment: dict[str, str], command: str = "ADD", **more: Any) -> dict[str, Any]:
    return delegate(command, "host-local", _CONFIG, environment, **more)


def test_it_gets_the_environment_and_the_configuration(tmp_path: Path) -> None:
    environment = _plugin(
        tmp_path, "print(json.dumps({'stdin': json.load(sys.stdin), 'env': dict(os.environ)}))"
    )
    found = _run({**environment, "CNI_COMMAND": "ADD", "SECRET": "x", "LD_PRELOAD": "y"}, "CHECK")
    assert found["stdin"] == _CONFIG
    assert found["env"]["CNI_COMMAND"] == "CHECK"
    assert found["env"]["CNI_CONTAINERID"] == "c"
    assert not {"SECRET", "LD_PRELOAD", "PATH"} & found["env"].keys()


def test_the_result_is_taken_over(tmp_path: Path) -> None:
    result = {
        "cniVersion": "0.3.1", "interfaces": [{"name": "x"}],
        "ips": [{"version": "4", "address": "10.0.0.5/24", "gateway": "10.0.0.1", "interface": 0}],
        "routes": [{"dst": "0.0.0.0/0"}],
    }  # fmt: skip
    environment = _plugin(tmp_path, f"print(json.dumps({result!r}))")
    plan = Delegated("host-local", facts(environment=environment))
    with LocalAddresses(str(tmp_path / "leases.db")) as addresses:
        found = plan.add(addresses)
        plan.check(addresses)
        plan.remove(addresses)
        assert addresses.leases() == []
    assert found.ips == (Address("10.0.0.5/24", "10.0.0.1", None),)
    assert (found.routes, found.interfaces) == ((Route("0.0.0.0/0"),), ())


def test_its_error_is_passed_on_with_its_code(tmp_path: Path) -> None:
    said = {"code": 11, "msg": "no lease yet", "details": "server silent"}
    environment = _plugin(
        tmp_path, f"print(json.dumps({said!r})); print('on stderr', file=sys.stderr); sys.exit(1)"
    )
    with pytest.raises(CniError) as no:
        _run(environment)
    assert (no.value.code, no.value.msg) == (11, "host-local: no lease yet")
    assert no.value.details == "server silent; on stderr"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        pytest.param("sys.exit(3)", Code.INTERNAL, id="silent"),
        pytest.param("print('panic'); sys.exit(2)", Code.INTERNAL, id="no-json-error"),
        pytest.param('print(\'{"code": true, "msg": 5}\'); sys.exit(1)', Code.INTERNAL, id="odd"),
        pytest.param("os.kill(os.getpid(), 9)", Code.INTERNAL, id="killed"),
        pytest.param("print('hello')", Code.UNDECODABLE, id="no-json"),
        pytest.param("print('[1]')", Code.UNDECODABLE, id="list"),
        pytest.param("print('[' * 100000)", Code.UNDECODABLE, id="deep"),
        pytest.param("print('{}', ' ' * (1 << 21))", Code.UNDECODABLE, id="huge"),
        pytest.param('print(\'{"ips": [{"address": "x"}]}\')', Code.UNDECODABLE, id="bad-ip"),
        pytest.param("print('{\"ips\": []}')", Code.UNDECODABLE, id="no-ip"),
        pytest.param("", Code.UNDECODABLE, id="empty"),
    ],
)
def test_answers_that_are_none(tmp_path: Path, body: str, code: Code) -> None:
    environment = _plugin(tmp_path, body)
    with (
        LocalAddresses(str(tmp_path / "leases.db")) as addresses,
        pytest.raises(CniError, match="host-local") as no,
    ):
        Delegated("host-local", facts(environment=environment)).add(addresses)
    assert no.value.code == code


def test_a_plugin_that_does_not_answer_is_ended_with_its_children(tmp_path: Path) -> None:
    """The child keeps the pipe open, and would keep us waiting; the lock tells when it is gone."""
    lock = tmp_path / "lock"
    environment = _plugin(
        tmp_path,
        f"import fcntl\nheld = open({str(lock)!r}, 'w'); fcntl.flock(held, fcntl.LOCK_EX)\n"
        "os.fork()\nimport signal; signal.pause()",
    )
    with pytest.raises(CniError, match=r"did not answer within 1 s") as no:
        _run(environment, seconds=1)
    assert no.value.code == Code.TRY_AGAIN_LATER
    assert _comes_free(lock)


def _comes_free(lock: Path) -> bool:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            with lock.open("w") as held:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.sched_yield()
        else:
            return True
    return False


def test_no_plugin_says_where_it_looked(tmp_path: Path) -> None:
    with pytest.raises(CniError, match=f"not installed in {tmp_path}.*package") as no:
        find("host-local", str(tmp_path))
    assert no.value.code == Code.INVALID_CONFIG
    with pytest.raises(CniError, match="an empty CNI_PATH"):
        find("host-local", "")


@pytest.mark.parametrize(
    "name", ["../evil", "/bin/sh", "..", ".", "", "a/b", "a\0b", "a b", "-x", "x" * 65, "a\n"]
)
def test_names_with_tricks_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(CniError, match="without any path"):
        find(name, str(tmp_path))


@pytest.mark.parametrize("path", ["bin", "/opt/../tmp", "./x", "/ok:relative", "/a\0b"])
def test_paths_with_tricks_are_refused(path: str) -> None:
    with pytest.raises(CniError, match="absolute directories"):
        find("host-local", path)


def test_what_is_no_program_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "one" / "host-local").mkdir(parents=True)
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "host-local").write_text("not executable")
    (tmp_path / "three").mkdir()
    _plugin(tmp_path / "three", "print('{}')")
    places = [str(tmp_path / name) for name in ("one", "two", "three")]
    assert find("host-local", ":".join(["", *places])) == f"{places[2]}/host-local"


def test_a_program_that_cannot_be_run(tmp_path: Path) -> None:
    path = tmp_path / "host-local"
    path.write_bytes(b"\x7fELF and then nothing")
    path.chmod(0o755)
    with pytest.raises(CniError, match="cannot be run") as no:
        _run({"CNI_PATH": str(tmp_path)})
    assert no.value.code == Code.IO_FAILURE


def test_a_command_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(CniError, match="CNI_COMMAND"):
        _run(_plugin(tmp_path, ""), "RUN")


# --- the real one -----------------------------------------------------------------------------


def _request(command: str, folder: Path) -> Facts:
    assert _INSTALLED
    ipam = {"type": "host-local", "subnet": "10.0.0.0/29", "dataDir": str(folder)}
    config = {"cniVersion": "1.0.0", "name": "rail0", "type": "podrail", "ipam": ipam}
    request = Request(
        command, "c1", "/proc/self/ns/net", "net1", {"IgnoreUnknown": "1", **POD},
        (str(Path(_INSTALLED).parent),), config,
    )  # fmt: skip
    return facts_of(request)


@pytest.mark.skipif(_INSTALLED is None, reason="the host-local plugin is not installed")
def test_host_local_itself(tmp_path: Path) -> None:
    with LocalAddresses(str(tmp_path / "leases.db")) as addresses:
        found = Delegated("host-local", _request("ADD", tmp_path)).add(addresses)
        assert found.ips == (Address("10.0.0.2/29", "10.0.0.1"),)
        with pytest.raises(CniError, match=r"host-local: .*duplicate"):
            Delegated("host-local", _request("ADD", tmp_path)).add(addresses)
        Delegated("host-local", _request("DEL", tmp_path)).remove(addresses)
        Delegated("host-local", _request("DEL", tmp_path)).remove(addresses)
        assert not (tmp_path / "rail0" / "10.0.0.2").exists()


def test_json_numbers_pass_unchanged(tmp_path: Path) -> None:
    environment = _plugin(tmp_path, "print(json.dumps(json.load(sys.stdin)))")
    config = {"n": 2**53 + 1, "text": "ü\u2028", "nested": [{"a": None}]}
    assert delegate("ADD", "host-local", config, environment) == json.loads(json.dumps(config))
