"""The twin of forwarder.c, for where no compiler is. It is copied alone: standard library only.

Started once per request, so it imports little; `_socket` is `socket` without the classes around it,
which would double the time to start.
"""

from __future__ import annotations

import _socket
import errno
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

SOCKET, SPOOL = "/run/podrail/cni.sock", "/var/lib/podrail/spool"
SECONDS, PATIENCE = 220.0, 2.0  # the kubelet gives up after 4 minutes
_HEADER_MAX, _ENV_MAX, _STDIN_MAX, _ANSWER_MAX = 64, 64 << 10, 1 << 20, 1 << 20
_BAD_ENV, _IO_FAILURE, _BAD_CONFIG, _TRY_AGAIN = 4, 5, 7, 11
_VERSION = b'{"cniVersion":"1.1.0","supportedVersions":["0.3.0","0.3.1","0.4.0","1.0.0","1.1.0"]}\n'
_DOWN = (errno.ENOENT, errno.ECONNREFUSED, errno.ECONNRESET, errno.EPIPE)
_DIR = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def main() -> int:
    try:
        os.fstat(1)
    except OSError:
        return 2  # the next descriptor would become stdout
    command = os.environ.get("CNI_COMMAND", "")
    if not command:
        _fail(b"", _BAD_ENV, "CNI_COMMAND is not set: a runtime calls this")
    if command == "VERSION":
        return _put(1, _VERSION)
    until = time.monotonic() + SECONDS
    env = _environment()
    stdin = _stdin(until)
    frame = b"PRCNI1 %d %d\n" % (len(env), len(stdin)) + env + stdin
    try:
        code, body = _whole(_exchange(frame, until))
    except OSError as no:
        return _unanswered(command, frame, stdin, no)
    return _put(1, body) or code


def _fail(stdin: bytes, code: int, msg: str) -> NoReturn:
    plain = "".join("?" if c < " " or c in '"\\\x7f' else c for c in msg)
    body = f'{{"cniVersion":"{_version(stdin)}","code":{code},"msg":"{plain}"}}\n'
    sys.exit(2 if _put(1, body.encode(errors="surrogateescape")) else 1)


def _version(stdin: bytes) -> str:
    """The version of the configuration, by a scan that takes nothing but digits and dots."""
    found = stdin.partition(b"\0")[0].partition(b'"cniVersion"')[2].lstrip(b" \t\r\n")
    if found[:1] == b":":
        found = found[1:].lstrip(b" \t\r\n")
    text, quote, _ = found[1:17].partition(b'"')
    good = found[:1] == b'"' and quote and 0 < len(text) < 16 and not text.strip(b"0123456789.")
    return text.decode() if good else "1.0.0"


def _environment() -> bytes:
    name = os.fsencode(sys.argv[0]).rpartition(b"/")[2]
    cni = [key + b"=" + value for key, value in os.environb.items() if key[:4] == b"CNI_"]
    block = b"\0".join((b"PODRAIL_NAME=" + name, *cni, b""))
    if len(block) > _ENV_MAX:
        _fail(b"", _BAD_ENV, f"found more than {_ENV_MAX} bytes of CNI_*")
    return block


def _stdin(until: float) -> bytes:
    import select  # here, since the usual request has been written before we look

    poll, found = select.poll(), bytearray()
    poll.register(0, select.POLLIN)
    try:
        while len(found) <= _STDIN_MAX:
            if not poll.poll(max(0.0, until - time.monotonic()) * 1000):
                raise OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))
            more = os.read(0, _STDIN_MAX + 1 - len(found))
            if not more:
                return bytes(found)
            found += more
    except OSError as no:
        _fail(bytes(found), _IO_FAILURE, f"stdin cannot be read: {no.strerror}")
    _fail(bytes(found), _BAD_CONFIG, f"found more than {_STDIN_MAX} bytes on stdin")


def _exchange(frame: bytes, until: float) -> bytes:
    """Send the frame, receive an answer; OSError with the reason."""
    sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
    # With a full backlog connect waits as long as send: net/unix/af_unix.c:unix_stream_connect.
    sock.setsockopt(_socket.SOL_SOCKET, _socket.SO_SNDTIMEO, _timeval(PATIENCE))
    try:
        sock.connect(SOCKET)
    except BlockingIOError:
        raise OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT)) from None
    _send(sock, frame, until)
    return _receive(sock, until)


def _timeval(seconds: float) -> bytes:
    """struct timeval, of two longs."""
    whole = int(seconds)
    parts = (whole, int((seconds - whole) * 1e6))
    return b"".join(part.to_bytes(8, sys.byteorder) for part in parts)


def _left(until: float) -> float:
    """0 would be a socket that does not wait."""
    return max(until - time.monotonic(), 0.001)


def _send(sock: _socket.socket, frame: bytes, until: float) -> None:
    rest = memoryview(frame)
    try:
        while rest:
            sock.settimeout(_left(until))
            rest = rest[sock.send(rest, _socket.MSG_NOSIGNAL) :]
    except TimeoutError:
        raise OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT)) from None
    except ConnectionError:
        return  # refused? see what it says


def _receive(sock: _socket.socket, until: float) -> bytes:
    found = bytearray()
    try:
        while len(found) <= _HEADER_MAX + _ANSWER_MAX:
            sock.settimeout(_left(until))
            more = sock.recv(65536)
            if not more:
                break
            found += more
    except TimeoutError:
        raise OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT)) from None
    except ConnectionResetError:
        return bytes(found)  # what came before it counts
    return bytes(found)


def _whole(answer: bytes) -> tuple[int, bytes]:
    """The exit code and the body of a whole answer; ECONNRESET where it is not."""
    head, newline, body = answer.partition(b"\n")
    code, space, size = head.partition(b" ")
    good = newline and space and code.isdigit() and size.isdigit() and len(head) < _HEADER_MAX
    if not good or int(code) > 255 or len(body) != int(size) or len(body) > _ANSWER_MAX:
        raise OSError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
    return int(code), body


def _unanswered(command: str, frame: bytes, stdin: bytes, no: OSError) -> int:
    if no.errno not in _DOWN or command not in ("DEL", "GC"):
        where = f"no answer from podrail's attach service at {SOCKET}"
        _fail(stdin, _TRY_AGAIN, f"{where}: {no.strerror}; see its log")
    try:
        _spool(frame)
    except OSError as full:
        _fail(stdin, _IO_FAILURE, f"{command} cannot be kept in {SPOOL}: {full.strerror}")
    return 0


def _spool(frame: bytes) -> None:
    """Write the frame where the service finds it when it starts."""
    name = f"{time.time_ns():020d}-{os.getpid()}.cni"
    temp = f".{name}.tmp"
    for place in (os.path.dirname(SPOOL), SPOOL):
        _make(place)
    spool = os.open(SPOOL, _DIR)
    found = os.fstat(spool)
    if found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))
    fd = os.open(temp, _NEW, 0o600, dir_fd=spool)
    try:
        if _put(fd, frame):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        os.fsync(fd)
        os.rename(temp, name, src_dir_fd=spool, dst_dir_fd=spool)
    except OSError:
        os.unlink(temp, dir_fd=spool)
        raise
    os.fsync(spool)


def _make(path: str) -> None:
    """Durably."""
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        return
    up = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    os.fsync(up)


def _put(fd: int, data: bytes) -> int:
    rest = memoryview(data)
    try:
        while rest:
            rest = rest[os.write(fd, rest) :]
    except OSError:
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
