"""The host's side of the agent: one authenticated connection to one node."""

from __future__ import annotations

import contextlib
import errno
import hmac
import json
import os
import select
import selectors
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

from podrail.host.seam import Ran
from podrail.lab.guest.agent import Closed, proof, receive, send
from podrail.model.errors import Refused, Unmeasured

_CHUNK = 65536
_BEAT = 2.0
_GRACE = 10.0
_PATIENCE = 60.0
"""Seconds for an answer beyond the time a program itself was given."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a node's agent answers, and the lab's secret."""

    port: int
    secret: bytes
    host: str = "127.0.0.1"


class Lost(Unmeasured):
    """The node no longer answers: not an answer of its kernel, and never taken for one."""


class Connection:
    """A conversation with a node; one request at a time."""

    def __init__(self, address: Address, *, timeout: float = 10.0) -> None:
        self._sock = socket.create_connection((address.host, address.port), timeout=timeout)
        try:
            self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._prove(address.secret)
        except BaseException:
            self._sock.close()
            raise
        self._sock.settimeout(None)
        self._sending = threading.Lock()

    def _prove(self, secret: bytes) -> None:
        kind, theirs = receive(self._sock)
        if kind != b"N":
            raise Closed("not a lab node")
        mine = os.urandom(16)
        send(self._sock, b"A", mine + proof(secret, b"client", theirs))
        try:
            kind, given = receive(self._sock)
        except Closed as closed:
            raise Refused(
                "the node does not know this lab's secret: it is another lab's"
            ) from closed
        if not hmac.compare_digest(given, proof(secret, b"server", mine)):
            raise Refused("what answers on the node's port does not know this lab's secret")

    def close(self) -> None:
        self._sock.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, operation: str, **request: Any) -> Any:
        """One small request; OSError with the node's errno when it fails there."""
        self._request(operation, **request)
        return json.loads(self._reply(b"R", request.get("path")))

    def read(self, path: str) -> bytes:
        """The bytes of a file."""
        self._request("read", path=path)
        return self._reply(b"D", path)

    def get(self, path: str, into: BinaryIO) -> None:
        """Copy a file out of the node, however large."""
        self._request("get", path=path)
        while data := self._reply(b"D", path):
            into.write(data)

    def put(self, path: str, data: bytes, mode: int = 0o644) -> None:
        """Copy a file into the node; it appears there whole or not at all."""
        self._request("put", path=path, mode=mode)
        for at in range(0, len(data), _CHUNK):
            self._send(b"D", data[at : at + _CHUNK])
        self._send(b"D")
        self._reply(b"R", path)

    def _send(self, kind: bytes, payload: bytes = b"") -> None:
        try:
            with self._sending:
                send(self._sock, kind, payload)
        except OSError as failure:
            raise Lost(f"the node went away ({failure})") from failure

    def _receive(self, deadline: float | None = None) -> tuple[bytes, bytes]:
        """The next frame. A beat now and then finds out that the node was power-cycled: its new
        kernel knows nothing of this connection and resets it."""
        while not select.select([self._sock], [], [], _BEAT)[0]:
            if deadline is not None and time.monotonic() > deadline:
                raise Lost("the node does not answer any more")
            self._send(b"H")
        try:
            return receive(self._sock)
        except OSError as failure:
            raise Lost(f"the node went away ({failure})") from failure

    def _request(self, operation: str, **request: Any) -> None:
        self._send(b"Q", json.dumps({"op": operation, **request}).encode())

    def _reply(self, wanted: bytes, path: str | None) -> bytes:
        kind, payload = self._receive(time.monotonic() + _PATIENCE)
        if kind == b"F":
            raise _failed(payload, path)
        if kind != wanted:
            raise Closed(f"frame {kind!r} where {wanted!r} was due")
        return payload

    def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", timeout: float | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Ran:  # fmt: skip
        """A program with its output collected; TimeoutError when it was ended for lateness."""
        self._request("run", argv=list(argv), timeout=timeout, env=dict(env or {}))
        feeding = threading.Thread(target=self._send_input, args=(stdin,), daemon=True)
        feeding.start()  # beside the reading: neither side may wait for the other to finish
        out: dict[bytes, list[bytes]] = {b"O": [], b"E": []}
        deadline = None if timeout is None else time.monotonic() + timeout + _PATIENCE
        while True:
            kind, payload = self._receive(deadline)
            if kind == b"F":
                raise _failed(payload, argv[0])
            if kind == b"X":
                break
            out[kind].append(payload)
        feeding.join()
        ended = json.loads(payload)
        if ended["timed_out"]:
            raise TimeoutError(errno.ETIMEDOUT, f"no end within {timeout:g} s", argv[0])
        texts = {k: b"".join(parts).decode("utf-8", "replace") for k, parts in out.items()}
        return Ran(tuple(argv), _shell_rc(ended["rc"]), texts[b"O"], texts[b"E"])

    def _send_input(self, data: bytes) -> None:
        with contextlib.suppress(Lost):
            for at in range(0, len(data), _CHUNK):
                self._send(b"I", data[at : at + _CHUNK])
            self._send(b"I")

    def stream(
        self, argv: Sequence[str], stdin: BinaryIO | None, stdout: BinaryIO, stderr: BinaryIO,
        *, timeout: float | None = None,
    ) -> int:  # fmt: skip
        """A program joined to this process's own streams; its exit status."""
        self._request("run", argv=list(argv), timeout=timeout)
        with selectors.DefaultSelector() as waiting:
            waiting.register(self._sock, selectors.EVENT_READ)
            if stdin is None:
                self._send(b"I")
            else:
                self._register(waiting, stdin)
            deadline = None if timeout is None else time.monotonic() + timeout + _GRACE
            while True:
                ready = waiting.select(_BEAT)
                if not ready:
                    self._send(b"H")
                if deadline is not None and time.monotonic() > deadline:
                    raise Lost(f"the node did not end it after {timeout:g} s and does not answer")
                for key, _ in ready:
                    if key.fileobj is self._sock:
                        kind, payload = self._receive()
                        if kind == b"F":
                            raise _failed(payload, argv[0])
                        if kind == b"X":
                            ended = json.loads(payload)
                            return 124 if ended["timed_out"] else _shell_rc(ended["rc"])
                        sink = stdout if kind == b"O" else stderr
                        sink.write(payload)
                        sink.flush()
                    elif not self._feed(key.fd):
                        waiting.unregister(key.fileobj)

    def _feed(self, fd: int) -> bool:
        data = os.read(fd, _CHUNK)
        self._send(b"I", data)
        return bool(data)

    def _register(self, waiting: selectors.BaseSelector, stdin: BinaryIO) -> None:
        """A plain file cannot be waited for: it is sent beside the reading."""
        try:
            waiting.register(stdin, selectors.EVENT_READ)
        except PermissionError:
            threading.Thread(target=self._send_file, args=(stdin,), daemon=True).start()

    def _send_file(self, stdin: BinaryIO) -> None:
        with contextlib.suppress(Lost):
            while data := stdin.read(_CHUNK):
                self._send(b"I", data)
            self._send(b"I")

    def signal(self, number: int) -> None:
        """Send a signal to the program that `stream` is carrying."""
        self._send(b"S", str(number).encode())


def _shell_rc(rc: int) -> int:
    """A death by signal as shells report it."""
    return 128 - rc if rc < 0 else rc


def _failed(payload: bytes, path: str | None) -> OSError:
    failure = json.loads(payload)
    return OSError(failure["errno"], os.strerror(failure["errno"]), path or failure["message"])
