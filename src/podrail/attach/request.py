"""A CNI request: environment and stdin, read strictly before anything acts on them.

A DEL comes with what the ADD was given, also when that was refused, and comes until it succeeds. So
it is refused only where nobody could say what it is about; the rest it does without.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from podrail.attach import wire
from podrail.attach.result import CURRENT, VERSIONS, CniError, Code, short

ADD, DEL, CHECK, GC, STATUS, VERSION = "ADD", "DEL", "CHECK", "GC", "STATUS", "VERSION"
_SINCE = {ADD: "0.3.0", DEL: "0.3.0", CHECK: "0.4.0", GC: "1.1.0", STATUS: "1.1.0"}
_OF_ONE = (ADD, DEL, CHECK)
"""The commands about one attachment."""

# CNI spec 1.1, section 2 "Parameters" and section 1 "name"; the length is a file name's.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,254}")
# Linux net/core/dev.c:dev_valid_name, printable ASCII only; `%` would be a template to the kernel
# (dev_alloc_name).
_IFNAME = re.compile(r"[!-$&-.0-9;-~]{1,15}")
# Linux net/ipv4/devinet.c:devinet_sysctl_register refuses those two, for their place in /proc/sys.
_NO_IFNAME = (".", "..", "all", "default")
_PATH_MAX = 4095


@dataclass(frozen=True, slots=True)
class Request:
    """What a runtime asks. Names are checked; `config` is whatever JSON object came."""

    command: str
    container_id: str = ""
    netns: str = ""
    """Empty where a DEL comes after the namespace is gone."""
    ifname: str = ""
    args: Mapping[str, str] = field(default_factory=dict)
    """CNI_ARGS."""
    path: tuple[str, ...] = ()
    """CNI_PATH: where other plugins are."""
    config: Mapping[str, Any] = field(default_factory=dict)
    plugin: str = ""
    """The name the forwarder was called by."""

    @property
    def version(self) -> str:
        return str(self.config.get("cniVersion", CURRENT))

    @property
    def network(self) -> str:
        return str(self.config.get("name", ""))


def parse(frame: wire.Frame) -> Request:
    """The request in a frame, or CniError."""
    env = frame.env
    command = env.get("CNI_COMMAND", "")
    if command == VERSION:
        return Request(command, plugin=env.get(wire.NAME, ""))
    if command not in _SINCE:
        _refuse_env("CNI_COMMAND", command, ", ".join((*_SINCE, VERSION)))
    config = _config(frame.stdin)
    _version(command, config)
    _network(config)
    return Request(
        command, _container(command, env), _netns(command, env), _ifname(command, env),
        _args(command, env.get("CNI_ARGS", "")), _path(command, env.get("CNI_PATH", "")), config,
        env.get(wire.NAME, ""),
    )  # fmt: skip


def version_of(stdin: bytes) -> str:
    """The version an error is to carry, also when nothing else of the request can be read."""
    try:
        found = _config(stdin).get("cniVersion")
    except CniError:
        return CURRENT
    return found if isinstance(found, str) and found in VERSIONS else CURRENT


def _refuse_env(name: str, found: str, wanted: str) -> NoReturn:
    raise CniError(Code.INVALID_ENVIRONMENT, f"{name}: found {short(found)}, wanted {wanted}")


def _config(stdin: bytes) -> dict[str, Any]:
    try:
        found = json.loads(stdin.decode(), parse_constant=_no_constant)
    except (ValueError, RecursionError) as no:
        why = "it nests too deep" if isinstance(no, RecursionError) else str(no)
        raise CniError(
            Code.UNDECODABLE, "stdin is no JSON: see the configuration of the network", why
        ) from None
    if not isinstance(found, dict):
        raise CniError(Code.UNDECODABLE, f"stdin: found {short(found)}, wanted a JSON object")
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _version(command: str, config: Mapping[str, Any]) -> None:
    found = config.get("cniVersion")
    if not isinstance(found, str) or found not in VERSIONS:
        raise CniError(
            Code.INCOMPATIBLE_VERSION,
            f"cniVersion: found {short(found)}, wanted one of {', '.join(VERSIONS)}",
        )
    if VERSIONS.index(found) < VERSIONS.index(_SINCE[command]):
        raise CniError(
            Code.INCOMPATIBLE_VERSION,
            f"cniVersion: found {found}, but {command} exists since {_SINCE[command]}",
        )


def _network(config: Mapping[str, Any]) -> None:
    found = config.get("name")
    if not isinstance(found, str) or not _NAME.fullmatch(found):
        raise CniError(
            Code.INVALID_CONFIG,
            f"name: found {short(found)}, wanted letters, digits, `.`, `_` and `-`",
        )


def _container(command: str, env: Mapping[str, str]) -> str:
    found = env.get("CNI_CONTAINERID", "")
    if not _NAME.fullmatch(found) and (found or command in _OF_ONE):
        _refuse_env("CNI_CONTAINERID", found, "letters, digits, `.`, `_` and `-`")
    return found


def _ifname(command: str, env: Mapping[str, str]) -> str:
    found = env.get("CNI_IFNAME", "")
    good = bool(_IFNAME.fullmatch(found)) and found not in _NO_IFNAME
    if not good and (found or command in _OF_ONE):
        _refuse_env("CNI_IFNAME", found, "an interface name of at most 15 plain characters")
    return found


def _netns(command: str, env: Mapping[str, str]) -> str:
    found = env.get("CNI_NETNS", "")
    if plain_path(found):
        return found
    if command in (ADD, CHECK):
        _refuse_env("CNI_NETNS", found, "the absolute path of a network namespace")
    return ""


def plain_path(text: str) -> bool:
    """Whether it is an absolute path that goes nowhere but down."""
    bounded = text.startswith("/") and len(text) <= _PATH_MAX and text.isprintable()
    return bounded and not {".", ".."} & set(text.split("/"))


def _path(command: str, text: str) -> tuple[str, ...]:
    places = [place for place in text.split(":") if place]
    odd = [place for place in places if not plain_path(place)]
    if odd and command in (ADD, CHECK):
        _refuse_env("CNI_PATH", odd[0], "absolute directories, separated by `:`")
    return tuple(place for place in places if place not in odd)


def _args(command: str, text: str) -> dict[str, str]:
    """`K=V;K=V`."""
    args: dict[str, str] = {}
    for pair in filter(None, text.split(";")):
        key, equals, value = pair.partition("=")
        if key and equals:
            args[key] = value
        elif command in (ADD, CHECK):
            _refuse_env("CNI_ARGS", pair, "KEY=VALUE, separated by `;`")
    return args
