"""CNI requests, friendly and hostile."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podrail.attach import request, wire
from podrail.attach.request import Request
from podrail.attach.result import CURRENT, VERSIONS, CniError, Code

CONFIG: dict[str, Any] = {"cniVersion": "1.1.0", "name": "rails", "type": "sriov"}
ENV = {
    "CNI_COMMAND": "ADD", "CNI_CONTAINERID": "c0ffee", "CNI_NETNS": "/run/netns/a",
    "CNI_IFNAME": "net1", "CNI_ARGS": "IgnoreUnknown=1;K8S_POD_UID=u-1", "CNI_PATH": "/opt/cni/bin",
    "PODRAIL_NAME": "sriov",
}  # fmt: skip


def ask(config: object = None, **env: str) -> Request:
    stdin = config if isinstance(config, bytes) else json.dumps(config or CONFIG).encode()
    return request.parse(wire.Frame(ENV | env, stdin))


def refused(config: object = None, **env: str) -> CniError:
    with pytest.raises(CniError) as no:
        ask(config, **env)
    return no.value


def test_an_add() -> None:
    assert ask() == Request(
        "ADD", "c0ffee", "/run/netns/a", "net1", {"IgnoreUnknown": "1", "K8S_POD_UID": "u-1"},
        ("/opt/cni/bin",), CONFIG, "sriov",
    )  # fmt: skip
    assert (ask().version, ask().network) == ("1.1.0", "rails")


def test_a_del_after_the_namespace_is_gone() -> None:
    assert ask(CNI_COMMAND="DEL", CNI_NETNS="").netns == ""


@pytest.mark.parametrize("command", ["GC", "STATUS"])
def test_commands_about_no_container_need_none(command: str) -> None:
    found = request.parse(wire.Frame({"CNI_COMMAND": command}, json.dumps(CONFIG).encode()))
    assert (found.command, found.container_id, found.ifname) == (command, "", "")


def test_version_needs_nothing_at_all() -> None:
    assert request.parse(wire.Frame({"CNI_COMMAND": "VERSION"}, b"")).command == "VERSION"


@pytest.mark.parametrize("command", ["", "add", "ADD ", "EXEC", "ADD\n"])
def test_another_command_is_refused(command: str) -> None:
    error = refused(CNI_COMMAND=command)
    assert error.code == Code.INVALID_ENVIRONMENT
    assert "wanted ADD, DEL, CHECK, GC, STATUS, VERSION" in error.msg


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "../../etc", "a/b", "/abs", "-x", "_x", "a b", "a\n", "a\0b", "ä",
     "a" * 256, "a;b"],
)  # fmt: skip
@pytest.mark.parametrize("command", ["ADD", "DEL", "CHECK"])
def test_a_container_id_that_is_none_is_refused(name: str, command: str) -> None:
    error = refused(CNI_CONTAINERID=name, CNI_COMMAND=command)
    assert error.code == Code.INVALID_ENVIRONMENT
    assert error.msg.startswith("CNI_CONTAINERID: found")


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "a/b", "a:b", "a b", "a\tb", "a\n", "n\0", "net%d", "ä", "x" * 16, "all",
     "default"],
)  # fmt: skip
@pytest.mark.parametrize("command", ["ADD", "DEL", "CHECK"])
def test_an_interface_name_the_kernel_would_not_take_is_refused(name: str, command: str) -> None:
    error = refused(CNI_IFNAME=name, CNI_COMMAND=command)
    assert error.code == Code.INVALID_ENVIRONMENT
    assert error.msg.startswith("CNI_IFNAME: found")


@pytest.mark.parametrize("name", ["net1", "eth0.100", "x" * 15, "a@b", "~", "0"])
def test_an_interface_name_the_kernel_takes(name: str) -> None:
    assert ask(CNI_IFNAME=name).ifname == name


def test_a_name_of_a_gc_is_checked_where_it_is_given() -> None:
    assert refused(CNI_COMMAND="GC", CNI_IFNAME="a/b").code == Code.INVALID_ENVIRONMENT


ODD_PATHS = ["", "run/netns/a", "/run/../etc/x", "/run/./x", "/a\0b", "/a\nb", "/" + "x" * 4096]


@pytest.mark.parametrize("path", ODD_PATHS)
def test_a_namespace_that_is_no_plain_path(path: str) -> None:
    for command in ("ADD", "CHECK"):
        assert refused(CNI_NETNS=path, CNI_COMMAND=command).msg.startswith("CNI_NETNS: found")
    assert ask(CNI_NETNS=path, CNI_COMMAND="DEL").netns == ""


def test_a_path_that_is_no_plain_one() -> None:
    assert ask(CNI_PATH="/a:/b::").path == ("/a", "/b")
    assert refused(CNI_PATH="/a:../b").msg.startswith("CNI_PATH: found '../b'")
    assert ask(CNI_PATH="/a:../b", CNI_COMMAND="DEL").path == ("/a",)


def test_arguments_that_are_no_pairs() -> None:
    assert ask(CNI_ARGS="A=1;B==;C=").args == {"A": "1", "B": "=", "C": ""}
    assert refused(CNI_ARGS="A=1;B").msg.startswith("CNI_ARGS: found 'B'")
    assert refused(CNI_ARGS="=1").code == Code.INVALID_ENVIRONMENT
    assert ask(CNI_ARGS="A=1;B", CNI_COMMAND="DEL").args == {"A": "1"}


@pytest.mark.parametrize(
    "stdin",
    [
        pytest.param(b"", id="empty"), pytest.param(b"{", id="cut"),
        pytest.param(b"[]", id="a list"), pytest.param(b'"x"', id="a string"),
        pytest.param(b"\xff\xfe{}", id="not UTF-8"), pytest.param(b"\0", id="NUL"),
        pytest.param(b'{"a": NaN}', id="NaN"), pytest.param(b'{"a": -Infinity}', id="infinite"),
        pytest.param(b"[" * 200_000, id="deep"),
        pytest.param(b'{"a":' * 100_000 + b"1" + b"}" * 100_000, id="deep and whole"),
        pytest.param(b'{"a": ' + b"9" * 10_000 + b"}", id="a long number"),
    ],
)  # fmt: skip
def test_stdin_that_is_no_object_is_refused(stdin: bytes) -> None:
    assert refused(stdin).code == Code.UNDECODABLE
    assert request.version_of(stdin) == CURRENT


@pytest.mark.parametrize("found", [None, 1, "", "0.2.0", "1.1", "2.0.0", "1.1.0\n", ["1.1.0"]])
def test_a_version_we_do_not_speak(found: object) -> None:
    error = refused(CONFIG | {"cniVersion": found})
    assert error.code == Code.INCOMPATIBLE_VERSION
    assert "0.3.0" in error.msg


@pytest.mark.parametrize(
    ("command", "since"), [("ADD", 0), ("DEL", 0), ("CHECK", 2), ("GC", 4), ("STATUS", 4)]
)
def test_commands_exist_since_their_version(command: str, since: int) -> None:
    for at, version in enumerate(VERSIONS):
        config = CONFIG | {"cniVersion": version}
        if at < since:
            error = refused(config, CNI_COMMAND=command)
            assert error.code == Code.INCOMPATIBLE_VERSION
        else:
            assert ask(config, CNI_COMMAND=command).version == version


@pytest.mark.parametrize("name", [None, 1, "", "../x", "a/b", "a b", "\ud800", {}])
def test_a_network_without_a_proper_name(name: object) -> None:
    assert refused(CONFIG | {"name": name}).code == Code.INVALID_CONFIG


def test_the_version_of_an_error_is_the_configuration_s() -> None:
    assert request.version_of(b'{"cniVersion": "0.4.0"}') == "0.4.0"
    assert request.version_of(b'{"cniVersion": "9.9.9"}') == CURRENT
    assert request.version_of(b'{"cniVersion": []}') == CURRENT


TEXT = st.text(max_size=20)


@given(
    st.fixed_dictionaries({"CNI_COMMAND": st.sampled_from(["ADD", "DEL", "CHECK", "GC", "STATUS"])},
                          optional=dict.fromkeys(list(ENV)[1:], TEXT)),
    st.binary(max_size=60) | TEXT.map(lambda text: json.dumps(CONFIG | {"x": text}).encode()),
)  # fmt: skip
def test_whatever_is_asked_is_a_request_or_an_error_of_cni(
    env: dict[str, str], stdin: bytes
) -> None:
    try:
        found = request.parse(wire.Frame(env, stdin))
    except CniError:
        return
    assert "/" not in found.container_id + found.ifname
    assert len(found.ifname.encode()) < 16
    assert found.netns == "" or found.netns.startswith("/")
