"""Settings in a card's flash."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podrail.host.twins import twin
from podrail.host.twins.reboot import reboot
from podrail.realise.kinds import firmware
from podrail.realise.kinds.firmware import Firmware, Setting
from podrail.realise.step import Failed, Gone, Step
from tests.twin.faulted import fault

PCI, OTHER = "0000:9c:00.0", "0000:9c:00.1"
SAMPLE = Path(__file__).parent.parent / "data" / "programs" / "mstconfig-e-q.composed.txt"
QUERY = f"program:mstconfig -e -d {PCI} q"


def step(**wanted: object) -> Step:
    return Step("firmware", PCI, wanted)


# --- reading ----------------------------------------------------------------------------------


def test_the_table() -> None:
    assert firmware.parse(SAMPLE.read_text()) == {
        "MEMIC_BAR_SIZE": Setting(0, 0, 0),
        "MEMIC_SIZE_LIMIT": Setting(1, 1, 1),
        "HOST_CHAINING_DESCRIPTORS": Setting("Array[0..7]", "Array[0..7]", "Array[0..7]"),
        "ROCE_CONTROL": Setting(2, 2, 2),
        "PCI_ATOMIC_MODE": Setting(0, 0, 0),
        "EXP_ROM_UEFI_x86_ENABLE": Setting(1, 1, 1),
        "NUM_OF_VFS": Setting(0, 8, 16),
        "SRIOV_EN": Setting(0, 0, 1),
        "LINK_TYPE_P1": Setting(2, 2, 2),
        "BOOT_PKEY": Setting(None, 0, 0),
    }


@pytest.mark.parametrize(
    ("head", "row", "setting"),
    [
        ("Default  Current  Next Boot", "RO       KEY  1  2  3", Setting(1, 2, 3)),
        ("Default  Current  Next Boot", "KEY[0..7]  1  2  3", Setting(1, 2, 3)),
        ("Default  Next Boot", "*  KEY  1  2", Setting(1, None, 2)),
        ("Current  Next Boot", "KEY  True(1)  False(0)", Setting(None, 1, 0)),
        ("Next Boot", "KEY  True(1)", Setting(None, None, 1)),
        ("Default  Current  Next Boot", "KEY  ETH  IB  ETH", Setting(2, 1, 2)),
    ],
)
def test_the_head_says_which_columns_there_are(head: str, row: str, setting: Setting) -> None:
    found = firmware.parse(f"Device:  x\n\nConfigurations:   {head}\n {row}\n")
    assert list(found.values()) == [setting]
    assert next(iter(found)).startswith("KEY")


@given(st.text())
def test_any_text_is_read_without_a_crash(text: str) -> None:
    firmware.parse(f"Configurations: Default Current Next Boot\n{text}")


@pytest.mark.parametrize(
    ("value", "plain"),
    [("True(1)", 1), (True, 1), (False, 0), (16, 16), ("16", 16), ("ETH(2)", 2), ("eth", 2),
     ("_256KB(1)", 1), ("Array[0..7]", "Array[0..7]"), ("GOOD(x)", "GOOD(x)")],
)  # fmt: skip
def test_plain_values(value: object, plain: object) -> None:
    assert firmware.plain(value) == plain


# --- judging ----------------------------------------------------------------------------------

SETTINGS = {"SRIOV_EN": Setting(0, 0, 1), "NUM_OF_VFS": Setting(0, 8, 16)}


def test_needed_is_what_the_next_boot_would_not_have() -> None:
    wanted = {"SRIOV_EN": "True(1)", "NUM_OF_VFS": 32, "LINK_TYPE_P1": "ETH"}
    assert firmware.needed(SETTINGS, wanted) == {"NUM_OF_VFS": 32, "LINK_TYPE_P1": 2}
    assert firmware.needed(SETTINGS, {"SRIOV_EN": True, "NUM_OF_VFS": "16"}) == {}


def test_ports_of_a_card_share_their_number_of_vfs() -> None:
    wanted = {PCI: 8, OTHER: 32, "0000:9d:00.0": 4}
    assert firmware.shared_vfs(wanted) == {PCI: 32, OTHER: 32, "0000:9d:00.0": 4}


pfs = st.builds("0000:{:02x}:00.{}".format, st.integers(0, 3), st.integers(0, 1))


@given(st.dictionaries(pfs, st.integers(0, 127)))
def test_nobody_gets_less_and_a_card_no_more_than_somebody_asked(wanted: dict[str, int]) -> None:
    shared = firmware.shared_vfs(wanted)
    assert shared.keys() == wanted.keys()
    for pci, count in shared.items():
        asked = [n for p, n in wanted.items() if p[:-2] == pci[:-2]]
        assert count >= wanted[pci]
        assert count == max(asked)


def test_how_many_vfs_the_running_firmware_offers() -> None:
    assert firmware.vfs_now(SETTINGS) == 0  # SRIOV_EN runs as False
    assert firmware.vfs_now({**SETTINGS, "SRIOV_EN": Setting(0, 1, 0)}) == 8
    assert firmware.vfs_now({}) == 0


@pytest.mark.parametrize(
    ("model", "engine", "dpu"),
    [(1, 0, True), (1, None, True), (1, 1, False), (0, 0, False), (None, None, False)],
    ids=["dpu", "dpu, old firmware", "nic mode", "separated host", "no BlueField"],
)
def test_who_governs_a_bluefield(model: int | None, engine: int | None, dpu: bool) -> None:
    given_ = {"INTERNAL_CPU_MODEL": model, "INTERNAL_CPU_OFFLOAD_ENGINE": engine}
    settings = {k: Setting(v, v, v) for k, v in given_.items() if v is not None}
    assert firmware.governed_by_dpu(settings) is dpu


# --- on a machine -----------------------------------------------------------------------------


def test_set_and_taken_back() -> None:
    host, kind = twin("roce-cx6"), Firmware()
    wanted = step(SRIOV_EN=1, NUM_OF_VFS=32)
    was = kind.found(host, wanted)
    assert was == {"SRIOV_EN": 1, "NUM_OF_VFS": 16}
    assert not kind.holds(host, wanted)
    kind.do(host, wanted)
    assert kind.holds(host, wanted)
    assert firmware.pending(host, PCI) == firmware.pending(host, OTHER) == {"NUM_OF_VFS": (16, 32)}
    kind.undo(host, wanted, was)
    assert firmware.pending(host, PCI) == {}


def test_a_reboot_brings_it() -> None:
    host = twin("roce-cx6")
    Firmware().do(host, step(NUM_OF_VFS=32))
    total = f"/sys/bus/pci/devices/{PCI}/sriov_totalvfs"
    assert host.read(total) == "16\n"
    reboot(host)
    assert host.read(total) == "32\n"
    assert firmware.pending(host, PCI) == {}
    assert firmware.vfs_now(firmware.query(host, PCI)) == 32


def test_sriov_that_is_off_is_switched_on() -> None:
    host = fault(twin("roce-cx6"), f"firmware:{PCI}#SRIOV_EN", 0)
    assert firmware.vfs_now(firmware.query(host, PCI)) == 0
    Firmware().do(host, step(SRIOV_EN=True, NUM_OF_VFS=8))
    assert set(firmware.pending(host, PCI)) == {"SRIOV_EN", "NUM_OF_VFS"}
    reboot(host)
    assert firmware.vfs_now(firmware.query(host, PCI)) == 8


def test_nothing_is_set_that_is_so_already() -> None:
    host = twin("roce-cx6")
    fault(host, "/sys/kernel/security/lockdown", "[none] integrity confidentiality")
    setting = f"program:mstconfig -y -d {PCI} set SRIOV_EN=1"
    fault(host, setting, {"rc": 1, "stdout": "-E- asked"})
    Firmware().do(host, step(SRIOV_EN="True(1)"))


def test_only_what_is_needed_is_set() -> None:
    host = twin("roce-cx6")
    only = f"program:mstconfig -y -d {PCI} set NUM_OF_VFS=4"
    fault(host, only, {"rc": 1, "stdout": "-E- only this"})
    with pytest.raises(Failed, match="-E- only this"):
        Firmware().do(host, step(SRIOV_EN=1, NUM_OF_VFS=4))


def test_in_words() -> None:
    assert Firmware().says({"SRIOV_EN": 1, "NUM_OF_VFS": 16}) == "SRIOV_EN=1 NUM_OF_VFS=16"
    assert Firmware.lasting


# --- refusals ---------------------------------------------------------------------------------


def test_without_mstconfig() -> None:
    host = fault(twin("roce-cx6"), "program:mstconfig", None)
    with pytest.raises(Failed, match="mstconfig is not installed") as no:
        Firmware().holds(host, step(SRIOV_EN=1))
    assert no.value.fix == "install the package mstflint"


@pytest.mark.parametrize("level", ["integrity", "confidentiality"])
def test_a_kernel_that_is_locked_down(level: str) -> None:
    text = "none integrity confidentiality".replace(level, f"[{level}]")
    host = fault(twin("roce-cx6"), "/sys/kernel/security/lockdown", text)
    with pytest.raises(Failed, match=rf"-E- Failed to open the device; .* locked down \({level}\)"):
        Firmware().holds(host, step(SRIOV_EN=1))


def test_a_kernel_without_lockdown_is_not_blamed() -> None:
    host = fault(twin("roce-cx6"), QUERY, {"rc": 1, "stdout": "-E- Failed to open the device"})
    fault(host, "/sys/kernel/security/lockdown", None)
    with pytest.raises(Failed, match="mstconfig cannot read the firmware: -E- Failed to ope") as no:
        firmware.query(host, PCI)
    assert "locked" not in no.value.reason
    assert f"mstconfig -e -d {PCI} q" in no.value.fix


def test_lockdown_that_lets_mstconfig_through_is_no_obstacle() -> None:
    host = fault(twin("roce-cx6"), "/sys/kernel/security/lockdown", "none [integrity] confidential")
    fault(host, QUERY, SAMPLE.read_text())
    assert firmware.query(host, PCI)["NUM_OF_VFS"] == Setting(0, 8, 16)


def test_a_few_settings_that_cannot_be_read_spoil_nothing() -> None:
    answer = {"rc": 1, "stdout": SAMPLE.read_text() + "-E- Failed to query some of the TLVs:\n"}
    host = fault(twin("roce-cx6"), QUERY, answer)
    assert firmware.query(host, PCI)["SRIOV_EN"].next == 1


def test_a_bluefield_in_dpu_mode() -> None:
    host = twin("roce-cx6")
    fault(host, f"firmware:{PCI}#INTERNAL_CPU_MODEL", 1)
    fault(host, f"firmware:{PCI}#INTERNAL_CPU_OFFLOAD_ENGINE", 0)
    was = Firmware().found(host, step(NUM_OF_VFS=32))
    with pytest.raises(Failed, match=r"a BlueField in DPU mode .* its Arm side governs") as no:
        Firmware().do(host, step(NUM_OF_VFS=32))
    assert "NIC mode" in no.value.fix
    assert firmware.pending(host, PCI) == {}
    Firmware().undo(host, step(NUM_OF_VFS=32), was)
    fault(host, f"firmware:{PCI}#INTERNAL_CPU_OFFLOAD_ENGINE", 1)
    Firmware().do(host, step(NUM_OF_VFS=32))


def test_a_card_with_one_kind_of_port() -> None:
    host = twin("roce-cx6")
    assert not Firmware().holds(host, step(LINK_TYPE_P1=2))
    with pytest.raises(Failed, match="its firmware has no LINK_TYPE_P1"):
        Firmware().do(host, step(LINK_TYPE_P1=2, NUM_OF_VFS=4))
    assert firmware.pending(host, PCI) == {}


def test_a_set_that_fails_and_one_that_does_nothing() -> None:
    setting = f"program:mstconfig -y -d {PCI} set NUM_OF_VFS=4"
    answer = {"rc": 1, "stdout": "Applying... Failed!\n-E- Failed to set configuration\n"}
    with pytest.raises(Failed, match=r"mstconfig set NUM_OF_VFS=4: -E- Failed to set config"):
        Firmware().do(fault(twin("roce-cx6"), setting, answer), step(NUM_OF_VFS=4))
    with pytest.raises(Failed, match="took NUM_OF_VFS=4 and will not boot with NUM_OF_VFS"):
        Firmware().do(fault(twin("roce-cx6"), setting, "Done!"), step(NUM_OF_VFS=4))


def test_a_card_of_somebody_else_and_none() -> None:
    host = twin("roce-cx6")
    with pytest.raises(Failed, match="Failed to identify the device"):
        firmware.query(host, "0000:04:00.0")
    with pytest.raises(Gone):
        firmware.query(host, "0000:ee:00.0")
