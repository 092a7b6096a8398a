"""Both ends of the socket, for tests."""

from __future__ import annotations

import json
import os
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from podrail.attach import wire
from podrail.attach.request import Request
from podrail.attach.server import Server

CONFIG: dict[str, Any] = {"cniVersion": "1.0.0", "name": "rails", "type": "sriov"}
ENV = {
    "CNI_COMMAND": "ADD", "CNI_CONTAINERID": "c1", "CNI_NETNS": "/run/netns/a",
    "CNI_IFNAME": "net1", "CNI_ARGS": "", "CNI_PATH": "/opt/cni/bin",
}  # fmt: skip
PATIENCE = 30.0


def asking(stdin: bytes | None = None, **env: str) -> bytes:
    """A request in bytes."""
    config = json.dumps(CONFIG).encode() if stdin is None else stdin
    return wire.frame({wire.NAME: "sriov"} | ENV | env, config)


@contextmanager
def short_place() -> Iterator[Path]:
    """A directory whose name leaves room for a socket's (unix(7): 108 bytes)."""
    place = Path(tempfile.mkdtemp(prefix="rail-"))
    try:
        yield place
    finally:
        shutil.rmtree(place)


def dial(path: Path) -> socket.socket:
    """A connection; without Python's timeout, with which connect(2) would not wait for a place."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.connect(str(path))
    except OSError:
        sock.close()
        raise
    sock.settimeout(PATIENCE)
    return sock


def hear(sock: socket.socket) -> bytes:
    """Everything until the other end closes."""
    found = b""
    with suppress(ConnectionResetError):
        while more := sock.recv(65536):
            found += more
    return found


def talk(path: Path, data: bytes) -> wire.Answer:
    with dial(path) as sock:
        with suppress(BrokenPipeError):
            sock.sendall(data)
        return wire.unanswer(hear(sock))


class Desk:
    """A handler that notes what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Request] = []
        self.said: list[str] = []
        self.answers: Callable[[Request], dict[str, Any]] = lambda request: {"ok": request.ifname}

    def __call__(self, request: Request) -> dict[str, Any]:
        self.asked.append(request)
        return self.answers(request)


def serving(place: Path, desk: Desk, **options: Any) -> Server:
    return Server(
        place / "cni.sock",
        desk,
        uids=frozenset({0, os.geteuid()}),
        tell=desk.said.append,
        **options,
    )


class Peer:
    """A service that says the same to whoever asks, and keeps what it was asked."""

    def __init__(self, path: Path, says: bytes, *, listens: bool = True) -> None:
        self.heard: list[bytes] = []
        self._says, self._listens = says, listens
        self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._sock.bind(str(path))
        self._sock.listen(8)
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Peer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._sock.shutdown(socket.SHUT_RDWR)
        self._thread.join(PATIENCE)
        self._sock.close()

    def _run(self) -> None:
        with suppress(OSError):
            while True:
                self._one(self._sock.accept()[0])

    def _one(self, sock: socket.socket) -> None:
        with sock:
            sock.settimeout(PATIENCE)
            if self._listens:
                self.heard.append(_request(sock))
            with suppress(BrokenPipeError):
                sock.sendall(self._says)


def _request(sock: socket.socket) -> bytes:
    data = sock.recv(65536)
    head = wire.header(data)
    while head is None or len(data) < head.total:
        more = sock.recv(65536)
        if not more:
            return data
        data += more
        head = wire.header(data)
    return data
