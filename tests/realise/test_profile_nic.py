"""Rings, coalescing and PCI Express Device Control of a NIC."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podrail.host.open import open_host
from podrail.host.seam import Ran
from podrail.host.twin import TwinHost
from podrail.realise.kinds.pcie import device_control
from podrail.realise.step import Step, Value, kind_of
from tests.realise.tuned import (
    CONFIG,
    NAME,
    PF,
    STEPS,
    done,
    refused,
    roce_cx6,
)


@pytest.fixture
def host() -> TwinHost:
    return roce_cx6()


# --- ethtool ------------------------------------------------------------------------------------


def test_a_ring_above_the_maximum_is_refused_not_cut(host: TwinHost) -> None:
    no = refused(host, Step("rings", PF, {"rx": 16384}))
    assert "8192" in no.reason
    assert "RX:\t\t1024" in host.run(["ethtool", "-g", NAME]).stdout


def test_a_ring_the_driver_rounds_is_told(host: TwinHost) -> None:
    no = refused(host, Step("rings", PF, {"rx": 5000}))
    assert "rx 5000" in no.reason
    assert "rx 8192" in no.reason


def test_a_ring_below_the_minimum_is_the_drivers_refusal(host: TwinHost) -> None:
    assert "Invalid argument" in refused(host, Step("rings", PF, {"tx": 8})).reason


def test_only_the_ring_that_differs_is_set(host: TwinHost) -> None:
    done(host, Step("rings", PF, {"rx": 8192, "tx": 1024}))
    assert kind_of(STEPS[4]).read(host, PF) == {"rx": 8192, "tx": 1024}


def test_a_nic_without_rings(host: TwinHost) -> None:
    text = host.run(["ethtool", "-g", NAME]).stdout.replace("8192", "n/a").replace("1024", "n/a")
    host.put_program(["ethtool", "-g"], lambda argv: Ran(tuple(argv), 0, text))
    assert "rings.rx" in refused(host, Step("rings", PF, {"rx": 512})).fix


def test_numbers_while_the_driver_adapts_are_refused(host: TwinHost) -> None:
    no = refused(host, Step("coalescing", PF, {"rxUsecs": 16}))
    assert "adaptive-rx" in no.reason
    assert "adaptiveRx: false" in no.fix


def test_numbers_come_after_adapting_is_off(host: TwinHost) -> None:
    """mlx5 sets its own numbers when adapting ends; those asked for must be set after."""
    done(host, STEPS[5])
    shown = host.run(["ethtool", "-c", NAME]).stdout
    assert "Adaptive RX: off  TX: on" in shown
    assert "\nrx-usecs: 16\nrx-frames: 64\n" in shown


def test_where_the_driver_adapts_its_numbers_are_its_own(host: TwinHost) -> None:
    done(host, STEPS[5])
    step = Step("coalescing", PF, {"adaptiveRx": True, "rxUsecs": 99})
    done(host, step)
    assert kind_of(step).holds(host, step)


def test_what_a_driver_does_not_know_is_refused(host: TwinHost) -> None:
    text = host.run(["ethtool", "-c", NAME]).stdout.replace("TX: on", "TX: n/a")
    host.put_program(["ethtool", "-c"], lambda argv: Ran(tuple(argv), 0, text))
    no = refused(host, Step("coalescing", PF, {"adaptiveTx": False}))
    assert "adaptive-tx" in no.reason


# --- PCI Express --------------------------------------------------------------------------------


def device_control_of(raw: bytes) -> tuple[int, int]:
    at = raw[0x34]
    while raw[at] != 0x10:
        at = raw[at + 1]
    return at + 8, int.from_bytes(raw[at + 8 : at + 10], "little")


_SIZES = st.sampled_from([128, 256, 512, 1024, 2048, 4096])
_WANTED = st.fixed_dictionaries(
    {}, optional={"relaxedOrdering": st.booleans(), "maxReadRequest": _SIZES}
).filter(bool)


@given(now=st.integers(0, 0xFFFF), wanted=_WANTED)
def test_a_masked_write_touches_no_other_bit(now: int, wanted: dict[str, Value]) -> None:
    host = open_host("twin:roce-cx6")
    assert isinstance(host, TwinHost)
    raw = host.read_bytes(CONFIG)
    at, _ = device_control_of(raw)
    start = raw[:at] + now.to_bytes(2, "little") + raw[at + 2 :]
    host.put(host.resolve(CONFIG), start)
    step = Step("pcie", PF, wanted)
    was = kind_of(step).found(host, step)
    kind_of(step).do(host, step)
    after = host.read_bytes(CONFIG)
    _, mask = device_control(wanted)
    assert after[:at] + after[at + 2 :] == start[:at] + start[at + 2 :]
    assert device_control_of(after)[1] & ~mask == now & ~mask
    assert kind_of(step).holds(host, step)
    kind_of(step).undo(host, step, was)
    assert host.read_bytes(CONFIG) == start


@given(wanted=_WANTED)
def test_the_value_stays_under_its_mask(wanted: dict[str, Value]) -> None:
    """setpci ORs what is outside of the mask too (pciutils setpci.c:exec_op)."""
    bits, mask = device_control(wanted)
    assert bits & ~mask == 0
    assert mask & ~0x7010 == 0


def test_the_right_register_is_written(host: TwinHost) -> None:
    asked: list[Sequence[str]] = []

    def setpci(argv: Sequence[str]) -> Ran:
        asked.append(argv)
        return Ran(tuple(argv), 0, "")

    host.put_program(["setpci"], setpci)
    step = Step("pcie", PF, {"relaxedOrdering": True, "maxReadRequest": 2048})
    refused(host, step)
    assert asked == [("setpci", "-s", PF, "CAP_EXP+8.w=4010:7010")]


def test_lockdown_is_seen_although_setpci_ends_well(host: TwinHost) -> None:
    host.put("/sys/kernel/security/lockdown", "none [integrity] confidentiality\n")
    before = host.read_bytes(CONFIG)
    assert "lockdown" in refused(host, STEPS[6]).fix
    assert host.read_bytes(CONFIG) == before


def test_an_unprivileged_reader_is_told_to_be_root(host: TwinHost) -> None:
    host.put(host.resolve(CONFIG), host.read_bytes(CONFIG)[:64])
    no = refused(host, STEPS[6])
    assert "64 bytes" in no.reason
    assert "root" in no.fix


def test_a_conventional_device_has_no_such_register(host: TwinHost) -> None:
    raw = bytearray(host.read_bytes(CONFIG)[:256])
    raw[0x06] = 0
    host.put(host.resolve(CONFIG), bytes(raw))
    assert "PCI Express" in refused(host, STEPS[6]).reason
