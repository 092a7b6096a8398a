"""The hub: a switch with cables that can be bad."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from podrail.lab.hub import Plug, Segment, Wire

BROADCAST = b"\xff" * 6
A, B, C = (bytes([2, 0, 0, 0, 0, n]) for n in (1, 2, 3))


def frame(to: bytes, sender: bytes, size: int = 60) -> bytes:
    return (to + sender).ljust(size, b"\x00")


class Bench:
    """Three NICs on one segment, with the far ends in our hands."""

    def __init__(self, folder: Path) -> None:
        self.now = 0.0
        self.plugs = [Plug(folder / f"hub{n}", folder / f"nic{n}") for n in range(3)]
        self.ends = []
        for plug in self.plugs:
            plug.open()
            end = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
            end.bind(str(plug.theirs))
            self.ends.append(end)
        self.segment = Segment(self.plugs, clock=lambda: self.now)

    def send(self, nic: int, data: bytes) -> list[int]:
        """Who hears a frame that NIC sends."""
        self.ends[nic].sendto(data, str(self.plugs[nic].mine))
        self.segment.drain(self.plugs[nic])
        return [n for n, end in enumerate(self.ends) if self._got(end) == data]

    @staticmethod
    def _got(end: socket.socket) -> bytes | None:
        try:
            return end.recv(65536)
        except BlockingIOError:
            return None


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    for sock in [*made.ends, *(plug.sock for plug in made.plugs)]:
        assert sock is not None
        sock.close()


def test_unknown_and_broadcast_go_to_all_but_the_sender(bench: Bench) -> None:
    assert bench.send(0, frame(BROADCAST, A)) == [1, 2]
    assert bench.send(0, frame(C, A)) == [1, 2]


def test_a_learned_address_goes_to_its_nic_alone(bench: Bench) -> None:
    bench.send(1, frame(BROADCAST, B))
    assert bench.send(0, frame(B, A)) == [1]


def test_a_cut_wire_hears_and_says_nothing(bench: Bench) -> None:
    bench.plugs[1].wire.cut = True
    assert bench.send(0, frame(BROADCAST, A)) == [2]
    assert bench.send(1, frame(BROADCAST, B)) == []


def test_frames_over_the_wires_mtu_are_lost_and_others_pass(bench: Bench) -> None:
    bench.plugs[1].wire.mtu = 1500
    assert bench.send(0, frame(BROADCAST, A, 1518)) == [1, 2]
    assert bench.send(0, frame(BROADCAST, A, 1519)) == [2]


def test_a_policed_wire_passes_its_rate_over_time() -> None:
    wire = Wire(rate=1_000_000)
    passed = sum(wire.passes(1000, now=n / 4000) * 1000 for n in range(40_000))
    assert 10_000_000 <= passed <= 10_000_000 + 131_072 + 1000


def test_a_node_that_is_off_disturbs_nobody(bench: Bench) -> None:
    bench.ends[1].close()
    bench.plugs[1].theirs.unlink()
    bench.ends[1] = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    assert bench.send(0, frame(BROADCAST, A)) == [2]


def test_a_runt_is_no_frame(bench: Bench) -> None:
    assert bench.send(0, b"short") == []
