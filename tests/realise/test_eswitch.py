"""The e-switch of a PF."""

from __future__ import annotations

from dataclasses import replace

import pytest

from podrail.host.twins import machine, twin
from podrail.host.twins.build import build
from podrail.realise.kinds.eswitch import Eswitch, offload, steering
from podrail.realise.step import Failed, Gone, Step
from tests.twin.faulted import fault

PCI = "0000:9c:00.0"
IGB = "0000:81:00.0"
FOUND = {"mode": "legacy", "flow_steering_mode": "dmfs", "hw-tc-offload": "off"}


def step(mode: object, pci: str = PCI) -> Step:
    return Step("eswitch", pci, mode)


def test_switchdev_and_back_to_what_was_found() -> None:
    host, eswitch = twin("roce-cx6"), Eswitch()
    assert eswitch.holds(host, step("legacy"))
    assert eswitch.holds(host, step(None))
    was = eswitch.found(host, step("switchdev"))
    assert was == FOUND
    eswitch.do(host, step("switchdev"))
    assert eswitch.holds(host, step("switchdev"))
    assert (steering(host, PCI), offload(host, PCI)) == ("smfs", "on")
    eswitch.undo(host, step("switchdev"), was)
    assert eswitch.found(host, step("switchdev")) == FOUND


def test_what_was_found_is_a_wish_too() -> None:
    host, eswitch = twin("roce-cx6"), Eswitch()
    assert eswitch.holds(host, step(FOUND))
    eswitch.do(host, step("switchdev"))
    assert not eswitch.holds(host, step(FOUND))
    eswitch.do(host, step(FOUND))
    assert eswitch.holds(host, step(FOUND))
    assert eswitch.says(FOUND) == "legacy"


def test_legacy_leaves_the_rest_as_it_is() -> None:
    host, eswitch = twin("roce-cx6"), Eswitch()
    eswitch.do(host, step("switchdev"))
    eswitch.do(host, step("legacy"))
    assert (steering(host, PCI), offload(host, PCI)) == ("smfs", "on")


def test_who_is_in_switchdev_already_steers_as_it_did() -> None:
    host = twin("roce-cx6")
    host.run(["devlink", "dev", "eswitch", "set", f"pci/{PCI}", "mode", "switchdev"])
    Eswitch().do(host, step("switchdev"))
    assert (steering(host, PCI), offload(host, PCI)) == ("dmfs", "on")


def test_ports_are_apart() -> None:
    host = twin("roce-cx6")
    Eswitch().do(host, step("switchdev"))
    assert Eswitch().read(host, "0000:9c:00.1") == "legacy"


def test_a_driver_without_the_parameter_is_not_asked_for_it() -> None:
    host = twin("roce-cx6")
    words = f"devlink -j dev param show pci/{PCI} name flow_steering_mode"
    answer = {"rc": 1, "stderr": "kernel answers: Invalid argument"}
    fault(host, f"program:{words}", answer)
    setting = f"devlink dev param set pci/{PCI} name flow_steering_mode value smfs cmode runtime"
    fault(host, f"program:{setting}", {"rc": 1, "stderr": "asked"})
    Eswitch().do(host, step("switchdev"))
    assert Eswitch().found(host, step("switchdev")) == {
        "mode": "switchdev",
        "hw-tc-offload": "on",
    }


@pytest.mark.parametrize(("name", "pci"), [("igb", IGB), ("ib-cx7", "0000:3c:00.0")])
def test_no_eswitch_is_legacy_and_nothing_else(name: str, pci: str) -> None:
    host, eswitch = twin(name), Eswitch()
    assert eswitch.read(host, pci) is None
    assert eswitch.holds(host, step("legacy", pci))
    eswitch.do(host, step("legacy", pci))
    assert not eswitch.holds(host, step("switchdev", pci))
    driver = "igb" if name == "igb" else "mlx5_core"
    with pytest.raises(Failed, match=f"no e-switch to put into switchdev: its driver is {driver}"):
        eswitch.do(host, step("switchdev", pci))
    assert eswitch.found(host, step("switchdev", pci)) is None
    eswitch.undo(host, step("switchdev", pci), None)


def test_no_driver_at_all() -> None:
    host = fault(twin("igb"), f"/sys/bus/pci/devices/{IGB}/driver", None)
    with pytest.raises(Failed, match="its driver is not bound"):
        Eswitch().do(host, step("switchdev", IGB))


def test_no_such_device() -> None:
    with pytest.raises(Gone):
        Eswitch().read(twin("igb"), "0000:99:00.0")


def test_without_devlink_or_ethtool() -> None:
    with pytest.raises(Failed, match="devlink is not installed"):
        Eswitch().read(fault(twin("roce-cx6"), "program:devlink", None), PCI)
    with pytest.raises(Failed, match="ethtool is not installed"):
        Eswitch().do(fault(twin("roce-cx6"), "program:ethtool", None), step("switchdev"))


def test_devlink_that_fails_otherwise_is_no_missing_eswitch() -> None:
    words = f"program:devlink -j dev eswitch show pci/{PCI}"
    for answer, told in (
        ({"rc": 1, "stderr": "devlink: Permission denied"}, "Permission denied"),
        ("pci: mode legacy", "answered no JSON: 'pci: mode legacy'"),
    ):
        with pytest.raises(Failed, match=told):
            Eswitch().read(fault(twin("roce-cx6"), words, answer), PCI)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (f"devlink dev eswitch set pci/{PCI} mode switchdev", "mode switchdev`: kernel answers: B"),
        ("ethtool -K ens8f0 hw-tc-offload on", "hw-tc-offload on`: kernel answers: Bu"),
        (
            f"devlink dev param set pci/{PCI} name flow_steering_mode value smfs cmode runtime",
            "flow_steering_mode value smfs cmode runtime`: kernel answers: B",
        ),
    ],
)
def test_what_the_nic_refuses_is_told_and_can_be_taken_back(words: str, told: str) -> None:
    host, eswitch = twin("roce-cx6"), Eswitch()
    was = eswitch.found(host, step("switchdev"))
    fault(host, f"program:{words}", {"rc": 1, "stderr": "kernel answers: Busy"})
    with pytest.raises(Failed, match=told):
        eswitch.do(host, step("switchdev"))
    eswitch.undo(host, step("switchdev"), was)
    assert eswitch.found(host, step("switchdev")) == was


def test_a_mode_that_does_not_come_about() -> None:
    host = twin("roce-cx6")
    fault(host, f"program:devlink dev eswitch set pci/{PCI} mode switchdev", "")
    with pytest.raises(Failed, match="is in legacy after it was put into switchdev"):
        Eswitch().do(host, step("switchdev"))


def test_a_pf_without_a_netdev_has_no_offload() -> None:
    host = fault(twin("roce-cx6"), "/sys/class/net/ens8f0", None)
    assert offload(host, PCI) is None
    Eswitch().do(host, step("switchdev"))
    assert Eswitch().read(host, PCI) == "switchdev"


def test_newer_kernels_steer_by_the_driver_already() -> None:
    host = build(replace(machine("roce-cx6"), kernel="6.8.0-41-generic"), "twin:roce-cx6")
    assert steering(host, PCI) == "smfs"
