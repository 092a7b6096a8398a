"""The data plane: one Ethernet segment per rail, and what can go wrong on a wire.

QEMU hands each frame over as one datagram. A segment learns addresses like a switch; a wire can be
cut, given an MTU, or a rate. Nothing is kept when the receiver is full, as on a real wire.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

_HEADER = 18
"""Ethernet header with one VLAN tag: what a frame may have beyond the MTU."""
_BURST = 131072
_BUFFER = 4 << 20
_GROUP_BIT = 1
_ADDRESSES = 4096


@dataclass(slots=True)
class Wire:
    """What a cable does to frames."""

    cut: bool = False
    mtu: int | None = None
    rate: int | None = None
    """Bytes per second."""
    _tokens: float = _BURST
    _at: float = 0.0

    def passes(self, size: int, now: float) -> bool:
        """Whether a frame of this size gets through at this moment."""
        if self.cut or (self.mtu is not None and size > self.mtu + _HEADER):
            return False
        if self.rate is None:
            return True
        self._tokens = min(_BURST, self._tokens + (now - self._at) * self.rate)
        self._at = now
        if size > self._tokens:
            return False
        self._tokens -= size
        return True


@dataclass(slots=True)
class Plug:
    """One NIC's place on a segment: the hub's socket and QEMU's."""

    mine: Path
    theirs: Path
    wire: Wire = field(default_factory=Wire)
    sock: socket.socket | None = None

    def open(self) -> socket.socket:
        self.mine.unlink(missing_ok=True)
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            self.sock.setsockopt(socket.SOL_SOCKET, option, _BUFFER)
        self.sock.bind(str(self.mine))
        return self.sock

    def send(self, frame: bytes) -> None:
        assert self.sock is not None
        # a full queue drops, a node that is off hears nothing
        with contextlib.suppress(OSError):
            self.sock.sendto(frame, str(self.theirs))


class Segment:
    """The NICs of one rail."""

    def __init__(self, plugs: Iterable[Plug], clock: Callable[[], float] = time.monotonic) -> None:
        self.plugs = tuple(plugs)
        self._clock = clock
        self._seen: dict[bytes, Plug] = {}

    def forward(self, source: Plug, frame: bytes) -> None:
        """One frame, to whom it is for, or to all while that is not known."""
        now = self._clock()
        if len(frame) < 14 or not source.wire.passes(len(frame), now):
            return
        to, sender = frame[:6], frame[6:12]
        if len(self._seen) >= _ADDRESSES:
            self._seen.clear()
        self._seen[sender] = source
        known = None if to[0] & _GROUP_BIT else self._seen.get(to)
        for plug in (known,) if known else self.plugs:
            if plug is not source and plug.wire.passes(len(frame), now):
                plug.send(frame)

    def drain(self, plug: Plug) -> None:
        """Forward what has arrived, a bounded number of frames at a time."""
        assert plug.sock is not None
        for _ in range(64):
            try:
                frame = plug.sock.recv(65536)
            except BlockingIOError:
                return
            self.forward(plug, frame)
