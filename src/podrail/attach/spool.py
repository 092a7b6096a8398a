"""The spool: requests that came while nobody served, each a frame in a file of its own.

The forwarder puts a DEL there when the service does not answer, and tells the runtime that it is
done. So it must be done before any ADD could meet what it should have released.
"""

from __future__ import annotations

import contextlib
import os
import stat
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from podrail.attach import request as cni
from podrail.attach import wire
from podrail.attach.result import CniError

Handle = Callable[[cni.Request], dict[str, Any]]
Tell = Callable[[str], None]

_SUFFIX = ".cni"
_BAD = "bad"
_AGAIN = 30.0
_ABANDONED = 600.0
"""Longer than any forwarder lives: what it was writing is nobody's, and was never answered for."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """What became of the files found: names, oldest first."""

    done: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    bad: tuple[str, ...] = ()


def replay(place: str | Path, handle: Handle, tell: Tell = print) -> Replayed:
    """Do what waits in the spool, oldest first. A file goes when its request has succeeded."""
    return Spool(Path(place), tell).drain(handle)


class Spool:
    """One spool directory. Safe to drain from several threads."""

    def __init__(self, place: Path, tell: Tell = print) -> None:
        self._place, self._tell = place, tell
        self._lock = threading.Lock()
        self._resting: dict[str, float] = {}
        """Files whose request failed, and when it is worth another try."""

    def drain(self, handle: Handle) -> Replayed:
        if not self._waiting():
            return Replayed()
        with self._lock:
            self._tidy()
            done: dict[str, list[str]] = {"done": [], "failed": [], "bad": []}
            for name in self._waiting():
                done[self._one(name, handle)].append(name)
            return Replayed(*(tuple(names) for names in done.values()))

    def _waiting(self) -> list[str]:
        try:
            names = os.listdir(self._place)
        except FileNotFoundError:
            return []
        now = time.monotonic()
        return sorted(n for n in names if n.endswith(_SUFFIX) and self._resting.get(n, now) <= now)

    def _one(self, name: str, handle: Handle) -> str:
        try:
            return self._attempt(name, handle)
        except Exception as no:  # noqa: BLE001 - whatever it was, the file stays for another try
            self._resting[name] = time.monotonic() + _AGAIN
            self._tell(f"spool: {name!r} fails: {no}; it stays for another try")
            return "failed"

    def _attempt(self, name: str, handle: Handle) -> str:
        path = self._place / name
        try:
            request = cni.parse(wire.unframe(_read(path)))
        except (wire.WireError, CniError) as no:
            self._set_aside(path, str(no))
            return "bad"
        # Only a DEL is still true later. A GC lists what lived when it was asked, and what came
        # since would go; the reconcile at the start does its work with what lives now.
        if request.command == cni.DEL:
            handle(request)
        path.unlink()
        self._tell(f"spool: {name!r} done: {_about(request)}")
        return "done"

    def _set_aside(self, path: Path, why: str) -> None:
        aside = self._place / _BAD
        with contextlib.suppress(FileExistsError):
            aside.mkdir(mode=0o700)
        path.rename(aside / path.name)
        self._tell(f"spool: {path.name!r} is no request ({why}): moved to {aside}")

    def _tidy(self) -> None:
        """Take away what a killed forwarder left half written."""
        for path in self._place.glob(".*.tmp"):
            with contextlib.suppress(FileNotFoundError):
                if time.time() - path.lstat().st_mtime > _ABANDONED:
                    path.unlink()


def _about(request: cni.Request) -> str:
    return f"{request.command} {request.container_id} {request.ifname}".rstrip()


def _read(path: Path) -> bytes:
    """A plain file, and of a link or a pipe nothing."""
    if not stat.S_ISREG(path.lstat().st_mode):
        raise wire.WireError("found something else than a file")
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
        return file.read(wire.FRAME_MAX + 1)
