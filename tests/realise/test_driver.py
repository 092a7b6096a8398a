"""Which driver has a VF: bound, bound again, given away and given back."""

from __future__ import annotations

import errno

import pytest

from podrail.host.seam import Ran
from podrail.host.twin import TwinHost
from podrail.host.twins import twin
from podrail.realise.kinds.driver import NETDEVICE, give, in_pairs, in_words, rebind
from podrail.realise.step import KINDS, Failed, Gone, Step
from tests.realise.support import run_of, same, tree, vf_of

PF = "0000:81:00.0"
AT = f"/sys/bus/pci/devices/{PF}"
KIND = KINDS["vf-driver"]


@pytest.fixture
def host() -> TwinHost:
    made = twin("igb")
    made.write(f"{AT}/sriov_numvfs", "3")
    return made


def overrides(host: TwinHost) -> list[str]:
    return [host.text(f"{vf.path}/driver_override") for vf in host.functions[PF].vfs]


def test_vfio_and_back(host: TwinHost) -> None:
    KIND.write(host, PF, {"1": "vfio-pci"})
    assert KIND.read(host, PF) == {"0": "igbvf", "1": "vfio-pci", "2": "igbvf"}
    assert overrides(host) == ["(null)", "vfio-pci", "(null)"]
    KIND.write(host, PF, {"1": NETDEVICE})
    assert KIND.read(host, PF)["1"] == "igbvf"
    assert overrides(host) == ["(null)"] * 3


def test_vfio_loads_its_module(host: TwinHost) -> None:
    assert "vfio-pci" not in host.entries("/sys/bus/pci/drivers")
    give(host, vf_of(host, PF, 0), "vfio-pci")
    assert "vfio-pci" in host.entries("/sys/bus/pci/drivers")


def test_a_module_that_does_not_load(host: TwinHost) -> None:
    host.put_program(("modprobe",), lambda argv: Ran(tuple(argv), 1, "", "modprobe: FATAL: nope"))
    before = tree(host)
    with pytest.raises(Failed, match="vfio-pci cannot be loaded: modprobe: FATAL: nope") as no:
        KIND.write(host, PF, {"0": "vfio-pci"})
    assert "modprobe vfio-pci" in no.value.fix
    same(before, tree(host))


def test_none_is_no_driver(host: TwinHost) -> None:
    KIND.write(host, PF, {"0": None, "2": None})
    assert KIND.read(host, PF) == {"0": None, "1": "igbvf", "2": None}


@pytest.mark.parametrize("autoprobe", ["0", "1"])
def test_a_named_driver_takes_it_whatever_autoprobe_says(host: TwinHost, autoprobe: str) -> None:
    """With driver_override pci_device_can_probe is true; the override does not stay."""
    host.write(f"{AT}/sriov_drivers_autoprobe", autoprobe)
    KIND.write(host, PF, {"0": None})
    KIND.write(host, PF, {"0": "igbvf"})
    assert KIND.read(host, PF)["0"] == "igbvf"
    assert overrides(host) == ["(null)"] * 3


def test_without_autoprobe_no_driver_of_the_kernels_choice(host: TwinHost) -> None:
    host.write(f"{AT}/sriov_drivers_autoprobe", "0")
    KIND.write(host, PF, {"0": None})
    with pytest.raises(Failed, match="went to no driver") as no:
        KIND.write(host, PF, {"0": NETDEVICE})
    assert "sriov_drivers_autoprobe" in no.value.fix


def test_a_stale_override_is_cleared(host: TwinHost) -> None:
    """What a process leaves that dies between probe and clearing."""
    host.write(f"/sys/bus/pci/devices/{vf_of(host, PF, 0)}/driver_override", "igbvf\n")
    KIND.write(host, PF, {"0": NETDEVICE})
    assert overrides(host) == ["(null)"] * 3


def test_what_was_found_has_name_and_mtu(host: TwinHost) -> None:
    run_of(host, "ip", "link", "set", "ens2v1", "name", "odd0")
    run_of(host, "ip", "link", "set", "odd0", "mtu", "1400")
    step = Step("vf-driver", PF, {"1": "vfio-pci"})
    found = KIND.found(host, step)
    assert found == {"1": {"driver": "igbvf", "name": "odd0", "mtu": 1400}}
    before = tree(host)
    KIND.do(host, step)
    KIND.undo(host, step, found)
    same(before, tree(host))


def test_netdevice_is_any_driver_of_the_kernel(host: TwinHost) -> None:
    assert KIND.holds(host, Step("vf-driver", PF, {"0": NETDEVICE, "1": "igbvf"}))
    assert not KIND.holds(host, Step("vf-driver", PF, {"0": NETDEVICE, "1": "vfio-pci"}))


def test_a_vf_in_a_pod_is_bound_and_not_bare(host: TwinHost) -> None:
    """Its netdev is out of sight, the `net` directory stays."""
    vf = host.functions[PF].vfs[0]
    host.remove(f"{vf.path}/net/{vf.netdev}")
    assert KIND.holds(host, Step("vf-driver", PF, {"0": NETDEVICE}))
    host.remove(f"{vf.path}/net")
    assert KIND.read(host, PF)["0"] == "igbvf without a netdev"
    assert not KIND.holds(host, Step("vf-driver", PF, {"0": NETDEVICE}))


def test_a_vf_that_is_not_there_is_not_touched(host: TwinHost) -> None:
    before = tree(host)
    KIND.undo(host, Step("vf-driver", PF, {}), {"7": "vfio-pci"})
    same(before, tree(host))


def test_binding_again_finds_the_same_driver(host: TwinHost) -> None:
    rebind(host, vf_of(host, PF, 0))
    assert KIND.read(host, PF)["0"] == "igbvf"
    host.write(f"{AT}/sriov_drivers_autoprobe", "0")
    with pytest.raises(Failed, match="did not come back to igbvf"):
        rebind(host, vf_of(host, PF, 0))


def test_a_pf_that_is_gone(host: TwinHost) -> None:
    with pytest.raises(Gone):
        KIND.read(host, "0000:99:00.0")


def test_in_words() -> None:
    assert in_words({"0": "a", "1": "a", "3": None}) == "vf 0-1 a, vf 3 none"
    assert in_words({}) == "none"
    was = {"0": {"driver": "igbvf", "name": "x", "mtu": 1}, "1": {"driver": None}}
    assert in_pairs("driver", was, {"0": "vfio-pci", "1": "vfio-pci"}) == (
        "driver of vf 0: igbvf → vfio-pci; driver of vf 1: none → vfio-pci"
    )


def test_autoprobe_is_read_and_set() -> None:
    host, kind = twin("igb"), KINDS["autoprobe"]
    assert kind.read(host, PF) is True
    kind.write(host, PF, False)
    assert kind.read(host, PF) is False
    assert (kind.says(True), kind.says(False)) == ("on", "off")
    host.refusals[f"{host.functions[PF].path}/sriov_drivers_autoprobe"] = errno.EACCES
    with pytest.raises(PermissionError):
        kind.write(host, PF, True)
