"""Addresses from a plugin that is installed beside us: host-local, dhcp, static.

CNI spec 1.1 §4 "Plugin Delegation": looked for along CNI_PATH, run with the same environment and
the same configuration on stdin, its result or error taken over.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from podrail.attach.ipam.addresses import Addresses
from podrail.attach.ipam.facts import Facts
from podrail.attach.result import CniError, Code, Result, parse, wrong

TYPES = ("host-local", "dhcp", "static")
COMMANDS = ("ADD", "DEL", "CHECK", "GC", "STATUS")
SECONDS = {"dhcp": 75.0}
"""The dhcp daemon itself gives up on a server after a minute."""
_SECONDS = 20.0
_LARGEST = 1 << 20
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


@dataclass(frozen=True, slots=True)
class Delegated:
    """Addresses had from an installed plugin."""

    plugin: str
    facts: Facts
    notes: tuple[str, ...] = ()

    def add(self, addresses: Addresses) -> Result:
        answer = self._run("ADD")
        try:
            result = parse(answer, f"the result of {self.plugin}")
        except CniError as no:
            raise CniError(Code.UNDECODABLE, no.msg) from None
        if not result.ips:
            raise CniError(Code.UNDECODABLE, f"{self.plugin} gave no address: look at its ipam")
        # Its interfaces are not ours (the spec has it give none), and so is its numbering of them.
        ips = tuple(replace(ip, interface=None) for ip in result.ips)
        return Result(ips=ips, routes=result.routes, dns=result.dns)

    def remove(self, addresses: Addresses) -> None:
        self._run("DEL")

    def check(self, addresses: Addresses) -> None:
        self._run("CHECK")

    def _run(self, command: str) -> dict[str, Any]:
        return delegate(command, self.plugin, self.facts.config, self.facts.environment)


def delegate(
    command: str, plugin: str, config: Mapping[str, Any], environment: Mapping[str, str],
    *, seconds: float | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Run a plugin; what it wrote, or its error as a CniError."""
    if command not in COMMANDS:
        raise wrong("CNI_COMMAND", command, f"one of {', '.join(COMMANDS)}")
    path = find(plugin, environment.get("CNI_PATH", ""))
    limit = seconds or SECONDS.get(plugin, _SECONDS)
    ours = {key: value for key, value in environment.items() if key.startswith("CNI_")}
    rc, out, err = _execute(path, {**ours, "CNI_COMMAND": command}, config, limit)
    if rc != 0:
        raise _refusal(plugin, rc, out, err)
    return _decoded(plugin, out) if out.strip() else {}


def find(plugin: str, path: str) -> str:
    """The program of that name along CNI_PATH. Neither may lead anywhere else."""
    if not _NAME.fullmatch(plugin) or ".." in plugin:
        raise wrong("ipam.type", plugin, "the name of a plugin, without any path")
    places = [place for place in path.split(os.pathsep) if place]
    for place in places:
        if not os.path.isabs(place) or ".." in place.split("/") or "\0" in place:
            raise wrong("CNI_PATH", place, "absolute directories")
        found = os.path.join(place, plugin)
        if os.path.isfile(found) and os.access(found, os.X_OK):
            return found
    raise CniError(
        Code.INVALID_CONFIG,
        f"the IPAM plugin {plugin} is not installed in {', '.join(places) or 'an empty CNI_PATH'}: "
        "put it there (Debian and Ubuntu: package containernetworking-plugins), or use "
        "whereabouts, nv-ipam or static, which need no program",
    )


def _execute(
    path: str, environment: Mapping[str, str], config: Mapping[str, Any], seconds: float
) -> tuple[int, bytes, bytes]:
    try:
        child = subprocess.Popen(
            [path], env=dict(environment), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, cwd="/", start_new_session=True,
        )  # fmt: skip
    except (OSError, ValueError) as no:
        raise CniError(Code.IO_FAILURE, f"{path} cannot be run ({no}): install it anew") from no
    with child:
        try:
            out, err = child.communicate(json.dumps(config).encode(), timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            raise CniError(
                Code.TRY_AGAIN_LATER,
                f"{path} did not answer within {seconds:g} s and was ended: try again; for dhcp, "
                "see that its daemon runs and that the network has a server",
            ) from None
    return child.returncode, out, err


def _decoded(plugin: str, out: bytes) -> dict[str, Any]:
    try:
        found = json.loads(out) if len(out) <= _LARGEST else None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        text = out[:200].decode(errors="replace").strip()
        raise CniError(
            Code.UNDECODABLE, f"{plugin} answered no JSON object but {len(out)} bytes", text
        )
    return found


def _refusal(plugin: str, rc: int, out: bytes, err: bytes) -> CniError:
    """The plugin's own error, with its code."""
    said = err[-1000:].decode(errors="replace").strip()
    try:
        told = _decoded(plugin, out)
    except CniError:
        told = {}
    code, msg = told.get("code"), told.get("msg")
    if not isinstance(code, int) or isinstance(code, bool) or not isinstance(msg, str):
        return CniError(Code.INTERNAL, f"{plugin} failed (exit {rc}) and gave no reason", said)
    details = "; ".join(text for text in (str(told.get("details") or ""), said) if text)
    return CniError(code, f"{plugin}: {msg}", details)
