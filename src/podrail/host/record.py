"""Dump and replay: RecordingHost notes every answer of a host, RecordedHost gives them again.

A record holds what was asked and what came back, errors included, keyed by the very path or argv
that was asked. No clock value and no secret is in it, so a replay is equal byte for byte and a
record is safe to mail.
"""

from __future__ import annotations

import base64
import errno
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from podrail.host.seam import Host, NotRecorded, Ran
from podrail.model.errors import Unmeasured

SCHEMA = "podrail/record/1"

T = TypeVar("T")

_KEEP_SERVER_ONLY = re.compile(
    r"^\s*(?:server|kind|apiVersion|clusters|- cluster|cluster):.*$", re.M
)
_SECRET_FILES = ("kubelet.conf", "kubeconfig", "admin.conf")


def redact(path: str, text: str) -> str:
    """A kubeconfig keeps only where its server is: keys and tokens never reach a record."""
    if not path.endswith(_SECRET_FILES):
        return text
    return "\n".join(_KEEP_SERVER_ONLY.findall(text)) + "\n"


def _errno_name(failure: OSError) -> str:
    return errno.errorcode.get(failure.errno or errno.EIO, "EIO")


def _raise(name: str, path: str) -> OSError:
    code = getattr(errno, name, errno.EIO)
    return OSError(code, os.strerror(code), path)


class RecordingHost:
    """A host that also writes down every answer."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._files: dict[str, Any] = {}
        self._dirs: dict[str, Any] = {}
        self._links: dict[str, Any] = {}
        self._real: dict[str, Any] = {}
        self._programs: dict[tuple[str, ...], Any] = {}

    @property
    def label(self) -> str:
        return self._host.label

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

        return self._note(self._files, path, lambda: self._host.read_bytes(path), form)

    def write(self, path: str, text: str) -> None:
        raise OSError(errno.EROFS, "a host is not changed while it is recorded", path)

    def entries(self, path: str) -> tuple[str, ...]:
        return self._note(self._dirs, path, lambda: self._host.entries(path), list)

    def readlink(self, path: str) -> str:
        return self._note(self._links, path, lambda: self._host.readlink(path), str)

    def resolve(self, path: str) -> str:
        return self._note(self._real, path, lambda: self._host.resolve(path), str)

    def run(self, argv: Sequence[str], *, timeout: float = 10.0) -> Ran:
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
            "files": self._files,
            "dirs": self._dirs,
            "links": self._links,
            "resolved": self._real,
            "programs": [{"argv": list(k), **v} for k, v in sorted(self._programs.items())],
        }
        return json.dumps(record, sort_keys=True, indent=0, ensure_ascii=False) + "\n"


class RecordedHost:
    """A replayed machine; it cannot be written to."""

    def __init__(self, record: Mapping[str, Any], label: str | None = None) -> None:
        self._label = label or str(record.get("label", "record"))
        self._files: dict[str, Any] = dict(record["files"])
        self._dirs: dict[str, Any] = dict(record["dirs"])
        self._links: dict[str, Any] = dict(record["links"])
        self._real: dict[str, Any] = dict(record["resolved"])
        self._programs = {tuple(p["argv"]): p for p in record["programs"]}

    @classmethod
    def from_text(cls, text: str, label: str) -> RecordedHost:
        """Read a dump; the error names the file and what a record must look like."""
        try:
            record = json.loads(text)
            if record["schema"] != SCHEMA:
                raise Unmeasured(
                    f"{label}: schema is {record['schema']!r}, this podrail reads {SCHEMA!r}; "
                    "make the record again with `podrail discover --dump FILE`"
                )
            return cls(record, label)
        except (ValueError, KeyError, TypeError, AttributeError) as wrong:
            raise Unmeasured(
                f"{label} is not a record of a machine ({wrong}); "
                "make one with `podrail discover --dump FILE`"
            ) from wrong

    @property
    def label(self) -> str:
        return self._label

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

    def write(self, path: str, text: str) -> None:
        raise OSError(errno.EROFS, "a recorded host cannot be changed", path)

    def entries(self, path: str) -> tuple[str, ...]:
        return tuple(self._answer(self._dirs, path, path))

    def readlink(self, path: str) -> str:
        return str(self._answer(self._links, path, path))

    def resolve(self, path: str) -> str:
        return str(self._answer(self._real, path, path))

    def run(self, argv: Sequence[str], *, timeout: float = 10.0) -> Ran:
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

    def put_program(self, argv: Sequence[str], ran: Ran) -> None:
        """Change what a program answers."""
        self._programs[tuple(argv)] = {
            "argv": list(argv),
            "rc": ran.rc,
            "stdout": ran.stdout,
            "stderr": ran.stderr,
        }

    def remove_program(self, argv: Sequence[str]) -> None:
        """Uninstall a program: every argv that starts so fails as not found."""
        key = tuple(argv)
        for known in [k for k in self._programs if k[: len(key)] == key]:
            self._programs[known] = {"errno": "ENOENT"}
