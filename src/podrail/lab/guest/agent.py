"""The agent inside a lab node: files and programs over one authenticated socket.

It runs alone in the guest with nothing but the standard library, and is imported on the host for
its frames, so that both ends speak the same protocol. Both sides prove that they know the lab's
secret before anything is asked; the secret itself never crosses the wire.

A frame is one byte of kind, four bytes of length, and a payload:

    N nonce · A proof · Q request (JSON) · R reply (JSON) · D data · F failure (JSON)
    I standard input (empty: end) · O standard output · E standard error · S signal · X exit (JSON)
    H heartbeat, ignored: a node that was power-cycled resets the connection when one arrives
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import hmac
import json
import os
import queue
import selectors
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from typing import Any

ADDRESS = "10.0.2.15"
"""The management network alone; the data plane cannot reach the agent."""
PORT = 2222
SECRET = "/sys/firmware/qemu_fw_cfg/by_name/opt/podrail/secret/raw"
MAX_FRAME = 64 << 20
_CHUNK = 65536
_WAITING_INPUT = 64
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Closed(ConnectionError):
    """The other side went away."""


def send(sock: socket.socket, kind: bytes, payload: bytes = b"") -> None:
    """Write one frame."""
    sock.sendall(kind + struct.pack(">I", len(payload)) + payload)


def receive(sock: socket.socket) -> tuple[bytes, bytes]:
    """Read one frame."""
    head = _exactly(sock, 5)
    (length,) = struct.unpack(">I", head[1:])
    if length > MAX_FRAME:
        raise Closed(f"a frame of {length} bytes")
    return head[:1], _exactly(sock, length)


def _exactly(sock: socket.socket, count: int) -> bytes:
    parts = []
    while count:
        part = sock.recv(min(count, _CHUNK))
        if not part:
            raise Closed("the connection was closed")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def proof(secret: bytes, side: bytes, nonce: bytes) -> bytes:
    """What shows that a side knows the secret."""
    return hmac.new(secret, side + nonce, hashlib.sha256).digest()


# --- the guest's side -------------------------------------------------------------------------


def _authenticate(sock: socket.socket, secret: bytes) -> bool:
    mine = os.urandom(16)
    send(sock, b"N", mine)
    kind, answer = receive(sock)
    theirs, given = answer[:16], answer[16:]
    if kind != b"A" or not hmac.compare_digest(given, proof(secret, b"client", mine)):
        return False
    send(sock, b"A", proof(secret, b"server", theirs))
    return True


def _read(request: dict[str, Any]) -> bytes:
    fd = os.open(request["path"], os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        while part := os.read(fd, _CHUNK):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(fd)


def _write(request: dict[str, Any]) -> None:
    """One write(2), as sysfs wants it."""
    fd = os.open(request["path"], os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
    try:
        os.write(fd, request["text"].encode())
    finally:
        os.close(fd)


def _put(sock: socket.socket, request: dict[str, Any]) -> None:
    """A whole file, replaced at once when all of it has arrived and is on the disk."""
    path = os.path.realpath(request["path"])
    with contextlib.suppress(FileExistsError):  # where it is a file, ENOTDIR says so next
        os.makedirs(os.path.dirname(path), exist_ok=True)
    partial = f"{path}.part"
    fd = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, request["mode"])
    with os.fdopen(fd, "wb") as file:
        while data := receive(sock)[1]:
            file.write(data)
        file.flush()
        os.fsync(fd)
    os.chmod(partial, request["mode"])
    os.replace(partial, path)
    _sync(os.path.dirname(path))


def _sync(directory: str) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _unlink(request: dict[str, Any]) -> None:
    os.unlink(request["path"])
    _sync(os.path.dirname(request["path"]))


def _get(sock: socket.socket, request: dict[str, Any]) -> None:
    """A whole file in pieces; an empty one ends it."""
    with open(request["path"], "rb") as file:
        while data := file.read(_CHUNK):
            send(sock, b"D", data)
    send(sock, b"D")


def _answer(sock: socket.socket, request: dict[str, Any]) -> None:
    operation = request["op"]
    if operation == "run":
        _run(sock, request)
    elif operation == "read":
        send(sock, b"D", _read(request))
    elif operation == "get":
        _get(sock, request)
    else:
        send(sock, b"R", json.dumps(_small(sock, operation, request)).encode())


def _small(sock: socket.socket, operation: str, request: dict[str, Any]) -> Any:
    if operation == "write":
        return _write(request)
    if operation == "put":
        return _put(sock, request)
    if operation == "unlink":
        return _unlink(request)
    if operation == "entries":
        return sorted(os.listdir(request["path"]))
    if operation == "readlink":
        return os.readlink(request["path"])
    if operation == "resolve":
        return os.path.realpath(request["path"], strict=True)
    if operation == "ping":
        return {"node": socket.gethostname(), "uptime": time.monotonic()}
    raise OSError(errno.EINVAL, f"no operation called {operation}")


def _spawn(request: dict[str, Any]) -> subprocess.Popen[bytes]:
    environment = {"PATH": _PATH, "LC_ALL": "C", "HOME": "/root", **request.get("env", {})}
    return subprocess.Popen(
        request["argv"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        cwd=request.get("cwd"),
        start_new_session=True,
    )


def _end(process: subprocess.Popen[bytes], number: int = signal.SIGKILL) -> None:
    """A signal to the program and all it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def _run(sock: socket.socket, request: dict[str, Any]) -> None:
    """A program, its three streams carried over the socket until it ends."""
    process = _spawn(request)
    stdin: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_feed, args=(process, stdin), daemon=True).start()
    try:
        late = _pump(sock, process, stdin, request.get("timeout"))
        sock.settimeout(None)
        rc = process.wait()
        send(sock, b"X", json.dumps({"rc": rc, "timed_out": late}).encode())
    except BaseException:
        _end(process)  # nobody waits for it any more
        raise
    finally:
        stdin.put(b"")
        process.wait()
        for stream in (process.stdout, process.stderr):
            if stream:
                stream.close()


def _pump(
    sock: socket.socket,
    process: subprocess.Popen[bytes],
    stdin: queue.SimpleQueue[bytes],
    timeout: float | None,
) -> bool:
    """Carry the streams until the program has ended; True when it ran out of time."""
    assert process.stdout
    assert process.stderr
    deadline = None if timeout is None else time.monotonic() + timeout
    ended = os.pidfd_open(process.pid)
    try:
        with selectors.DefaultSelector() as waiting:
            waiting.register(process.stdout, selectors.EVENT_READ, b"O")
            waiting.register(process.stderr, selectors.EVENT_READ, b"E")
            waiting.register(ended, selectors.EVENT_READ, b"P")
            while waiting.get_map():
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    _end(process)
                    return True
                sock.settimeout(left)  # a reader that stalls must not outlast the deadline either
                _turn(waiting, sock, process, stdin, left)
    except TimeoutError as stalled:
        raise Closed("the other side does not read") from stalled
    finally:
        os.close(ended)
    return False


def _turn(
    waiting: selectors.BaseSelector,
    sock: socket.socket,
    process: subprocess.Popen[bytes],
    stdin: queue.SimpleQueue[bytes],
    left: float | None,
) -> None:
    """One round. Input that the program does not take is left in the socket, not in memory."""
    listening = stdin.qsize() < _WAITING_INPUT
    if listening:
        waiting.register(sock, selectors.EVENT_READ, None)
    pause = None if listening else 0.1
    ready = waiting.select(left if pause is None else min(pause, left or pause))
    if listening:
        waiting.unregister(sock)
    for key, _ in ready:
        if key.data is None:
            _input(sock, process, stdin)
        elif key.data == b"P":
            waiting.unregister(key.fileobj)
        else:
            _output(waiting, key, sock)


def _output(
    waiting: selectors.BaseSelector, key: selectors.SelectorKey, sock: socket.socket
) -> None:
    data = os.read(key.fd, _CHUNK)
    if data:
        send(sock, key.data, data)
    else:
        waiting.unregister(key.fileobj)


def _input(
    sock: socket.socket, process: subprocess.Popen[bytes], stdin: queue.SimpleQueue[bytes]
) -> None:
    kind, data = receive(sock)
    if kind == b"S":
        _end(process, int(data))
    elif kind == b"I":
        stdin.put(data)


def _feed(process: subprocess.Popen[bytes], waiting: queue.SimpleQueue[bytes]) -> None:
    """Standard input in a thread of its own: a program may not read while its output is full."""
    assert process.stdin
    with contextlib.suppress(BrokenPipeError), process.stdin as stdin:
        while data := waiting.get():
            stdin.write(data)
            stdin.flush()


def _failure(wrong: BaseException) -> bytes:
    number = wrong.errno if isinstance(wrong, OSError) and wrong.errno else errno.EINVAL
    return json.dumps({"errno": number, "message": str(wrong)}).encode()


def _serve(sock: socket.socket, secret: bytes) -> None:
    with sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            if not _authenticate(sock, secret):
                return
            while True:
                kind, payload = receive(sock)
                if kind != b"Q":
                    continue  # input for a program that has ended meanwhile
                try:
                    _answer(sock, json.loads(payload))
                except Closed:
                    raise
                except (OSError, ValueError, KeyError, TypeError) as wrong:
                    send(sock, b"F", _failure(wrong))
        except ConnectionError:
            return


def serve(listening: socket.socket, secret: bytes) -> None:
    """Answer for ever, each connection in a thread of its own."""
    while True:
        sock, _ = listening.accept()
        threading.Thread(target=_serve, args=(sock, secret), daemon=True).start()


def main() -> int:
    """Started by the node's init."""
    with open(SECRET, "rb") as file:
        secret = file.read()
    with socket.create_server((ADDRESS, PORT), backlog=64) as listening:
        print("LAB-READY", flush=True)
        serve(listening, secret)
    return 0


if __name__ == "__main__":
    sys.exit(main())
