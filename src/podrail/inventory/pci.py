"""The PCI tree: bridges and endpoints, their links, and what their config space says."""

from __future__ import annotations

import re
from dataclasses import dataclass

from podrail.inventory.reader import Reader, number
from podrail.model.inventory import PciDevice, PcieLink

DEVICES = "/sys/bus/pci/devices"

ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]", re.ASCII)

NETWORK = ("0200", "0207", "0280")
_BRIDGE = "0604"

# include/uapi/linux/pci_regs.h
_STATUS, _STATUS_CAP_LIST, _CAP_POINTER = 0x06, 0x10, 0x34
_CAP_EXP, _EXP_FLAGS, _EXP_DEVCTL = 0x10, 2, 8
_EXT_START, _EXT_ACS, _EXT_ATS, _EXT_CONTROL = 0x100, 0x0D, 0x0F, 6
_ATS_ENABLE, _RELAX_ENABLE = 0x8000, 0x0010
_PORT_TYPES = {
    0: "endpoint",
    1: "endpoint",
    4: "root-port",
    5: "upstream",
    6: "downstream",
    7: "bridge",
    8: "bridge",
    9: "endpoint",
}


@dataclass(frozen=True, slots=True)
class Config:
    """What is wanted of a function's configuration space."""

    kind: str | None = None
    acs: int | None = None
    ats: bool | None = None
    relaxed_ordering: bool | None = None
    max_read_request: int | None = None
    max_payload: int | None = None


@dataclass(frozen=True, slots=True)
class Tree:
    """The functions that are no VFs, and the file names each function has, VFs included."""

    devices: tuple[PciDevice, ...]
    names: dict[str, frozenset[str]]

    def has(self, address: str, name: str) -> bool:
        return name in self.names.get(address, ())


def is_gpu(device: PciDevice) -> bool:
    """NVIDIA's display and 3D controllers, and processing accelerators of any make."""
    base = device.class_[:4]
    return base == "1200" or (device.vendor == "10de" and base in ("0300", "0302"))


def is_nic(device: PciDevice) -> bool:
    return device.class_[:4] in NETWORK


def scan(reader: Reader) -> Tree:
    """Every function of /sys/bus/pci/devices; a VF costs one directory listing."""
    names = {
        address: frozenset(reader.names(f"{DEVICES}/{address}"))
        for address in reader.names(DEVICES, absent="the machine shows no PCI bus")
        if ADDRESS.fullmatch(address)
    }
    own = sorted((a for a, files in names.items() if "physfn" not in files), key=_order)
    return Tree(tuple(_device(reader, a, names[a]) for a in own), names)


def _order(address: str) -> tuple[int, str]:
    return len(address), address


def _device(reader: Reader, address: str, names: frozenset[str]) -> PciDevice:
    at = f"{DEVICES}/{address}"
    bare = PciDevice(
        address=address,
        vendor=hex_id(reader, f"{at}/vendor", 4),
        device=hex_id(reader, f"{at}/device", 4),
        class_=hex_id(reader, f"{at}/class", 6),
    )
    wanted = bare.class_[:4] == _BRIDGE or is_nic(bare) or is_gpu(bare)
    config = read_config(reader, f"{at}/config") if wanted else Config()
    return PciDevice(
        address=address,
        vendor=bare.vendor,
        device=bare.device,
        class_=bare.class_,
        parent=_parent(reader.resolve(at)),
        driver=reader.link(f"{at}/driver") if "driver" in names else None,
        numa=numa_of(reader, at),
        iommu_group=group_of(reader, at) if "iommu_group" in names else None,
        kind=config.kind or ("bridge" if bare.class_[:4] == _BRIDGE else None),
        link=_link(reader, at) if "max_link_speed" in names else None,
        acs=config.acs,
        ats=config.ats,
        relaxed_ordering=config.relaxed_ordering,
        max_read_request=config.max_read_request,
        max_payload=config.max_payload,
    )


def hex_id(reader: Reader, path: str, digits: int) -> str:
    """`0x15b3` as `15b3`; empty where it cannot be read."""
    text = (reader.text(path, absent="no such file") or "").lower().removeprefix("0x")
    return text if re.fullmatch(rf"[0-9a-f]{{{digits}}}", text) else ""


def numa_of(reader: Reader, at: str) -> int | None:
    node = reader.integer(f"{at}/numa_node")
    return node if node is not None and node >= 0 else None


def group_of(reader: Reader, at: str) -> int | None:
    return number(reader.link(f"{at}/iommu_group"))


def _parent(resolved: str | None) -> str | None:
    above = (resolved or "").split("/")[-2:-1]
    return above[0] if above and ADDRESS.fullmatch(above[0]) else None


def _link(reader: Reader, at: str) -> PcieLink | None:
    link = PcieLink(
        speed=_speed(reader.text(f"{at}/current_link_speed", quiet=True)),
        width=_width(reader.integer(f"{at}/current_link_width", quiet=True)),
        max_speed=_speed(reader.text(f"{at}/max_link_speed", quiet=True)),
        max_width=_width(reader.integer(f"{at}/max_link_width", quiet=True)),
    )
    return link if link.max_speed or link.max_width else None


def _speed(text: str | None) -> str | None:
    return text if text and text[0].isdigit() else None


def _width(lanes: int | None) -> int | None:
    # pci-sysfs.c prints PCIE_LNK_WIDTH_UNKNOWN (255) for functions inside the root complex
    return lanes if lanes is not None and 0 < lanes < 255 else None


# --- config space -------------------------------------------------------------------------------


def read_config(reader: Reader, path: str) -> Config:
    """The parsed config space; the kernel gives an unprivileged reader 64 bytes of it."""
    raw = reader.raw(path, absent="no such file")
    if raw is None:
        return Config()
    if len(raw) < 0x100:
        reader.note(path, f"{len(raw)} bytes of config space: reading the rest needs root")
        return Config()
    config = parse_config(raw)
    if config.kind and len(raw) <= _EXT_START:
        reader.note(path, "no extended config space: ACS and ATS are not visible")
    return config


def parse_config(raw: bytes) -> Config:
    """PCIe capability, ACS and ATS of at least 256 bytes of config space."""
    at = _capability(raw, _CAP_EXP)
    if at is None:
        return Config()
    control = _u16(raw, at + _EXP_DEVCTL)
    acs = _extended(raw, _EXT_ACS)
    ats = _extended(raw, _EXT_ATS)
    return Config(
        kind=_PORT_TYPES.get(_u16(raw, at + _EXP_FLAGS) >> 4 & 0xF),
        acs=None if acs is None else _u16(raw, acs + _EXT_CONTROL),
        ats=None if ats is None else bool(_u16(raw, ats + _EXT_CONTROL) & _ATS_ENABLE),
        relaxed_ordering=bool(control & _RELAX_ENABLE),
        max_read_request=128 << (control >> 12 & 7),
        max_payload=128 << (control >> 5 & 7),
    )


def _u16(raw: bytes, at: int) -> int:
    return int.from_bytes(raw[at : at + 2], "little")


def _capability(raw: bytes, wanted: int) -> int | None:
    if not _u16(raw, _STATUS) & _STATUS_CAP_LIST:
        return None
    at, seen = raw[_CAP_POINTER] & 0xFC, set[int]()
    while at >= 0x40 and at not in seen:
        if raw[at] == wanted:
            return at
        seen.add(at)
        at = raw[at + 1] & 0xFC
    return None


def _extended(raw: bytes, wanted: int) -> int | None:
    at, seen = _EXT_START, set[int]()
    while _EXT_START <= at <= len(raw) - 8 and at not in seen:
        header = int.from_bytes(raw[at : at + 4], "little")
        if header & 0xFFFF == wanted:
            return at
        seen.add(at)
        at = header >> 20 & 0xFFC
    return None
