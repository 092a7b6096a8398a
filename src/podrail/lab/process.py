"""Processes that must not outlive each other."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
from pathlib import Path

_PR_SET_PDEATHSIG = 1


class Child:
    """A process of a session of its own that may outlive this one; its input is ours to write."""

    def __init__(self, argv: list[str], log: Path) -> None:
        listening, self._input = os.pipe()
        append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        try:
            self.pid = os.posix_spawn(
                argv[0], argv, os.environ,
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, listening, 0),
                    (os.POSIX_SPAWN_OPEN, 1, str(log), append, 0o600),
                    (os.POSIX_SPAWN_DUP2, 1, 2),
                ],
                setsid=True,
            )  # fmt: skip
        finally:
            os.close(listening)

    def say(self, word: bytes) -> None:
        """A last word, and the end of its input."""
        os.write(self._input, word)
        self._let_go()

    def _let_go(self) -> None:
        if self._input >= 0:
            os.close(self._input)
            self._input = -1

    def ended(self) -> bool:
        return not started(self.pid)

    def stop(self) -> None:
        """End it and reap it."""
        end(self.pid)
        self._let_go()
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)


def end(pid: int) -> None:
    """Asked first, then made to."""
    for number, patience in ((signal.SIGTERM, 8.0), (signal.SIGKILL, 5.0)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        if wait_gone(pid, patience):
            return


def wait_gone(pid: int, seconds: float) -> bool:
    """Wait until a process has ended; False when it has not in that time."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], seconds)[0])
    finally:
        os.close(descriptor)


def started(pid: int) -> str:
    """When a process started, from /proc: empty when it is gone or only waits to be reaped.

    The first process of a container often reaps nobody, so a dead pid can stay for long.
    """
    with contextlib.suppress(OSError):
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
        fields = text.rpartition(")")[2].split()
        return "" if fields[0] in "ZX" else fields[19]
    return ""


def die_with(parent: int) -> None:
    """Between fork and exec. The parent may be gone before the kernel is asked: prctl(2)."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
