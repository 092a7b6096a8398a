"""A route socket in one network namespace: requests answered by the kernel, errors as OSError."""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
import struct
import threading
from types import TracebackType

from podrail.attach.kernel import message as m
from podrail.attach.kernel.message import Link, Network, VfWords
from podrail.attach.kernel.namespace import entered

_ROUTE = 0  # NETLINK_ROUTE
_SOL_NETLINK, _EXT_ACK, _CAP_ACK = 270, 11, 10
_BUFFER = 65536
_ACK_TLVS = 0x200  # NLM_F_ACK_TLVS
_MESSAGE = 1  # NLMSGERR_ATTR_MSG
_SECONDS = 10


class RouteSocket:
    """One conversation; several threads take turns."""

    def __init__(self, namespace: int | None = None) -> None:
        """In the namespace of an open file, or in the caller's own: a socket stays where it was
        made."""
        with entered(namespace):
            self._socket = socket.socket(
                socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _ROUTE
            )
        self._socket.setsockopt(_SOL_NETLINK, _EXT_ACK, 1)
        self._socket.setsockopt(_SOL_NETLINK, _CAP_ACK, 1)
        timeout = struct.pack("ll", _SECONDS, 0)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, timeout)
        self._sequence, self._turn = 0, threading.Lock()

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> RouteSocket:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, no: BaseException | None, at: TracebackType | None
    ) -> None:
        self.close()

    # --- what is asked ------------------------------------------------------------------------

    def link(self, *, index: int = 0, name: str = "") -> Link:
        """One link; ENODEV where there is none."""
        (body,) = self._ask(m.GETLINK, 0, m.get_link(index=index, name=name), name or str(index))
        return m.link_of(body)

    def set_link(
        self, index: int, *, up: bool | None = None, name: str | None = None,
        mtu: int | None = None, address: str | None = None, namespace: int | None = None,
    ) -> None:  # fmt: skip
        body = m.set_link(
            index, up=up, name=name, mtu=mtu, address=address, namespace=namespace
        )  # fmt: skip
        self._ask(m.NEWLINK, m.ACK, body, f"link {index}")

    def drop_altname(self, index: int, name: str) -> None:
        self._ask(m.DELLINKPROP, m.ACK, m.altname(index, name), name)

    def set_vf(self, pf: int, vf: VfWords) -> None:
        self._ask(m.SETLINK, m.ACK, m.set_vf(pf, vf), f"vf {vf.index}")

    def add_address(self, index: int, interface: Network, *, optimistic: bool = False) -> None:
        flags = m.ACK | m.CREATE | m.EXCLUSIVE
        body = m.add_address(index, interface, optimistic=optimistic)
        self._ask(m.NEWADDR, flags, body, str(interface))

    def add_route(
        self, index: int, destination: ipaddress.IPv4Network | ipaddress.IPv6Network,
        gateway: str | None = None,
    ) -> None:  # fmt: skip
        flags = m.ACK | m.CREATE | m.EXCLUSIVE
        body = m.add_route(index, destination, gateway)
        self._ask(m.NEWROUTE, flags, body, str(destination))

    # --- the wire -----------------------------------------------------------------------------

    def _ask(self, kind: int, flags: int, body: bytes, about: str) -> list[bytes]:
        with self._turn:
            self._sequence += 1
            self._socket.send(m.message(kind, flags | m.REQUEST, self._sequence, body))
            return self._answers(self._sequence, about, acked=bool(flags & m.ACK))

    def _answers(self, sequence: int, about: str, *, acked: bool) -> list[bytes]:
        found: list[bytes] = []
        while True:
            data = self._receive(about)
            for kind, flags, number, body in m.messages(data):
                if number != sequence:
                    continue  # an answer that came after its question was given up
                if kind == m.ERROR:
                    _raise(body, flags, about)
                    return found
                if kind == m.DONE:
                    return found
                found.append(body)
                if not acked and not flags & m.MULTI:
                    return found

    def _receive(self, about: str) -> bytes:
        try:
            return self._socket.recv(_BUFFER)
        except BlockingIOError as no:
            reason = f"the kernel did not answer within {_SECONDS} s"
            raise TimeoutError(errno.ETIMEDOUT, reason, about) from no


def _raise(body: bytes, flags: int, about: str) -> None:
    code = m.error_of(body)
    if not code:
        return
    told = dict(m.attributes(body[20:])) if flags & _ACK_TLVS else {}
    said = told.get(_MESSAGE, b"").rstrip(b"\0").decode("utf-8", "replace")
    raise OSError(code, said or os.strerror(code), about)
