"""PCI configuration space, encoded: what a parser of `config` finds on real hardware.

Offsets and bits are those of include/uapi/linux/pci_regs.h, which follow the PCI Express Base
Specification 6.0 chapter 7 and, for SR-IOV, chapter 9.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

SIZE = 4096

ROOT_PORT, UPSTREAM, DOWNSTREAM = 4, 5, 6  # PCI_EXP_TYPE_*
ENDPOINT, INTEGRATED = 0, 9

PORT_TYPES = {
    "endpoint": ENDPOINT,
    "root-port": ROOT_PORT,
    "upstream": UPSTREAM,
    "downstream": DOWNSTREAM,
    "integrated": INTEGRATED,
}

SPEEDS = {"Unknown": 0, "2.5": 1, "5.0": 2, "8.0": 3, "16.0": 4, "32.0": 5}

ACS_P2P_REDIRECT = 0x1D
"""SV, RR, CR and UF: what the kernel's pci_std_enable_acs() turns on."""


@dataclass(frozen=True, slots=True)
class Express:
    """The fields of the PCI Express capability that podrail reads."""

    port: int = ENDPOINT
    speed: str = "16.0"
    width: int = 16
    max_speed: str = "16.0"
    max_width: int = 16
    payload: int = 256
    max_payload: int = 512
    read_request: int = 512
    relaxed_ordering: bool = True


@dataclass(frozen=True, slots=True)
class Iov:
    """The SR-IOV capability."""

    total: int
    offset: int
    stride: int
    vf_device: int
    enabled: int = 0
    page_sizes: int = 0x553
    """4K, 8K, 64K, 256K, 1M and 4M, which the specification demands of every device."""


@dataclass(frozen=True, slots=True)
class Header:
    """The first 64 bytes; `buses` makes it a bridge (primary, secondary, subordinate)."""

    vendor: int
    device: int
    class_: int
    revision: int = 0
    subsystem: tuple[int, int] = (0, 0)
    buses: tuple[int, int, int] | None = None
    multifunction: bool = False


@dataclass(frozen=True, slots=True)
class Extended:
    """One extended capability: its id, version and the bytes after the header."""

    id: int
    version: int
    body: bytes
    at: int | None = None


@dataclass(frozen=True, slots=True)
class Layout:
    """Where a vendor put the capabilities of the first 256 bytes."""

    power: int = 0x40
    express: int = 0x60


USUAL = Layout()


def _log2_field(size: int) -> int:
    """128 → 0, 256 → 1 … 4096 → 5, as PCI_EXP_DEVCTL counts payloads and reads."""
    return size.bit_length() - 8


def aer(at: int | None = None) -> Extended:
    """Advanced error reporting, with nothing to report."""
    return Extended(0x01, 2, bytes(0x44), at)


def acs(control: int, offered: int = 0x5F) -> Extended:
    """Access control services: those offered, and those of them that are on."""
    return Extended(0x0D, 1, struct.pack("<HH", offered, control))


def ari(next_function: int = 0, at: int | None = None) -> Extended:
    """Alternative routing ids."""
    return Extended(0x0E, 1, struct.pack("<HH", next_function << 8, 0), at)


def ats(enabled: bool) -> Extended:
    """Address translation services."""
    return Extended(0x0F, 1, struct.pack("<HH", 0x0020, 0x8000 if enabled else 0))


def sriov(iov: Iov, at: int | None = None) -> Extended:
    """Single root I/O virtualisation (PCI_SRIOV_*)."""
    control = 0x10 | (0x09 if iov.enabled else 0)  # ARI hierarchy; VF enable and memory space
    body = struct.pack(
        "<IHHHHHBBHHHHII",
        0,
        control,
        0,
        iov.total,
        iov.total,
        iov.enabled,
        0,
        0,
        iov.offset,
        iov.stride,
        0,
        iov.vf_device,
        iov.page_sizes,
        1,
    )
    return Extended(0x10, 1, body + bytes(28), at)


def _header(out: bytearray, header: Header, first_capability: int) -> None:
    struct.pack_into("<HHHH", out, 0, header.vendor, header.device, 0x0547, 0x0010)
    struct.pack_into("<I", out, 8, header.class_ << 8 | header.revision)
    bridge = header.buses is not None
    out[0x0E] = (1 if bridge else 0) | (0x80 if header.multifunction else 0)
    out[0x34] = first_capability
    if header.buses is not None:
        struct.pack_into("<BBB", out, 0x18, *header.buses)
    else:
        struct.pack_into("<HH", out, 0x2C, *header.subsystem)


def _express(out: bytearray, at: int, express: Express) -> None:
    speed, top = SPEEDS[express.speed], SPEEDS[express.max_speed]
    control = _log2_field(express.payload) << 5 | _log2_field(express.read_request) << 12
    control |= 0x10 if express.relaxed_ordering else 0  # PCI_EXP_DEVCTL_RELAX_EN
    struct.pack_into("<BBH", out, at, 0x10, 0, express.port << 4 | 2)
    struct.pack_into("<I", out, at + 0x04, 0x10008020 | _log2_field(express.max_payload))
    struct.pack_into("<HH", out, at + 0x08, control, 0)
    struct.pack_into("<I", out, at + 0x0C, express.max_width << 4 | top)
    struct.pack_into("<HH", out, at + 0x10, 0x40, express.width << 4 | speed)


def _extended(out: bytearray, capabilities: Sequence[Extended]) -> None:
    at = 0x100
    places = []
    for capability in capabilities:
        at = capability.at or at
        places.append(at)
        out[at + 4 : at + 4 + len(capability.body)] = capability.body
        at = (at + 4 + len(capability.body) + 15) & ~15
    for place, following, capability in zip(places, [*places[1:], 0], capabilities, strict=False):
        word = capability.id | capability.version << 16 | following << 20
        struct.pack_into("<I", out, place, word)


def encode(
    header: Header,
    express: Express | None,
    extended: Sequence[Extended] = (),
    layout: Layout = USUAL,
) -> bytes:
    """The 4096 bytes of a PCI Express function, or 256 of a conventional one."""
    out = bytearray(SIZE if express else 256)
    _header(out, header, layout.power)
    struct.pack_into("<BBH", out, layout.power, 0x01, layout.express if express else 0, 0x0003)
    if express:
        _express(out, layout.express, express)
        _extended(out, extended)
    return bytes(out)


def find_extended(config: bytes, wanted: int) -> int | None:
    """The offset of an extended capability, walked as pci_find_ext_capability() does."""
    at = 0x100
    while at and at + 4 <= len(config):
        (word,) = struct.unpack_from("<I", config, at)
        if word & 0xFFFF == wanted:
            return at
        at = word >> 20
    return None


def with_vfs(config: bytes, count: int) -> bytes:
    """The same configuration space after SR-IOV was switched on with `count` VFs, or off."""
    at = find_extended(config, 0x10)
    if at is None:
        return config
    out = bytearray(config)
    struct.pack_into("<H", out, at + 0x08, 0x10 | (0x09 if count else 0))
    struct.pack_into("<H", out, at + 0x10, count)
    return bytes(out)
