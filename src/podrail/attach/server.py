"""The socket the forwarder speaks to: one thread receives, a bounded few do the work.

Requests are received in one thread, without blocking, so that a client which never finishes costs a
descriptor for ten seconds and no worker. A full house is not refused: the kernel's backlog holds
whoever comes, and the forwarder gives up by itself.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import selectors
import socket
import stat
import struct
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from podrail.attach import request as cni
from podrail.attach import result, wire
from podrail.attach.result import CniError, Code
from podrail.attach.spool import Handle, Replayed, Spool, Tell, replay
from podrail.model.errors import Refused

__all__ = ["Handle", "Limits", "Replayed", "Server", "replay"]

_CREDENTIALS = struct.Struct("3i")  # struct ucred, unix(7)
_CHUNK = 64 * 1024
_TURN = 1.0
_CROWDED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


@dataclass(frozen=True, slots=True)
class Limits:
    """How much the server takes on at once."""

    workers: int = 32
    connections: int = 512
    """Open at once, whether still being received or already being worked on."""
    backlog: int = 256
    read_seconds: float = 10.0
    write_seconds: float = 10.0


@dataclass(slots=True)
class _Receiving:
    """A connection whose request is not all there."""

    sock: socket.socket
    until: float
    data: bytearray = field(default_factory=bytearray)
    head: wire.Header | None = None

    def more(self) -> bool:
        """Receive some, and say whether that was all; WireError where it will be no request."""
        found = self.sock.recv(_CHUNK)
        if not found:
            raise wire.WireError(f"closed after {len(self.data)} bytes of a request")
        self.data += found
        self.head = self.head or wire.header(self.data)
        if self.head and len(self.data) > self.head.total:
            raise wire.WireError(f"found more than the {self.head.total} bytes it announced")
        return self.head is not None and len(self.data) == self.head.total


class Server:
    """Serves requests on a Unix socket until it is stopped.

    `handle` is called from several threads at once. It returns the result, {} for none, or raises
    CniError; anything else it raises is a defect, told and answered as such.
    """

    def __init__(
        self, path: str | Path, handle: Handle, *, spool: str | Path | None = None,
        limits: Limits | None = None, uids: frozenset[int] = frozenset({0}), tell: Tell = print,
    ) -> None:  # fmt: skip
        self._path, self._handle, self._tell = Path(path), handle, tell
        self._limits, self._uids = limits or Limits(), uids
        self._spool = Spool(Path(spool), tell) if spool is not None else None
        self._receiving: dict[int, _Receiving] = {}
        self._open, self._count = 0, threading.Lock()
        self._stopping = False
        self._loop = threading.Thread(target=self._run, name="podrail-cni", daemon=True)
        self._work = ThreadPoolExecutor(self._limits.workers, "podrail-cni")

    def start(self) -> Self:
        """Take the socket, do what waits in the spool, then serve."""
        self._lock = _lock(self._path)
        try:
            self._listener = _bind(self._path)
        except Refused:
            os.close(self._lock)
            raise
        self._inode = self._path.lstat().st_ino
        if self._spool:
            self._spool.drain(self._handle)
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._listener.listen(self._limits.backlog)
        self._loop.start()
        return self

    def stop(self) -> None:
        """Take nothing more; what is being worked on is finished and answered."""
        self._stopping = True
        os.eventfd_write(self._wake, 1)
        self._loop.join()
        self._work.shutdown()
        os.close(self._wake)
        os.close(self._lock)

    @property
    def alive(self) -> bool:
        """Whether it still receives."""
        return self._loop.is_alive()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _run(self) -> None:
        try:
            with selectors.DefaultSelector() as chosen:
                chosen.register(self._wake, selectors.EVENT_READ)
                while not self._stopping:
                    self._pass(chosen)
        finally:
            self._close()

    def _pass(self, chosen: selectors.BaseSelector) -> None:
        self._listen_if_room(chosen)
        for key, _ in chosen.select(self._patience()):
            self._turn(chosen, key.fd)
        self._cut_off(chosen)

    def _turn(self, chosen: selectors.BaseSelector, fd: int) -> None:
        if fd == self._wake:
            with contextlib.suppress(BlockingIOError):
                os.eventfd_read(fd)
        elif fd == self._listener.fileno():
            self._accept(chosen)
        elif fd in self._receiving:
            self._receive(chosen, self._receiving[fd])

    def _listen_if_room(self, chosen: selectors.BaseSelector) -> None:
        listening = self._listener.fileno() in chosen.get_map()
        room = self._open < self._limits.connections
        if room and not listening:
            chosen.register(self._listener, selectors.EVENT_READ)
        elif listening and not room:
            chosen.unregister(self._listener)

    def _patience(self) -> float:
        ends = (one.until for one in self._receiving.values())
        return min(_TURN, max(0.0, min(ends, default=time.monotonic() + _TURN) - time.monotonic()))

    def _accept(self, chosen: selectors.BaseSelector) -> None:
        try:
            sock, _ = self._listener.accept()
        except OSError as no:
            if no.errno in _CROWDED:
                chosen.unregister(self._listener)  # tried again in the next turn
                self._tell(f"cni: no room for another connection: {no.strerror}")
            return
        self._counted(+1)
        sock.setblocking(False)
        uid = _CREDENTIALS.unpack(_credentials(sock))[1]
        if uid not in self._uids:
            self._refuse(sock, f"uid {uid} may not ask; wanted root")
            return
        until = time.monotonic() + self._limits.read_seconds
        self._receiving[sock.fileno()] = _Receiving(sock, until)
        chosen.register(sock, selectors.EVENT_READ)

    def _receive(self, chosen: selectors.BaseSelector, one: _Receiving) -> None:
        try:
            whole = one.more()
        except BlockingIOError:
            return
        except (OSError, wire.WireError) as no:
            self._dismiss(chosen, one, str(no))
            return
        if whole:
            self._forget(chosen, one)
            self._work.submit(self._serve, one.sock, bytes(one.data))

    def _forget(self, chosen: selectors.BaseSelector, one: _Receiving) -> None:
        chosen.unregister(one.sock)
        del self._receiving[one.sock.fileno()]

    def _dismiss(self, chosen: selectors.BaseSelector, one: _Receiving, why: str) -> None:
        self._forget(chosen, one)
        self._refuse(one.sock, why)

    def _refuse(self, sock: socket.socket, why: str) -> None:
        """Say no if the client still listens; nobody waits for it."""
        self._tell(f"cni: refused: {why}")
        body = _json(CniError(Code.REFUSED, f"refused: {why}").render(result.CURRENT))
        with contextlib.suppress(OSError):
            sock.send(wire.answer(1, body), socket.MSG_DONTWAIT)
        self._leave(sock)

    def _leave(self, sock: socket.socket) -> None:
        sock.close()
        self._counted(-1)

    def _cut_off(self, chosen: selectors.BaseSelector) -> None:
        now = time.monotonic()
        late = [one for one in self._receiving.values() if one.until <= now]
        for one in late:
            found = f"{len(one.data)} bytes after {self._limits.read_seconds:g} s"
            self._dismiss(chosen, one, f"found {found}, wanted a whole request")

    def _close(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            if self._path.lstat().st_ino == self._inode:
                self._path.unlink()
        self._listener.close()
        for one in self._receiving.values():
            self._leave(one.sock)
        self._receiving.clear()

    def _counted(self, by: int) -> None:
        with self._count:
            full = self._open >= self._limits.connections
            self._open += by
        if full and by < 0:
            os.eventfd_write(self._wake, 1)

    def _serve(self, sock: socket.socket, data: bytes) -> None:
        """In a worker: one request, from its bytes to its answer."""
        try:
            answer = self._answer(data)
            sock.settimeout(self._limits.write_seconds)
            sock.sendall(answer)
        except OSError as no:
            self._tell(f"cni: an answer did not arrive: {no}")
        finally:
            self._leave(sock)

    def _answer(self, data: bytes) -> bytes:
        stdin = b""
        try:
            frame = wire.unframe(data)
            stdin = frame.stdin
            return wire.answer(0, _json(self._result(cni.parse(frame))))
        except wire.WireError as no:
            error = CniError(Code.INVALID_ENVIRONMENT, str(no))
        except CniError as no:
            error = no
        except Exception as no:  # noqa: BLE001 - a defect must not leave the runtime waiting
            self._tell(f"cni: a defect: {traceback.format_exc()}")
            error = CniError(Code.INTERNAL, f"a defect in podrail: {no!r}; see its log")
        self._tell(f"cni: error {error.code}: {error.msg}")
        return wire.answer(1, _json(error.render(cni.version_of(stdin))))

    def _result(self, request: cni.Request) -> dict[str, Any]:
        if request.command == cni.VERSION:
            return result.versions()
        if request.command == cni.ADD and self._spool:
            # A forwarder that found nobody may put its DEL there after we have come.
            self._spool.drain(self._handle)
        return self._handle(request)


def _json(body: dict[str, Any]) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode() + b"\n" if body else b""


def _credentials(sock: socket.socket) -> bytes:
    return sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)


def _lock(path: Path) -> int:
    """The right to that socket: two that start at once would take each other's for a stale one."""
    try:
        _own(path.parent)
        fd = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        raise Refused(f"{path}: another attach service has it: stop that first") from None
    except OSError as no:
        raise Refused(f"{path.parent} cannot be used ({no.strerror}): run as root") from no
    return fd


def _own(place: Path) -> None:
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = place.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise Refused(f"{place}: found it owned by uid {found.st_uid}, wanted a directory of ours")
    if found.st_mode & 0o077:
        place.chmod(0o700)


def _bind(path: Path) -> socket.socket:
    """A socket at the path, for us alone. One that nobody answers on is replaced."""
    _clear(path)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        sock.setblocking(False)
        # bind takes the mode from here: Linux net/unix/af_unix.c:unix_bind_bsd.
        os.fchmod(sock.fileno(), 0o600)
        sock.bind(str(path))
    except OSError as no:
        sock.close()
        raise Refused(f"{path} cannot be made: {no.strerror or no}") from no
    return sock


def _clear(path: Path) -> None:
    if not os.path.lexists(path):
        return
    if not stat.S_ISSOCK(path.lstat().st_mode):
        raise Refused(f"{path}: found something that is no socket: move it away")
    if _answers(path):
        raise Refused(f"{path}: somebody else answers there: stop that first")
    path.unlink()


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except BlockingIOError:
            return True  # its backlog is full
        except OSError:
            return False
    return True
