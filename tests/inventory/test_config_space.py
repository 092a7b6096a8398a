"""PCI config space: the lab's igb, and capabilities put into it by hand."""

from __future__ import annotations

import pytest

from podrail.inventory import discover
from podrail.inventory.pci import parse_config
from tests.inventory.machines import PCI, bare, function, lab_config, unknown_paths


def with_extended(raw: bytes, cap: int, control: int, at: int = 0x1C0) -> bytes:
    """The lab's config space with one more capability after its last one (SR-IOV at 0x160)."""
    out = bytearray(raw)
    out[0x160:0x164] = (0x10 | 1 << 16 | at << 20).to_bytes(4, "little")
    out[at : at + 4] = (cap | 1 << 16).to_bytes(4, "little")
    out[at + 6 : at + 8] = control.to_bytes(2, "little")
    return bytes(out)


def test_lab_igb_agrees_with_lspci() -> None:
    found = parse_config(lab_config())
    assert (found.kind, found.relaxed_ordering) == ("endpoint", False)
    assert (found.max_payload, found.max_read_request) == (128, 128)
    assert (found.acs, found.ats) == (None, None)


@pytest.mark.parametrize("control", [0x0000, 0x001D, 0x005F])
def test_acs_control_register(control: int) -> None:
    assert parse_config(with_extended(lab_config(), 0x0D, control)).acs == control


@pytest.mark.parametrize(("control", "enabled"), [(0x8000, True), (0x001F, False)])
def test_ats_enable_bit(control: int, enabled: bool) -> None:
    assert parse_config(with_extended(lab_config(), 0x0F, control)).ats is enabled


def test_device_control_fields() -> None:
    raw = bytearray(lab_config())
    raw[0xA8:0xAA] = (5 << 12 | 2 << 5 | 1 << 4).to_bytes(2, "little")
    found = parse_config(bytes(raw))
    assert (found.relaxed_ordering, found.max_payload, found.max_read_request) == (True, 512, 4096)


@pytest.mark.parametrize(
    ("port_type", "kind"), [(4, "root-port"), (5, "upstream"), (6, "downstream"), (7, "bridge")]
)
def test_port_types(port_type: int, kind: str) -> None:
    raw = bytearray(lab_config())
    raw[0xA2] = port_type << 4 | 2
    assert parse_config(bytes(raw)).kind == kind


def test_a_looping_capability_list_ends() -> None:
    raw = bytearray(lab_config())
    raw[0x41] = 0x40
    raw[0x100:0x104] = (1 | 0x100 << 20).to_bytes(4, "little")
    assert parse_config(bytes(raw)).kind is None


def test_what_an_unprivileged_reader_gets_is_unknown() -> None:
    host = bare()
    function(host, "pci0000:00/0000:00:01.0")
    host.put("/sys/devices/pci0000:00/0000:00:01.0/config", lab_config()[:64])
    found = discover(host)
    assert found.pci[0].relaxed_ordering is None
    assert {f.path: f.reason for f in found.unknown}[f"{PCI}/0000:00:01.0/config"] == (
        "64 bytes of config space: reading the rest needs root"
    )


def link_files(width: str) -> dict[str, str]:
    speed = "32.0 GT/s PCIe"
    now = {"current_link_speed": "16.0 GT/s PCIe", "current_link_width": width}
    return {**now, "max_link_speed": speed, "max_link_width": "16"}


@pytest.mark.parametrize(("told", "width"), [("8", 8), ("255", None), ("0", None)])
def test_link_of_a_function(told: str, width: int | None) -> None:
    host = bare()
    function(host, "pci0000:00/0000:00:01.0", files=link_files(told))
    link = discover(host).pci[0].link
    assert link is not None
    assert (link.speed, link.width) == ("16.0 GT/s PCIe", width)
    assert (link.max_speed, link.max_width) == ("32.0 GT/s PCIe", 16)


def test_a_function_on_no_numa_node() -> None:
    host = bare()
    function(host, "pci0000:00/0000:00:01.0", numa=-1)
    assert discover(host).pci[0].numa is None


def test_the_tree_hangs_by_resolved_paths() -> None:
    host = bare()
    function(host, "pci0000:00/0000:00:04.0", class_="060400")
    function(host, "pci0000:00/0000:00:04.0/0000:01:00.0", numa=1)
    bridge, nic = discover(host).pci
    assert (bridge.parent, nic.parent, nic.numa) == (None, "0000:00:04.0", 1)
    assert f"{PCI}/0000:01:00.0/config" not in unknown_paths(discover(host).unknown)
