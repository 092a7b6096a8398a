"""What the kernel's messages say, and that nothing it or anyone else sends can do harm."""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import Iterator
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podrail.host import events
from podrail.host.seam import LOST, Event

NEW, DELETED, ADDRESS = 16, 17, 20  # RTM_NEWLINK, RTM_DELLINK, RTM_NEWADDR
BRIDGE = 7  # AF_BRIDGE


def uevent(action: str, path: str, **fields: str) -> bytes:
    known = {"ACTION": action, "DEVPATH": path, **fields}
    return "\0".join([f"{action}@{path}", *(f"{k}={v}" for k, v in known.items()), ""]).encode()


def attribute(kind: int, value: bytes) -> bytes:
    raw = struct.pack("=HH", 4 + len(value), kind) + value
    return raw + bytes(-len(raw) % 4)


def link(
    name: str, kind: int = NEW, *, family: int = 0, index: int = 3, before: bytes = b""
) -> bytes:
    attributes = before + attribute(3, name.encode() + b"\0") + attribute(4, bytes(4))
    body = struct.pack("=BxHiII", family, 1, index, 0x1003, 1) + attributes
    raw = struct.pack("=IHHII", 16 + len(body), kind, 0, 7, 0) + body
    return raw + bytes(-len(raw) % 4)


# --- what is said ---------------------------------------------------------------------------------


@pytest.mark.parametrize("action", sorted(events.ACTIONS))
def test_a_uevent(action: str) -> None:
    path = "/devices/pci0000:80/0000:80:01.0/0000:81:10.0/net/eth0"
    message = uevent(action, path, SUBSYSTEM="net", INTERFACE="eth0", IFINDEX="9", SEQNUM="4711")
    assert list(events.uevents(message)) == [Event("uevent", action, f"/sys{path}", "eth0", "net")]


def test_a_uevent_that_is_no_netdev() -> None:
    message = uevent("bind", "/devices/x/0000:81:10.0", SUBSYSTEM="pci", DRIVER="igbvf")
    assert list(events.uevents(message)) == [
        Event("uevent", "bind", "/sys/devices/x/0000:81:10.0", "", "pci")
    ]


def test_queues_are_left_out() -> None:
    path = "/devices/virtual/net/v0/queues/rx-0"
    assert list(events.uevents(uevent("add", path, SUBSYSTEM="queues"))) == []


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\0",
        b"libudev\0\xfe\xed\xca\xfe",
        uevent("explode", "/devices/x"),
        uevent("add", "devices/x"),
        b"add@/devices/x\0",
        b"add@/devices/x\0ACTION=add\0",
        b"add@/devices/x\0ACTION=add\0DEVPATH=/devices/y\0",
        b"remove@/devices/x\0ACTION=add\0DEVPATH=/devices/x\0",
    ],
)
def test_what_is_no_uevent_is_ignored(message: bytes) -> None:
    assert list(events.uevents(message)) == []


def test_the_first_of_a_key_given_twice_counts() -> None:
    message = uevent("add", "/devices/x", SUBSYSTEM="pci") + b"SUBSYSTEM=queues\0"
    assert [event.subsystem for event in events.uevents(message)] == ["pci"]


@pytest.mark.parametrize(("kind", "action"), [(NEW, "new"), (DELETED, "del")])
def test_a_link(kind: int, action: str) -> None:
    found = list(events.links(link("ens2v0", kind, before=attribute(10, b"abc"))))
    assert found == [Event("link", action, "", "ens2v0", "net")]


def test_many_links_in_one_datagram() -> None:
    message = b"".join(link(f"v{n}") for n in range(40))
    assert [event.name for event in events.links(message)] == [f"v{n}" for n in range(40)]


@pytest.mark.parametrize(
    "message",
    [
        link("v0", ADDRESS),
        link("v0", DELETED, family=BRIDGE),
        link("v0", index=0),
        link(""),
        link("sixteen-letters-"),
        link("v0", before=struct.pack("=HH", 3, 1)),
        link("v0", before=struct.pack("=HH", 60000, 1)),
        link("v0")[:20],
        struct.pack("=IHHII", 15, NEW, 0, 0, 0),
        struct.pack("=IHHII", 2**32 - 1, NEW, 0, 0, 0),
        struct.pack("=IHHII", 16, NEW, 0, 0, 0),
    ],
)
def test_what_is_no_link_is_ignored(message: bytes) -> None:
    assert list(events.links(message)) == []


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_no_bytes_do_harm(before: bytes, after: bytes) -> None:
    valid_uevent, valid_link = uevent("add", "/devices/x"), link("v0")
    for raw in (before, before + valid_uevent + after, valid_uevent + after):
        assert all(event.path.startswith("/sys/") for event in events.uevents(raw))
    assert next(events.links(valid_link + after)).name == "v0"
    assert all(0 < len(event.name) < 16 for event in events.links(before + valid_link))


@given(st.data())
def test_no_broken_link_message_does_harm(data: st.DataObject) -> None:
    raw = bytearray(link("ens2v0") + link("ens2v1", DELETED))
    for at in data.draw(st.lists(st.integers(0, len(raw) - 1), min_size=1, max_size=8)):
        raw[at] = data.draw(st.integers(0, 255))
    assert all(event.action in ("new", "del") for event in events.links(bytes(raw)))


# --- who said it, and what was missed -------------------------------------------------------------


Received = tuple[bytes, list[object], int, tuple[int, int]]


class Socket:
    """Gives these messages and failures, then nothing."""

    def __init__(self, *given: Received | OSError) -> None:
        self._given = iter(given)

    def recvmsg(self, size: int) -> Received:
        found = next(self._given, BlockingIOError(errno.EAGAIN, ""))
        if isinstance(found, OSError):
            raise found
        return found


def heard(*given: Received | OSError) -> list[Event]:
    found: Iterator[Event] = events._drain(cast(socket.socket, Socket(*given)), events.links)
    return list(found)


def test_only_the_kernel_is_believed() -> None:
    said: Received = (link("v0"), [], 0, (0, 1))
    forged: Received = (link("v1"), [], 0, (4711, 1))
    assert [event.name for event in heard(forged, said, forged)] == ["v0"]


def test_what_was_lost_is_said_and_what_is_left_is_heard() -> None:
    full = OSError(errno.ENOBUFS, "")
    cut: Received = (link("v0"), [], socket.MSG_TRUNC, (0, 1))
    assert heard(full, (link("v1"), [], 0, (0, 1)), cut) == [
        LOST,
        Event("link", "new", "", "v1", "net"),
        LOST,
    ]


def test_another_failure_is_one() -> None:
    with pytest.raises(OSError, match="gone"):
        heard(OSError(errno.EBADF, "gone"))


def test_a_storm_ends() -> None:
    said: Received = (link("v0"), [], 0, (0, 1))
    assert len(heard(*[said] * (events._AT_ONCE + 5))) == events._AT_ONCE
