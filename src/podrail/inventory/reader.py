"""Reading a host without ever failing: what cannot be read becomes an `Unknown` with its reason."""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from podrail.host.seam import Host, NotRecorded, Ran
from podrail.model.inventory import Unknown

T = TypeVar("T")

_ABSENT = (errno.ENOENT, errno.ENOTDIR)
_MAC = re.compile(r"(?:[0-9a-f]{2}:){5}[0-9a-f]{2}", re.ASCII)
_GUID = re.compile(r"(?:[0-9a-f]{2}:){7}[0-9a-f]{2}", re.ASCII)


def reason_of(failure: Exception) -> str:
    """Why a read failed, in the same words on a live host and on its record."""
    if isinstance(failure, NotRecorded):
        return "not in the record"
    if not isinstance(failure, OSError):
        return str(failure)
    code = failure.errno or errno.EIO
    if code == errno.ETIMEDOUT:
        return "no answer in time"
    return f"{os.strerror(code)} ({errno.errorcode.get(code, code)})"


def as_dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def as_dicts(value: Any) -> list[dict[str, Any]]:
    """The objects of a JSON array; anything else in it is dropped."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def as_str(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def as_int(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def as_bool(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def number(text: str | None, base: int = 10) -> int | None:
    """An integer, or None for text that is none."""
    try:
        return int(text, base) if text else None
    except ValueError:
        return None


def mac_of(value: Any) -> str | None:
    """A MAC address in lower case; zeros and anything else are None."""
    text = value.lower() if isinstance(value, str) else ""
    return text if _MAC.fullmatch(text) and text.strip("0:") else None


def guid_of(value: Any) -> str | None:
    """`0c42:a103:0065:58ba` or colon-separated octets as octets; a VF is born with zeros."""
    text = value.lower().replace(":", "") if isinstance(value, str) else ""
    octets = ":".join(text[i : i + 2] for i in range(0, len(text), 2))
    return octets if _GUID.fullmatch(octets) else None


class Reader:
    """A host whose failures are noted instead of raised."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._unknown: dict[str, str] = {}

    @property
    def unknown(self) -> tuple[Unknown, ...]:
        return tuple(Unknown(path, reason) for path, reason in sorted(self._unknown.items()))

    def note(self, path: str, reason: str) -> None:
        """Record that a fact is unknown; the first reason stands."""
        self._unknown.setdefault(path, reason)

    def _try(self, path: str, ask: Callable[[str], T], absent: str | None, quiet: bool) -> T | None:
        try:
            return ask(path)
        except (OSError, ValueError) as failure:
            gone = isinstance(failure, OSError) and failure.errno in _ABSENT
            if gone and absent is not None:
                self.note(path, absent)
            elif not gone and not quiet:
                self.note(path, reason_of(failure))
        return None

    def text(self, path: str, *, absent: str | None = None, quiet: bool = False) -> str | None:
        """A file's text without the white space around it.

        A file that is not there is None, and unknown only where `absent` says what that means;
        `quiet` leaves other errors unnoted too (sysfs answers EINVAL for "does not apply").
        """
        found = self._try(path, self._host.read, absent, quiet)
        return None if found is None else found.strip()

    def raw(self, path: str, *, absent: str | None = None) -> bytes | None:
        return self._try(path, self._host.read_bytes, absent, False)

    def integer(self, path: str, base: int = 10, *, quiet: bool = False) -> int | None:
        """A file that holds one number; other content is unknown."""
        text = self.text(path, quiet=quiet)
        value = number(text, base)
        if text and value is None and not quiet:
            self.note(path, f"not a number: {text[:40]!r}")
        return value

    def names(self, path: str, *, absent: str | None = None, quiet: bool = False) -> list[str]:
        """The names in a directory; none where it is not there."""
        return list(self._try(path, self._host.entries, absent, quiet) or ())

    def link(self, path: str, *, quiet: bool = False) -> str | None:
        """The last part of a symbolic link's target."""
        target = self._try(path, self._host.readlink, None, quiet)
        return target.rstrip("/").rpartition("/")[2] or None if target else None

    def target(self, path: str) -> str | None:
        """A symbolic link's whole target; silent, for links that come and go (/proc/PID/fd)."""
        return self._try(path, self._host.readlink, None, True)

    def resolve(self, path: str, *, quiet: bool = False) -> str | None:
        return self._try(path, self._host.resolve, None, quiet)

    # --- programs -----------------------------------------------------------------------------

    def run(self, argv: Sequence[str]) -> Ran | None:
        """A finished program; one that is not installed is one unknown, however often asked."""
        try:
            return self._host.run(argv)
        except (OSError, ValueError) as failure:
            if isinstance(failure, OSError) and failure.errno in _ABSENT:
                self.note(f"program:{argv[0]}", "not installed")
            else:
                self.note(f"program:{' '.join(argv)}", reason_of(failure))
        return None

    def output(self, argv: Sequence[str]) -> str | None:
        """What a program printed; a non-zero exit makes it unknown."""
        ran = self.run(argv)
        if ran is None or ran.rc == 0:
            return ran.stdout if ran else None
        said = (ran.stderr or ran.stdout).strip().partition("\n")[0][:120]
        self.note(
            f"program:{' '.join(argv)}", f"exit {ran.rc}: {said}" if said else f"exit {ran.rc}"
        )
        return None

    def json(self, argv: Sequence[str]) -> Any:
        """What a program printed as JSON, or None; nothing printed is an empty list."""
        text = self.output(argv)
        if text is None:
            return None
        return self.parse(text, f"program:{' '.join(argv)}") if text.strip() else []

    def parse(self, text: str, source: str) -> Any:
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as wrong:
            self.note(source, f"not JSON: {str(wrong)[:80]}")
        return None
