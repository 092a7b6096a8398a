"""Dump and replay: RecordingHost notes every answer of a host, RecordedHost gives them again.

A record holds what was asked and what came back, errors included, keyed by the very path or argv
that was asked. No clock value is in it, so a replay is equal byte for byte.

What never reaches a record: all of a kubeconfig but where its server is; all of the kubelet's
device checkpoint but which pod holds which devices; on the kernel's command line the value of every
key that ends with pass, password, secret, token or key, and what a URL or an iSCSI root has before
the @. All else that `discover` reads is in it as it was read: names and addresses of the machine
and its neighbours, mounts, serial numbers. Treat a record as you would a support bundle.
"""

from __future__ import annotations

import base64
import errno
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from podrail.host.seam import Host, NotRecorded, Ran, Unchanging
from podrail.model.errors import Unmeasured

SCHEMA = "podrail/record/1"

T = TypeVar("T")

_REMOVED = "REMOVED"
_KUBECONFIGS = ("kubelet.conf", "kubeconfig", ".kubeconfig", "admin.conf", "kubelet.config")
_KUBECONFIG_LINES = re.compile(
    r"^\s*(?:(?:clusters|- cluster|cluster):[ \t]*|(?:kind|apiVersion):[ \t]*[\w./]+[ \t]*"
    r"|(?:- )?server:[ \t]*\S+[ \t]*)$",
    re.M,
)
_USER_INFO = re.compile(r"(://|\biscsi:)[^@/\s]+@")
_SECRET_WORD = re.compile(
    r"((?:pass(?:wd|word|phrase)?|secret|token|key)=)(\"[^\"]*\"?|[^\s&]+)", re.I
)
_CHECKPOINT = "kubelet_internal_checkpoint"
_CHECKPOINT_KEYS = ("PodUID", "ContainerName", "ResourceName", "DeviceIDs")


def redact(path: str, text: str) -> str:
    """What of a file may be kept, as the description of this module says."""
    if path.endswith(_KUBECONFIGS):
        kept = "\n".join(_KUBECONFIG_LINES.findall(text)) + "\n"
        return _USER_INFO.sub(r"\1", kept)
    if path == "/proc/cmdline":
        hidden = _USER_INFO.sub(rf"\1{_REMOVED}@", text)
        return _SECRET_WORD.sub(rf"\1{_REMOVED}", hidden)
    return _holders_only(text) if path.endswith(_CHECKPOINT) else text


def _holders_only(text: str) -> str:
    try:
        entries = json.loads(text)["Data"]["PodDeviceEntries"] or []
        kept = [{k: e[k] for k in _CHECKPOINT_KEYS if k in e} for e in entries]
    except (ValueError, RecursionError, KeyError, TypeError):
        return f"{_REMOVED}: not a checkpoint\n" if text.strip() else text
    return json.dumps({"Data": {"PodDeviceEntries": kept}}) + "\n"


def _errno_name(failure: OSError) -> str:
    return errno.errorcode.get(failure.errno or errno.EIO, "EIO")


def _raise(name: str, path: str) -> OSError:
    code = next((code for code, known in errno.errorcode.items() if known == name), errno.EIO)
    return OSError(code, os.strerror(code), path)


def _no_record(label: str, why: str) -> Unmeasured:
    return Unmeasured(
        f"{label} is not a record of a machine ({why}); "
        "make one with `podrail discover --dump FILE`"
    )


class RecordingHost(Unchanging):
    """A host that also writes down every answer."""

    _why = "a host is not changed while it is recorded"

    def __init__(self, host: Host, labels: Mapping[str, str] | None = None) -> None:
        self._host = host
        self._labels = dict(host.labels if labels is None else labels)
        self._files: dict[str, Any] = {}
        self._dirs: dict[str, Any] = {}
        self._links: dict[str, Any] = {}
        self._real: dict[str, Any] = {}
        self._programs: dict[tuple[str, ...], Any] = {}

    @property
    def label(self) -> str:
        return self._host.label

    @property
    def labels(self) -> Mapping[str, str]:
        return self._labels

    def _note(
        self, into: dict[Any, Any], key: Any, ask: Callable[[], T], form: Callable[[T], Any]
    ) -> T:
        try:
            answer = ask()
        except OSError as failure:
            into[key] = {"errno": _errno_name(failure)}
            raise
        into[key] = form(answer)
        return answer

    def read(self, path: str) -> str:
        return self._note(self._files, path, lambda: redact(path, self._host.read(path)), str)

    def read_bytes(self, path: str) -> bytes:
        def form(raw: bytes) -> dict[str, str]:
            return {"base64": base64.b64encode(raw).decode()}

        def ask() -> bytes:
            raw = self._host.read_bytes(path)
            text = raw.decode("utf-8", "replace")
            kept = redact(path, text)
            return raw if kept == text else kept.encode()

        return self._note(self._files, path, ask, form)

    def entries(self, path: str) -> tuple[str, ...]:
        return self._note(self._dirs, path, lambda: self._host.entries(path), list)

    def readlink(self, path: str) -> str:
        return self._note(self._links, path, lambda: self._host.readlink(path), str)

    def resolve(self, path: str) -> str:
        return self._note(self._real, path, lambda: self._host.resolve(path), str)

    def run(self, argv: Sequence[str], *, timeout: float = 10.0, stdin: str = "") -> Ran:
        if stdin:  # what a program is told to do is a change, and not part of the record's key
            self._refuse(argv[0])

        def form(ran: Ran) -> dict[str, Any]:
            return {"rc": ran.rc, "stdout": ran.stdout, "stderr": ran.stderr}

        return self._note(
            self._programs, tuple(argv), lambda: self._host.run(argv, timeout=timeout), form
        )

    def dump(self) -> str:
        """The record as JSON, the same bytes for the same answers."""
        record = {
            "schema": SCHEMA,
            "label": self._host.label,
            "labels": self._labels,
            "files": self._files,
            "dirs": self._dirs,
            "links": self._links,
            "resolved": self._real,
            "programs": [{"argv": list(k), **v} for k, v in sorted(self._programs.items())],
        }
        return json.dumps(record, sort_keys=True, indent=0, ensure_ascii=False) + "\n"


# --- replay -------------------------------------------------------------------------------------


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_content(value: Any) -> bool:
    wrapped = isinstance(value, dict) and isinstance(value.get("base64"), str)
    return wrapped or isinstance(value, str)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_error(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("errno"), str)


_SECTIONS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "files": (_is_content, 'text, {"base64": …} or {"errno": …}'),
    "dirs": (_is_texts, 'a list of names or {"errno": …}'),
    "links": (_is_text, 'text or {"errno": …}'),
    "resolved": (_is_text, 'text or {"errno": …}'),
}


def _check(record: Any) -> None:
    """A ValueError that says which key is missing or wrong."""
    if not isinstance(record, dict):
        raise ValueError(f"it is a JSON {type(record).__name__}, wanted an object")
    for key in ("schema", *_SECTIONS, "programs"):
        if key not in record:
            raise ValueError(f"key {key!r} is missing")
    for section, (fits, wanted) in _SECTIONS.items():
        _check_section(section, record[section], fits, wanted)
    programs = record["programs"]
    if not isinstance(programs, list):
        raise ValueError("key 'programs' is not a list")
    for number, program in enumerate(programs):
        _check_program(f"programs[{number}]", program)
    _check_section("labels", record.get("labels", {}), _is_text, "text")


def _check_section(name: str, held: Any, fits: Callable[[Any], bool], wanted: str) -> None:
    if not isinstance(held, dict):
        raise ValueError(f"key {name!r} is not an object")
    for key, value in held.items():
        if not fits(value) and not (_is_error(value) and "errno" in wanted):
            raise ValueError(f"{name}[{key!r}] is {str(value)[:40]!r}, wanted {wanted}")


def _check_program(where: str, program: Any) -> None:
    if not isinstance(program, dict):
        raise ValueError(f"{where} is not an object")
    if not _is_texts(program.get("argv")) or not program["argv"]:
        raise ValueError(f"{where}: key 'argv' is missing or not a list of words")
    kinds = {} if _is_error(program) else {"rc": int, "stdout": str, "stderr": str}
    for key, kind in kinds.items():
        if not isinstance(program.get(key), kind):
            wanted = "a number" if kind is int else "text"
            raise ValueError(f"{where}: key {key!r} is missing or not {wanted}")


class RecordedHost(Unchanging):
    """A replayed machine; it cannot be written to."""

    _why = "a recorded host cannot be changed"

    def __init__(self, record: Mapping[str, Any], label: str | None = None) -> None:
        self._label = label or str(record.get("label", "record"))
        self._labels: dict[str, str] = dict(record.get("labels", {}))
        self.objects: dict[str, Any] = {}
        self._files: dict[str, Any] = dict(record["files"])
        self._dirs: dict[str, Any] = dict(record["dirs"])
        self._links: dict[str, Any] = dict(record["links"])
        self._real: dict[str, Any] = dict(record["resolved"])
        self._programs = {tuple(p["argv"]): p for p in record["programs"]}

    @classmethod
    def from_text(cls, text: str, label: str) -> RecordedHost:
        """Read a dump; the error names the file, the key, and how to make a record."""
        try:
            record = json.loads(text)
        except (ValueError, RecursionError) as wrong:
            raise _no_record(label, f"not JSON: {wrong}") from wrong
        schema = record.get("schema", SCHEMA) if isinstance(record, dict) else SCHEMA
        if schema != SCHEMA:
            raise Unmeasured(
                f"{label}: schema is {schema!r}, this podrail reads {SCHEMA!r}; "
                "make the record again with `podrail discover --dump FILE`"
            )
        try:
            _check(record)
        except ValueError as wrong:
            raise _no_record(label, str(wrong)) from wrong
        return cls(record, label)

    @property
    def label(self) -> str:
        return self._label

    @property
    def labels(self) -> Mapping[str, str]:
        return self._labels

    def _answer(self, known: Mapping[Any, Any], key: Any, path: str) -> Any:
        if key not in known:
            raise self._absent(path)
        answer = known[key]
        if isinstance(answer, dict) and "errno" in answer:
            raise _raise(answer["errno"], path)
        return answer

    def _absent(self, path: str) -> OSError:
        """A directory that was listed without this name proves it was not there."""
        above, _, name = path.rpartition("/")
        listed = self._dirs.get(above)
        if isinstance(listed, list) and name not in listed:
            return _raise("ENOENT", path)
        return NotRecorded(errno.ENODATA, "not in the record", path)

    def read(self, path: str) -> str:
        answer = self._answer(self._files, path, path)
        return (
            answer if isinstance(answer, str) else self.read_bytes(path).decode("utf-8", "replace")
        )

    def read_bytes(self, path: str) -> bytes:
        answer = self._answer(self._files, path, path)
        return answer.encode() if isinstance(answer, str) else base64.b64decode(answer["base64"])

    def entries(self, path: str) -> tuple[str, ...]:
        return tuple(self._answer(self._dirs, path, path))

    def readlink(self, path: str) -> str:
        return str(self._answer(self._links, path, path))

    def resolve(self, path: str) -> str:
        return str(self._answer(self._real, path, path))

    def run(self, argv: Sequence[str], *, timeout: float = 10.0, stdin: str = "") -> Ran:
        if stdin:
            self._refuse(argv[0])
        answer = self._answer(self._programs, tuple(argv), argv[0])
        return Ran(tuple(argv), answer["rc"], answer["stdout"], answer["stderr"])

    # --- faults -------------------------------------------------------------------------------

    def put(self, path: str, content: str) -> None:
        """Change a file before any verb looks."""
        self._files[path] = content
        above, _, name = path.rpartition("/")
        listed = self._dirs.get(above)
        if isinstance(listed, list) and name not in listed:
            self._dirs[above] = sorted([*listed, name])

    def remove(self, path: str) -> None:
        """Take a file or a directory away before any verb looks."""
        for known in (self._files, self._dirs, self._links, self._real):
            for key in [k for k in known if k == path or k.startswith(f"{path}/")]:
                known[key] = {"errno": "ENOENT"}
        self._files.setdefault(path, {"errno": "ENOENT"})
        above, _, name = path.rpartition("/")
        listed = self._dirs.get(above)
        if isinstance(listed, list):
            self._dirs[above] = [n for n in listed if n != name]

    def put_program(self, argv: Sequence[str], program: Ran) -> None:
        """Change what a program answers."""
        self._programs[tuple(argv)] = {
            "argv": list(argv),
            "rc": program.rc,
            "stdout": program.stdout,
            "stderr": program.stderr,
        }

    def remove_program(self, argv: Sequence[str]) -> None:
        """Uninstall a program: every argv that starts so fails as not found."""
        key = tuple(argv)
        for known in [key, *(k for k in self._programs if k[: len(key)] == key)]:
            self._programs[known] = {"errno": "ENOENT"}
