"""The frames between the forwarder and the attach service.

A request is `PRCNI1 <env bytes> <stdin bytes>\\n`, the environment as `KEY=VALUE\\0` each, and
stdin as it came. An answer is `<exit code> <bytes>\\n` and what goes to stdout. The spool holds
requests as they would have been sent. `forwarder.c` writes the same frames.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

SOCKET = "/run/podrail/cni.sock"
SPOOL = "/var/lib/podrail/spool"
ENV_MAX = 64 * 1024
STDIN_MAX = 1024 * 1024
ANSWER_MAX = 1024 * 1024
HEADER_MAX = 64
FRAME_MAX = HEADER_MAX + ENV_MAX + STDIN_MAX
NAME = "PODRAIL_NAME"
"""The name the forwarder was called by."""

_HEADER = re.compile(rb"PRCNI1 (0|[1-9][0-9]{0,9}) (0|[1-9][0-9]{0,9})\n")
_ANSWER = re.compile(rb"(0|[1-9][0-9]{0,2}) (0|[1-9][0-9]{0,9})\n")
_KEY = re.compile(r"CNI_[A-Za-z0-9_]+|PODRAIL_NAME")


class WireError(Exception):
    """What came is no frame: what was found, and what was wanted."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One request as the forwarder saw it."""

    env: Mapping[str, str]
    stdin: bytes


@dataclass(frozen=True, slots=True)
class Answer:
    """What the forwarder is to print, and its exit code."""

    code: int
    body: bytes


@dataclass(frozen=True, slots=True)
class Header:
    """How long a request is, known before it is read."""

    size: int
    env: int
    stdin: int

    @property
    def total(self) -> int:
        return self.size + self.env + self.stdin


def frame(env: Mapping[str, str], stdin: bytes) -> bytes:
    """A request in bytes."""
    block = b"".join(f"{key}={value}\0".encode() for key, value in env.items())
    return b"PRCNI1 %d %d\n" % (len(block), len(stdin)) + block + stdin


def header(data: bytes | bytearray) -> Header | None:
    """The header at the start of `data`; None while it is not all there."""
    end = data.find(b"\n", 0, HEADER_MAX)
    if end < 0:
        if len(data) >= HEADER_MAX or not _may_begin(data):
            raise WireError(f"found {bytes(data[:16])!r}, wanted a line `PRCNI1 <env> <stdin>`")
        return None
    match = _HEADER.fullmatch(data, 0, end + 1)
    if match is None:
        raise WireError(f"found {bytes(data[: end + 1])!r}, wanted a line `PRCNI1 <env> <stdin>`")
    return _bounded(Header(end + 1, int(match[1]), int(match[2])))


def _may_begin(data: bytes | bytearray) -> bool:
    return b"PRCNI1 ".startswith(data[:7])


def _bounded(found: Header) -> Header:
    if found.env > ENV_MAX:
        raise WireError(f"found {found.env} bytes of environment, wanted at most {ENV_MAX}")
    if found.stdin > STDIN_MAX:
        raise WireError(f"found {found.stdin} bytes of configuration, wanted at most {STDIN_MAX}")
    return found


def unframe(data: bytes) -> Frame:
    """A whole request from its bytes, no more and no less."""
    found = header(data)
    if found is None or len(data) != found.total:
        wanted = found.total if found else "a whole header"
        raise WireError(f"found {len(data)} bytes, wanted {wanted}")
    split = found.size + found.env
    return Frame(_environment(bytes(data[found.size : split])), bytes(data[split:]))


def _environment(block: bytes) -> dict[str, str]:
    if not block:
        return {}
    if not block.endswith(b"\0"):
        raise WireError("the environment does not end with a NUL")
    env: dict[str, str] = {}
    for entry in block[:-1].split(b"\0"):
        key, value = _entry(entry)
        if key in env:
            raise WireError(f"{key} is there twice")
        env[key] = value
    return env


def _entry(entry: bytes) -> tuple[str, str]:
    try:
        key, equals, value = entry.decode().partition("=")
    except UnicodeDecodeError:
        raise WireError(f"found {entry[:40]!r} in the environment, wanted UTF-8") from None
    if not equals or not _KEY.fullmatch(key):
        raise WireError(f"found {entry[:40]!r} in the environment, wanted CNI_…=…")
    return key, value


def answer(code: int, body: bytes) -> bytes:
    """An answer in bytes."""
    return b"%d %d\n" % (code, len(body)) + body


def unanswer(data: bytes) -> Answer:
    """A whole answer from its bytes."""
    end = data.find(b"\n", 0, HEADER_MAX) + 1
    match = _ANSWER.fullmatch(data, 0, end) if end else None
    if match is None or int(match[1]) > 255 or len(data) - end != int(match[2]):
        raise WireError(f"found {data[:HEADER_MAX]!r}, wanted `<exit code> <bytes>` and the bytes")
    return Answer(int(match[1]), data[end:])
