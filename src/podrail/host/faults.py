"""Faults: what is changed on a twin or a recorded host before any verb looks.

A fault file is YAML or JSON::

    id: peermem-missing
    twin: hgx-h100
    set:
      - {path: "module:nvidia_peermem", value: null}
    expect: {fails: [gpu.peermem], root: gpu.peermem}

`path` is a file (`/sys/…`), `module:NAME`, `program:ARGV` or `object:KIND/NS/NAME#field`; `value`
is its new content, null if it is gone. On a twin, what follows from a change follows. A twin can
also be told how a card's firmware is set (`firmware:0000:9c:00.0#SRIOV_EN`, a number) and which
writes the kernel refuses (`write:/sys`, the name of an errno such as EROFS; whatever is below the
path meets it too).
"""

from __future__ import annotations

import errno
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from podrail.host.seam import Host, Ran
from podrail.host.twin import TwinHost
from podrail.host.twins import consequences, modules
from podrail.host.twins.programs import mstconfig
from podrail.model.errors import UsageError

_MODULE = re.compile(r"[A-Za-z0-9_-]+")
_SETTING = re.compile(r"([0-9a-f]{4}(?::[0-9a-f]{2}){2}\.[0-7])#([A-Za-z0-9_]+)")
_TWIN_ONLY = ("write:", "firmware:")
_KINDS = ("module:", "program:", "object:", *_TWIN_ONLY)
FORMS = (
    "a path such as /sys/…, module:NAME, program:ARGV, object:KIND/NS/NAME#field, write:PATH or "
    "firmware:PCI#KEY"
)


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that is different."""

    path: str
    value: Any


@dataclass(frozen=True, slots=True)
class Expect:
    """What a diagnosis should find."""

    fails: tuple[str, ...] = ()
    root: str | None = None


@dataclass(frozen=True, slots=True)
class Fault:
    """A named set of changes."""

    id: str
    changes: tuple[Change, ...]
    twin: str | None = None
    expect: Expect = Expect()


@runtime_checkable
class Changeable(Host, Protocol):
    """A host that is data: a twin or a record."""

    objects: dict[str, Any]
    """Objects of the cluster, kept aside for whoever knows clusters."""

    def put(self, path: str, content: str) -> None:
        """Make or replace a file."""

    def remove(self, path: str) -> None:
        """Take a file or a directory away."""

    def put_program(self, argv: Sequence[str], program: Ran) -> None:
        """What a program answers to this argv."""

    def remove_program(self, argv: Sequence[str]) -> None:
        """Uninstall a program, or only the form of it that starts so."""


# --- reading ----------------------------------------------------------------------------------


def load(path: str) -> Fault:
    """Read a fault file."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as no:
        raise UsageError(f"cannot read the fault file {path}: {no}") from no
    return parse(text, path)


def parse(text: str, source: str) -> Fault:
    """A fault from YAML or JSON; every error names the file and the key."""
    import yaml

    try:
        raw = yaml.safe_load(text)
    except yaml.YAMLError as no:
        raise UsageError(f"{source}: not YAML or JSON: {no}") from no
    top = _mapping(raw, source, ("id", "twin", "set", "expect"), ("id", "set"))
    expect = _mapping(top.get("expect") or {}, f"{source}: expect", ("fails", "root"), ())
    changes = _list(top["set"], f"{source}: set")
    return Fault(
        id=_text(top["id"], f"{source}: id"),
        twin=None if top.get("twin") is None else _text(top["twin"], f"{source}: twin"),
        changes=tuple(_change(c, f"{source}: set[{i}]") for i, c in enumerate(changes)),
        expect=Expect(
            tuple(_text(f, f"{source}: fails") for f in _list(expect.get("fails", []), source, 0)),
            None if expect.get("root") is None else _text(expect["root"], f"{source}: root"),
        ),
    )


def _mapping(
    raw: Any, where: str, allowed: Sequence[str], required: Sequence[str]
) -> Mapping[str, Any]:
    if not isinstance(raw, dict):
        raise UsageError(f"{where}: found {type(raw).__name__}, wanted a mapping")
    for key in raw:
        if key not in allowed:
            raise UsageError(f"{where}: unknown key {key!r}; there are {', '.join(allowed)}")
    for key in required:
        if key not in raw:
            raise UsageError(f"{where}: {key!r} is missing")
    return raw


def _list(raw: Any, where: str, least: int = 1) -> list[Any]:
    if not isinstance(raw, list) or len(raw) < least:
        raise UsageError(f"{where}: wanted a list{' with at least one entry' if least else ''}")
    return raw


def _text(raw: Any, where: str) -> str:
    if not isinstance(raw, str) or not raw:
        raise UsageError(f"{where}: found {raw!r}, wanted text")
    return raw


def _change(raw: Any, where: str) -> Change:
    entry = _mapping(raw, where, ("path", "value"), ("path", "value"))
    path = _text(entry["path"], f"{where}.path")
    if not path.startswith(("/", *_KINDS)):
        raise UsageError(f"{where}: path {path!r} is none of {FORMS}")
    kind, _, name = path.partition(":") if path[0] != "/" else ("file", "", path)
    if not name.strip("/ "):
        raise UsageError(f"{where}: path {path!r} names nothing")
    _check_name(kind, name, where)
    _check_value(path, entry["value"], where)
    return Change(path, entry["value"])


def _check_name(kind: str, name: str, where: str) -> None:
    if kind == "module" and not _MODULE.fullmatch(name):
        raise UsageError(f"{where}: {name!r} is not the name of a module, such as mlx5_core")
    if kind == "write" and not name.startswith("/"):
        raise UsageError(f"{where}: write:{name} is no absolute path, such as write:/sys")
    if kind == "firmware" and not _SETTING.fullmatch(name):
        raise UsageError(
            f"{where}: firmware:{name} names no setting of a card, such as "
            "firmware:0000:9c:00.0#SRIOV_EN"
        )
    if kind == "program":
        try:
            shlex.split(name)
        except ValueError as no:
            raise UsageError(f"{where}: program:{name} is not a command line: {no}") from no


def _check_answer(answer: Mapping[str, Any], where: str) -> None:
    """What a program is to answer."""
    for key, value in answer.items():
        kind, wanted = (int, "a number") if key == "rc" else (str, "text")
        if not isinstance(value, kind) or isinstance(value, bool):
            raise UsageError(f"{where}.{key}: found {value!r}, wanted {wanted}")


def _check_value(path: str, value: Any, where: str) -> None:
    if path.startswith("object:") or value is None:
        return
    if path.startswith("write:") and value not in errno.errorcode.values():
        raise UsageError(f"{where}: value is {value!r}, wanted the name of an errno such as EROFS")
    if path.startswith("firmware:") and (isinstance(value, bool) or not isinstance(value, int)):
        raise UsageError(f"{where}: value is {value!r}, wanted a number such as 0 or 1, or null")
    if path.startswith("program:") and isinstance(value, dict):
        where = f"{where}.value"
        _check_answer(_mapping(value, where, ("rc", "stdout", "stderr"), ()), where)
    elif isinstance(value, bool) or not isinstance(value, str | int):
        raise UsageError(f"{where}: value is {value!r}, wanted text, a number or null")


# --- applying ---------------------------------------------------------------------------------


def apply(host: Host, fault: Fault) -> None:
    """Change a twin or a recorded host."""
    if not isinstance(host, Changeable):
        raise UsageError(
            f"fault {fault.id!r} cannot change the host {host.label}: faults are for twins and "
            "recorded hosts; use --host twin:NAME or --host FILE"
        )
    if fault.twin and isinstance(host, TwinHost) and host.label != f"twin:{fault.twin}":
        raise UsageError(
            f"fault {fault.id!r} is for twin:{fault.twin} and the host is {host.label}; "
            f"use --host twin:{fault.twin}"
        )
    for change in fault.changes:
        _apply(host, change)


def _apply(host: Changeable, change: Change) -> None:
    kind, _, name = change.path.partition(":")
    if change.path.startswith("/"):
        _file(host, change.path, change.value)
    elif kind == "module":
        _module(host, name, change.value)
    elif kind == "program":
        _program(host, shlex.split(name), change.value)
    elif change.path.startswith(_TWIN_ONLY):
        _twin(host, kind, name, change.value)
    else:
        host.objects[name] = change.value


def _file(host: Changeable, path: str, value: Any) -> None:
    if isinstance(host, TwinHost):
        consequences.change(host, path, None if value is None else str(value))
    elif value is None:
        host.remove(path)
    else:
        host.put(path, line(path, str(value)))


def _twin(host: Changeable, kind: str, name: str, value: Any) -> None:
    if not isinstance(host, TwinHost):
        raise UsageError(
            f"{kind}:{name} cannot be changed on {host.label}: nothing can be written to a record; "
            "use --host twin:NAME"
        )
    if kind == "write":
        consequences.refuse(host, name, None if value is None else getattr(errno, value))
        return
    address, key = name.split("#")
    function = host.functions.get(address)
    if function is None or function.spec.vendor != mstconfig.MELLANOX:
        raise UsageError(f"firmware:{name}: {host.label} has no card of NVIDIA at {address}")
    mstconfig.change(host, address, key, value)


def line(path: str, text: str) -> str:
    """Attributes of sysfs and procfs end with a newline."""
    return f"{text}\n" if path.startswith(("/sys/", "/proc/")) and text[-1:] != "\n" else text


def _module(host: Changeable, name: str, value: Any) -> None:
    lines = _loaded(host, name)
    loaded = [entry for entry in lines if entry.split(" ", 1)[0] == name]
    known = isinstance(host, TwinHost) and name in host.modules
    if value is None and not loaded and not known:
        raise UsageError(f"module:{name} is not loaded on {host.label}, so it cannot go")
    if value is None and isinstance(host, TwinHost):
        modules.unload(host, name)
        return
    kept = [entry for entry in lines if entry not in loaded]
    if value is None:
        host.remove(f"/sys/module/{name}")
    else:
        kept.insert(0, f"{name} 65536 0 - Live 0x0000000000000000")
        host.put(f"/sys/module/{name}/version", f"{value}\n")
    host.put("/proc/modules", "".join(f"{entry}\n" for entry in kept))


def _loaded(host: Changeable, name: str) -> list[str]:
    try:
        return host.read("/proc/modules").splitlines()
    except OSError as no:
        raise UsageError(
            f"module:{name} cannot be changed on {host.label}: /proc/modules cannot be read "
            f"({no.strerror}); change modules before taking that file away"
        ) from no


def _program(host: Changeable, argv: list[str], value: Any) -> None:
    if value is None:
        host.remove_program(argv)
        return
    answer: dict[str, Any] = value if isinstance(value, dict) else {"stdout": str(value)}
    ran = Ran(tuple(argv), answer.get("rc", 0), answer.get("stdout", ""), answer.get("stderr", ""))
    host.put_program(argv, ran)
