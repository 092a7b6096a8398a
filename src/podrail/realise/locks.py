"""Who may work where: one podrail on a machine, one worker on a PF.

flock(2) goes with the open file: a forked worker shares its parent's lock until it closes it. So a
worker takes the lock of its own PF and lets go of the machine's. A PF that is stuck in the kernel
then keeps its own lock, and nobody else's.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from podrail.model.errors import Refused

_POLL = 0.05
_WORKER_SECONDS = 3.0
"""A worker whose parent was killed dies with it, unless the kernel holds it."""

_inherited: set[int] = set()


class Busy(Refused):
    """Somebody else has the lock."""


@contextlib.contextmanager
def locked(
    path: Path, wait: float, what: str, waiting: Callable[[int | None], None] | None = None
) -> Iterator[None]:
    """Hold a lock file; `waiting` is told once of the process that holds it now."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if not attempt(fd):
            if waiting:
                waiting(holder(fd))
            _await(fd, wait, what)
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        _inherited.add(fd)
        yield
    finally:
        _inherited.discard(fd)
        os.close(fd)


@contextlib.contextmanager
def alone(place: Path, subject: str) -> Iterator[None]:
    """The lock of one PF, held by whoever works on it."""
    path = place / f"{subject.replace(' ', '-').replace('/', '-')}.lock"
    with locked(path, _WORKER_SECONDS, f"worker on {subject}"):
        yield


def let_go() -> None:
    """In a worker, which ends without unwinding: the parent's locks are the parent's."""
    while _inherited:
        os.close(_inherited.pop())


def attempt(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as no:
        if no.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return False
        raise
    return True


def holder(fd: int) -> int | None:
    text = os.pread(fd, 32, 0).decode("ascii", "replace").strip()
    return int(text) if text.isdecimal() else None


def _await(fd: int, wait: float, what: str) -> None:
    deadline = time.monotonic() + wait
    while not attempt(fd):
        if time.monotonic() >= deadline:
            pid = holder(fd)
            raise Busy(
                f"another {what} (pid {pid}) is at work on this machine: wait for it to end, or "
                f"stop it with: kill {pid}"
            )
        time.sleep(_POLL)  # flock(2) knows no timeout
