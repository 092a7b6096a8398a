"""Faults: what is changed on a twin or a recorded host before any verb looks.

A fault file is YAML or JSON::

    id: peermem-missing
    twin: hgx-h100
    set:
      - {path: "module:nvidia_peermem", value: null}
    expect: {fails: [gpu.peermem], root: gpu.peermem}

`path` is a file (`/sys/…`), `module:NAME`, `program:ARGV` or `object:KIND/NS/NAME#field`; `value`
is its new content, null if it is gone. On a twin, what follows from a change follows.
"""

from __future__ import annotations

import errno
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

from podrail.host.record import RecordedHost
from podrail.host.seam import Host, Ran
from podrail.model.errors import UsageError

FORMS = "a path such as /sys/…, module:NAME, program:ARGV or object:KIND/NS/NAME#field"


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


class _Changeable(Protocol):
    def put(self, path: str, content: str) -> None: ...
    def remove(self, path: str) -> None: ...
    def put_program(self, argv: Sequence[str], program: Ran) -> None: ...
    def remove_program(self, argv: Sequence[str]) -> None: ...


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
    if not path.startswith(("/", "module:", "program:", "object:")):
        raise UsageError(f"{where}: path {path!r} is none of {FORMS}")
    if not path.rpartition(":")[2].strip("/ "):
        raise UsageError(f"{where}: path {path!r} names nothing")
    _check_value(path, entry["value"], where)
    return Change(path, entry["value"])


def _check_value(path: str, value: Any, where: str) -> None:
    if path.startswith("object:") or value is None:
        return
    if path.startswith("program:") and isinstance(value, dict):
        _mapping(value, f"{where}.value", ("rc", "stdout", "stderr"), ())
    elif isinstance(value, bool) or not isinstance(value, str | int):
        raise UsageError(f"{where}: value is {value!r}, wanted text, a number or null")


# --- applying ---------------------------------------------------------------------------------


def apply(host: Host, fault: Fault) -> None:
    """Change a twin or a recorded host."""
    if not isinstance(host, RecordedHost) and not _is_twin(host):
        raise UsageError(
            f"fault {fault.id!r} cannot change the host {host.label}: faults are for twins and "
            "recorded hosts; use --host twin:NAME or --host FILE"
        )
    if fault.twin and _is_twin(host) and host.label != f"twin:{fault.twin}":
        raise UsageError(
            f"fault {fault.id!r} is for twin:{fault.twin} and the host is {host.label}; "
            f"use --host twin:{fault.twin}"
        )
    for change in fault.changes:
        _apply(host, change)


def _is_twin(host: Host) -> bool:
    return hasattr(host, "machine") and hasattr(host, "functions")


def _apply(host: Host, change: Change) -> None:
    kind, _, name = change.path.partition(":")
    if change.path.startswith("/"):
        _file(host, change.path, change.value)
    elif kind == "module":
        _module(host, name, change.value)
    elif kind == "program":
        _program(host, shlex.split(name), change.value)
    else:
        _objects(host)[name] = change.value


def _objects(host: Host) -> dict[str, Any]:
    """Objects of the cluster are kept aside for whoever knows clusters."""
    if not hasattr(host, "objects"):
        setattr(host, "objects", {})  # noqa: B010 - a recorded host has no such attribute
    return cast("dict[str, Any]", getattr(host, "objects"))  # noqa: B009


def _file(host: Host, path: str, value: Any) -> None:
    if _is_twin(host):
        from podrail.host.twin import TwinHost
        from podrail.host.twins import consequences

        consequences.change(cast(TwinHost, host), path, None if value is None else str(value))
        return
    record = cast(_Changeable, host)
    if value is None:
        record.remove(path)
    else:
        record.put(path, line(path, str(value)))


def line(path: str, text: str) -> str:
    """Attributes of sysfs and procfs end with a newline."""
    return f"{text}\n" if path.startswith(("/sys/", "/proc/")) and text[-1:] != "\n" else text


def _module(host: Host, name: str, value: Any) -> None:
    lines = host.read("/proc/modules").splitlines()
    loaded = [entry for entry in lines if entry.split(" ", 1)[0] == name]
    if value is None and not loaded:
        raise UsageError(f"module:{name} is not loaded on {host.label}, so it cannot go")
    if value is None and _is_twin(host):
        from podrail.host.twin import TwinHost
        from podrail.host.twins import modules

        modules.unload(cast(TwinHost, host), name)
        return
    changed = cast(_Changeable, host)
    kept = [entry for entry in lines if entry not in loaded]
    if value is None:
        changed.remove(f"/sys/module/{name}")
    else:
        kept.insert(0, f"{name} 65536 0 - Live 0x0000000000000000")
        changed.put(f"/sys/module/{name}/version", f"{value}\n")
    changed.put("/proc/modules", "".join(f"{entry}\n" for entry in kept))


def _program(host: Host, argv: list[str], value: Any) -> None:
    changed = cast(_Changeable, host)
    if value is None:
        changed.remove_program(argv)
        if _is_twin(host) and len(argv) > 1:
            put = cast(Callable[..., None], changed.put_program)
            put(argv, _not_installed)
    elif isinstance(value, dict):
        answer = Ran(
            tuple(argv), int(value.get("rc", 0)), value.get("stdout", ""), value.get("stderr", "")
        )
        changed.put_program(argv, answer)
    else:
        changed.put_program(argv, Ran(tuple(argv), 0, str(value)))


def _not_installed(argv: Sequence[str]) -> Ran:
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), argv[0])
