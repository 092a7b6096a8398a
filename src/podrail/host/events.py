"""What the kernel tells: uevents and link messages, over netlink.

Two sources, because neither tells all: a driver bound to a function is a uevent only, an MTU that
changed is a link message only. Both are heard in the network namespace of this process, whatever
root a host has. What is malformed is ignored, what was lost is said (`seam.LOST`).
"""

from __future__ import annotations

import errno
import os
import selectors
import socket
import struct
from collections.abc import Callable, Iterator
from time import monotonic
from typing import Self

from podrail.host.seam import LOST, Event

_KOBJECT_UEVENT = 15  # include/uapi/linux/netlink.h:NETLINK_KOBJECT_UEVENT
_KERNEL_GROUP = 1  # lib/kobject_uevent.c sends to group 1, udevd to group 2
_LINK_GROUP = 1  # include/uapi/linux/rtnetlink.h:RTMGRP_LINK
_SO_RCVBUFFORCE = 33  # include/uapi/asm-generic/socket.h

_BUFFER = 16 << 20
_MESSAGE = 65536
_AT_ONCE = 4096
"""Messages taken in one go: a storm may not keep `wait` from coming back."""

# lib/kobject_uevent.c:kobject_actions
ACTIONS = frozenset({"add", "remove", "change", "move", "online", "offline", "bind", "unbind"})
_NOISE = frozenset({"queues"})
"""One uevent per queue of a netdev, which tell nothing that the netdev's own does not."""

_HEADER = struct.Struct("=IHHII")  # struct nlmsghdr
_INFO = struct.Struct("=BxHiII")  # struct ifinfomsg
_ATTRIBUTE = struct.Struct("=HH")  # struct nlattr
_LINK_ACTIONS = {16: "new", 17: "del"}  # RTM_NEWLINK, RTM_DELLINK
_IFNAME, _TYPE = 3, 0x3FFF  # IFLA_IFNAME, NLA_TYPE_MASK
_NAME_SIZE = 16  # IFNAMSIZ

Parse = Callable[[bytes], Iterator[Event]]


def uevents(message: bytes) -> Iterator[Event]:
    """The event of one message: `ACTION@DEVPATH`, then KEY=VALUE, each ended by a zero byte."""
    head, *fields = os.fsdecode(message).split("\0")
    known = dict(reversed([field.partition("=")[::2] for field in fields]))
    action, path, subsystem = (known.get(key, "") for key in ("ACTION", "DEVPATH", "SUBSYSTEM"))
    if action not in ACTIONS or not path.startswith("/") or head != f"{action}@{path}":
        return
    if subsystem not in _NOISE:
        yield Event("uevent", action, f"/sys{path}", known.get("INTERFACE", ""), subsystem)


def links(message: bytes) -> Iterator[Event]:
    """The events of a datagram of netlink messages; the rest after a malformed one is ignored."""
    at = 0
    while at + _HEADER.size <= len(message):
        length, kind, *_ = _HEADER.unpack_from(message, at)
        if length < _HEADER.size or at + length > len(message):
            return
        yield from _link(kind, message[at + _HEADER.size : at + length])
        at += _aligned(length)


def _aligned(length: int) -> int:
    return (length + 3) & ~3


def _link(kind: int, body: bytes) -> Iterator[Event]:
    action = _LINK_ACTIONS.get(kind)
    if action is None or len(body) < _INFO.size:
        return
    family, _, index, *_ = _INFO.unpack_from(body)
    # net/bridge/br_netlink.c:br_ifinfo_notify: a port that leaves its bridge is "deleted" too
    if family != socket.AF_UNSPEC or index <= 0:
        return
    if name := _name(body[_INFO.size :]):
        yield Event("link", action, name=name, subsystem="net")


def _name(attributes: bytes) -> str:
    at = 0
    while at + _ATTRIBUTE.size <= len(attributes):
        length, kind = _ATTRIBUTE.unpack_from(attributes, at)
        if length < _ATTRIBUTE.size or at + length > len(attributes):
            return ""
        if kind & _TYPE == _IFNAME:
            raw = attributes[at + _ATTRIBUTE.size : at + length].partition(b"\0")[0]
            return os.fsdecode(raw) if len(raw) < _NAME_SIZE else ""
        at += _aligned(length)
    return ""


def _drain(sock: socket.socket, parse: Parse) -> Iterator[Event]:
    """What waits in a socket. Only the kernel's own word counts: its port is 0 (netlink(7))."""
    for _ in range(_AT_ONCE):
        try:
            message, _, flags, sender = sock.recvmsg(_MESSAGE)
        except BlockingIOError:
            return
        except OSError as failure:
            if failure.errno != errno.ENOBUFS:
                raise
            yield LOST
            continue
        if sender[0] != 0:
            continue
        if flags & socket.MSG_TRUNC:
            yield LOST
        else:
            yield from parse(message)


def _open(protocol: int, group: int) -> socket.socket:
    kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
    sock = socket.socket(socket.AF_NETLINK, kind, protocol)
    try:
        _enlarge(sock)
        sock.bind((0, group))
    except BaseException:
        sock.close()
        raise
    return sock


def _enlarge(sock: socket.socket) -> None:
    try:
        sock.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER)
    except PermissionError:  # without CAP_NET_ADMIN net.core.rmem_max is the most there is
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)


class KernelWatch:
    """The uevents and link messages of this machine's kernel."""

    timeless = False

    def __init__(self) -> None:
        self._ready = selectors.EpollSelector()
        self._sockets: list[socket.socket] = []
        try:
            self._hear(_KOBJECT_UEVENT, _KERNEL_GROUP, uevents)
            self._hear(socket.NETLINK_ROUTE, _LINK_GROUP, links)
        except BaseException:
            self.close()
            raise

    def _hear(self, protocol: int, group: int, parse: Parse) -> None:
        sock = _open(protocol, group)
        self._sockets.append(sock)
        self._ready.register(sock, selectors.EVENT_READ, (sock, parse))

    def wait(self, timeout: float | None) -> tuple[Event, ...]:
        deadline = None if timeout is None else monotonic() + timeout
        while True:
            left = None if deadline is None else max(0.0, deadline - monotonic())
            found = [event for key, _ in self._ready.select(left) for event in _drain(*key.data)]
            if found or (deadline is not None and monotonic() >= deadline):
                return tuple(found)

    def fileno(self) -> int:
        return self._ready.fileno()

    def close(self) -> None:
        self._ready.close()
        for sock in self._sockets:
            sock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
