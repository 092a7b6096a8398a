"""The kubelet's directories: where sockets are put, and how it learns of them.

A kubelet with a plugin watcher finds a socket in `plugins_registry` by itself, also after a
restart. An older one must be told over its own socket in `device-plugins`, again after every
restart, and removes whatever lies there when it starts.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass

from podrail.attach.deviceplugin import api
from podrail.attach.deviceplugin.endpoint import OPTIONS, Endpoint
from podrail.attach.deviceplugin.papers import Say
from podrail.attach.deviceplugin.rpc import Unanswered, channel, identity

KUBELET = "kubelet.sock"
POLL = 2.0
"""Seconds between looks at a directory that inotify cannot watch, or that is not there yet."""
_FIRST, _LONGEST = 1.0, 30.0

# include/uapi/linux/inotify.h
_MOVED_FROM, _MOVED_TO, _CREATE, _DELETE, _DELETE_SELF = 0x40, 0x80, 0x100, 0x200, 0x400
_ONLYDIR = 0x01000000
_CHANGES = _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _DELETE_SELF | _ONLYDIR


@dataclass(frozen=True, slots=True)
class Places:
    """Where the kubelet looks."""

    registry: str = "/var/lib/kubelet/plugins_registry"
    plugins: str = "/var/lib/kubelet/device-plugins"


@dataclass(frozen=True, slots=True)
class Wait:
    """How long an endpoint that was refused is left alone."""

    until: float
    seconds: float


class Directory:
    """Tells when something comes into a directory or goes, through inotify(7).

    Nodes run out of inotify instances (128 a user by default); then `live` is False, and whoever
    asks must look from time to time.
    """

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd = self._libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        self._path: str | None = None
        self._watch = -1

    @property
    def live(self) -> bool:
        return self._watch >= 0

    def fileno(self) -> int:
        """Readable when something happened; -1 where inotify is not to be had."""
        return int(self._fd)

    def look_at(self, path: str | None) -> None:
        """Watch this directory and no other."""
        if self._fd < 0 or (path == self._path and self.live):
            return
        if self.live:
            self._libc.inotify_rm_watch(self._fd, self._watch)
        self._path, self._watch = path, -1
        if path is not None:
            self._watch = self._libc.inotify_add_watch(self._fd, os.fsencode(path), _CHANGES)

    def drain(self) -> None:
        """What happened is seen by looking, not told by events."""
        with suppress(BlockingIOError):
            while self._fd >= 0 and os.read(self._fd, 65536):
                pass

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd, self._watch = -1, -1


class Doorway:
    """Puts every endpoint where the kubelet finds it, in one of its two ways."""

    def __init__(self, places: Places, say: Say, clock: Callable[[], float]) -> None:
        self._places, self._say, self._clock = places, say, clock
        self.directory = Directory()
        self._chosen: str | None = None
        self._kubelet: tuple[int, int, int] | None = None
        self._told: set[str] = set()
        self._waits: dict[str, Wait] = {}

    @property
    def registry(self) -> bool:
        """Whether the kubelet finds sockets by itself."""
        return self._chosen == self._places.registry

    def tend(self, endpoints: Iterable[Endpoint]) -> None:
        """Serve whoever is not served, and register whoever this kubelet does not know."""
        kubelet = identity(f"{self._places.plugins}/{KUBELET}")
        restarted = kubelet != self._kubelet
        self._choose(restarted=restarted)
        if restarted:
            self._kubelet = kubelet
            self._told.clear()
            self._waits.clear()
        for endpoint in endpoints if self._chosen else ():
            if self._is_time(endpoint):
                self._tend(endpoint)

    def _tend(self, endpoint: Endpoint) -> None:
        name = str(endpoint.pool.resource)
        assert self._chosen is not None
        if endpoint.superseded(self._chosen):
            endpoint.troubled("is served by another process now, and left to it")
            return
        if not endpoint.serves(self._chosen):
            self._told.discard(name)
            if not self._serve(endpoint, self._chosen):
                return
        if self.registry or self._kubelet is None or name in self._told:
            self._waits.pop(name, None)
        elif self._announce(endpoint):
            self._told.add(name)
            self._waits.pop(name, None)

    def seconds(self) -> float | None:
        """Until it must be tended again although nothing happened."""
        ends = [wait.until - self._clock() for wait in self._waits.values()]
        if not self.directory.live:
            ends.append(POLL)
        return max(0.0, min(ends)) if ends else None

    def close(self) -> None:
        self.directory.close()

    def _choose(self, *, restarted: bool) -> None:
        """The registry where there is one. Changed only with the kubelet: never both at once."""
        gone = self._chosen is None or not os.path.isdir(self._chosen)
        if gone or (restarted and not self.registry):
            ways = (self._places.registry, self._places.plugins)
            self._chosen = next((way for way in ways if os.path.isdir(way)), None)
        self.directory.look_at(self._chosen)

    def _serve(self, endpoint: Endpoint, directory: str) -> bool:
        try:
            endpoint.open(directory, registry=self.registry)
        except OSError as no:
            endpoint.troubled(f"is not served: {no}")
            self._later(endpoint)
            return False
        return True

    def _announce(self, endpoint: Endpoint) -> bool:
        resource = endpoint.pool.resource
        request = api.RegisterRequest(
            version=api.VERSION,
            endpoint=os.path.basename(resource.socket(self._places.plugins)),
            resource_name=str(resource),
            options=OPTIONS,
        )
        try:
            with channel(f"{self._places.plugins}/{KUBELET}") as kubelet:
                kubelet.call(api.REGISTER, request, timeout=5.0)
        except Unanswered as no:
            endpoint.troubled(f"is refused by the kubelet: {no}")
            self._later(endpoint)
            return False
        endpoint.registered, endpoint.problem = True, ""
        return True

    def _is_time(self, endpoint: Endpoint) -> bool:
        wait = self._waits.get(str(endpoint.pool.resource))
        return wait is None or self._clock() >= wait.until

    def _later(self, endpoint: Endpoint) -> None:
        """Ask again, less and less often."""
        name = str(endpoint.pool.resource)
        before = self._waits.get(name)
        seconds = min(before.seconds * 2, _LONGEST) if before else _FIRST
        self._waits[name] = Wait(self._clock() + seconds, seconds)
