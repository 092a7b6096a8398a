"""What systemd is told of a service: sd_notify(3), by its protocol."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable, Mapping
from time import monotonic


class Notifier:
    """Tells the service manager, where there is one; that it cannot be told harms nobody."""

    def __init__(
        self, environment: Mapping[str, str] | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:  # fmt: skip
        env = os.environ if environment is None else environment
        self._address = _address(env.get("NOTIFY_SOCKET", ""))
        self._clock, self._fed = clock, clock()
        self.feed_seconds = _feed_seconds(env)
        """How often to be heard from; None where nobody waits for it."""

    def ready(self, status: str) -> None:
        self._send(f"READY=1\nSTATUS={_line(status)}")

    def status(self, text: str) -> None:
        self._send(f"STATUS={_line(text)}")

    def stopping(self) -> None:
        self._send("STOPPING=1\nSTATUS=stopping; the VFs stay as they are")

    def alive(self) -> None:
        """Feed the watchdog, when it is time."""
        if self.feed_seconds is not None and self._clock() - self._fed >= self.feed_seconds:
            self._fed = self._clock()
            self._send("WATCHDOG=1")

    def _send(self, text: str) -> None:
        if self._address is None:
            return
        kind = socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, kind) as sock:
            sock.sendto(text.encode(), self._address)


def _address(text: str) -> str | None:
    """A path, or with `@` a name in the abstract namespace (unix(7))."""
    if text.startswith("@"):
        return "\0" + text[1:]
    return text if text.startswith("/") else None


def _line(text: str) -> str:
    return " ".join(text.split())


def _feed_seconds(env: Mapping[str, str]) -> float | None:
    """Half of what sd_watchdog_enabled(3) asks for, if it asks this process."""
    usec, pid = env.get("WATCHDOG_USEC", ""), env.get("WATCHDOG_PID", "")
    if not usec.isdecimal() or not int(usec) or (pid and pid != str(os.getpid())):
        return None
    return int(usec) / 2e6
