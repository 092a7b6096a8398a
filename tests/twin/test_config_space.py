"""The encoder against the configuration space of a real igb (tests/data/lab/lspci-xxxx-PF.txt)."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from podrail.host.twins import config_space as cs
from podrail.host.twins import names, twin
from tests.twin.covers import covers

SAMPLE = Path(__file__).parent.parent / "data" / "lab" / "lspci-xxxx-PF.txt"


def sample() -> bytes:
    rows = [line.split(": ") for line in SAMPLE.read_text().splitlines()[1:] if ": " in line]
    return b"".join(bytes.fromhex(row) for _, row in rows)


def decode(raw: bytes) -> dict[str, Any]:
    """What a parser takes from config space, walked through the capability lists."""
    at = raw[0x34]
    while raw[at] != 0x10:
        at = raw[at + 1]
    flags, _, control, _ = struct.unpack_from("<HIHH", raw, at + 2)
    cap, _, _, status = struct.unpack_from("<HHHH", raw, at + 0x0C)
    out: dict[str, Any] = {
        "ids": struct.unpack_from("<HH", raw, 0),
        "class": raw[9:12],
        "revision": raw[8],
        "header": raw[0x0E],
        "subsystem": struct.unpack_from("<HH", raw, 0x2C),
        "port": flags >> 4 & 0xF,
        "version": flags & 0xF,
        "relaxed": bool(control & 0x10),
        "payload": 128 << (control >> 5 & 7),
        "read_request": 128 << (control >> 12 & 7),
        "link": (cap & 0xF, cap >> 4 & 0x3F, status & 0xF, status >> 4 & 0x3F),
        "extended": extended(raw),
    }
    iov = cs.find_extended(raw, 0x10)
    if iov is not None:
        out["sriov"] = struct.unpack_from("<HHH", raw, iov + 0x0C)
        out["enabled"] = raw[iov + 0x08]
        out["place"] = struct.unpack_from("<HH", raw, iov + 0x14)
        out["vf"] = struct.unpack_from("<HII", raw, iov + 0x1A)
    return out


def extended(raw: bytes) -> list[int]:
    found, at = [], 0x100
    while at:
        (word,) = struct.unpack_from("<I", raw, at)
        found.append(word & 0xFFFF)
        at = word >> 20
    return found


@covers("totalvfs-driver")
def test_the_igb_twin_decodes_as_the_real_card() -> None:
    host = twin("igb")
    host.write("/sys/class/net/ens2/device/sriov_numvfs", "4")
    got = decode(host.read_bytes("/sys/class/net/ens2/device/config"))
    assert got == decode(sample())
    assert got["sriov"] == (8, 8, 4)
    assert host.read("/sys/class/net/ens2/device/sriov_totalvfs") == "7\n"


def test_the_encoder_can_place_capabilities_as_the_card_does() -> None:
    raw = cs.encode(
        cs.Header(0x8086, 0x10C9, 0x020000, 1, (0x1AF4, 0x1100)),
        cs.Express(0, "2.5", 1, "2.5", 1, 128, 128, 128, relaxed_ordering=False),
        [cs.aer(0x100), cs.ari(at=0x150), cs.sriov(cs.Iov(8, 128, 2, 0x10CA, 4), at=0x160)],
        cs.Layout(power=0x40, express=0xA0),
    )
    real = sample()
    assert raw[0x164:0x184] == real[0x164:0x184]
    assert raw[0xA2:0xA4] == real[0xA2:0xA4]
    assert decode(raw) == decode(real)


@pytest.mark.parametrize("name", names())
def test_bridges_say_which_buses_are_below(name: str) -> None:
    host = twin(name)
    for function in host.functions.values():
        raw = host.read_bytes(f"{function.path}/config")
        assert struct.unpack_from("<HH", raw) == (function.spec.vendor, function.spec.device)
        assert len(raw) == (4096 if function.spec.kind not in ("conventional",) else 256)
        if function.spec.below:
            _, secondary, subordinate = raw[0x18:0x1B]
            buses = [int(child.address[5:7], 16) for child in function.spec.below]
            assert secondary == min(buses)
            assert subordinate >= max(buses)


def test_acs_is_found_on_a_switch() -> None:
    host = twin("roce-cx6")
    raw = host.read_bytes("/sys/bus/pci/devices/0000:99:00.0/config")
    at = cs.find_extended(raw, 0x0D)
    assert at is not None
    assert struct.unpack_from("<HH", raw, at + 4) == (0x5F, 0)


def test_a_vf_reads_ffff() -> None:
    host = twin("roce-cx6")
    host.write("/sys/class/net/ens8f0/device/sriov_numvfs", "1")
    raw = host.read_bytes("/sys/class/net/ens8f0/device/virtfn0/config")
    assert raw[:4] == b"\xff\xff\xff\xff"
