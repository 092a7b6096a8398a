"""What the PF sets on its VFs, and the PF's own link."""

from __future__ import annotations

import json
from typing import Any

import pytest

from podrail.host.seam import Ran
from podrail.host.twin import TwinHost
from podrail.host.twins import twin
from podrail.realise.kinds.vf_settings import EFFECTIVE
from podrail.realise.step import KINDS, Failed, Gone, Kind, Step, Value
from tests.realise.support import hold_by_netns, run_of, same, tree, vf_of

PF, IB = "0000:81:00.0", "0000:3c:00.0"
GUID = "02:00:00:00:00:00:00:0a"
ZERO_GUID = "00:00:00:00:00:00:00:00"


@pytest.fixture
def host() -> TwinHost:
    made = twin("igb")
    run_of(made, "ip", "link", "set", "ens2", "up")
    made.write(f"/sys/bus/pci/devices/{PF}/sriov_numvfs", "3")
    return made


@pytest.fixture
def ib() -> TwinHost:
    made = twin("ib-cx7")
    made.write(f"/sys/bus/pci/devices/{IB}/sriov_numvfs", "3")
    return made


def there_and_back(host: TwinHost, kind: str, pf: str, to: Value) -> None:
    """Done, it holds; undone, nothing is different."""
    step, one = Step(kind, pf, to), KINDS[kind]
    before = tree(host)
    assert not one.holds(host, step)
    found = one.found(host, step)
    one.do(host, step)
    assert one.holds(host, step)
    one.undo(host, step, found)
    same(before, tree(host))


@pytest.mark.parametrize(
    ("kind", "to"),
    [
        pytest.param("vf-mtu", {"0": 4000, "2": 9000}, id="vf-mtu"),
        pytest.param("mtu", {"least": 4000}, id="mtu"),
        pytest.param("link", "down", id="link"),
        pytest.param("name", "rail0", id="name"),
    ],
)
def test_done_and_undone(host: TwinHost, kind: str, to: Value) -> None:
    there_and_back(host, kind, PF, to)


@pytest.mark.parametrize(
    ("kind", "to"),
    [
        pytest.param("vf-guid", {"1": GUID}, id="guid"),
        pytest.param("vf-state", {"0": "auto", "1": "enable"}, id="state"),
    ],
)
def test_done_and_undone_on_infiniband(ib: TwinHost, kind: str, to: Value) -> None:
    there_and_back(ib, kind, IB, to)


def test_an_admin_mac_that_was_none_is_none_again() -> None:
    """VFs that were there before: their own MAC becomes the administrator's, and back."""
    host = twin("roce-cx6")
    host.write("/sys/bus/pci/devices/0000:9c:00.0/sriov_numvfs", "3")
    there_and_back(host, "vf-mac", "0000:9c:00.0", dict.fromkeys("012", EFFECTIVE))


def test_an_admin_mac_is_the_vfs_own(host: TwinHost) -> None:
    kind, step = KINDS["vf-mac"], Step("vf-mac", PF, {"0": EFFECTIVE, "1": EFFECTIVE})
    for setting in host.functions[PF].settings:
        setting.mac = "00:00:00:00:00:00"
    kind.do(host, step)
    own = [host.text(f"/sys/class/net/ens2v{i}/address") for i in range(2)]
    assert [s.mac for s in host.functions[PF].settings[:2]] == own
    assert host.functions[PF].settings[2].mac == "00:00:00:00:00:00"


def test_a_vf_out_of_sight_keeps_its_mac_and_mtu(host: TwinHost) -> None:
    hold_by_netns(host, vf_of(host, PF, 1))
    assert KINDS["vf-mac"].holds(host, Step("vf-mac", PF, {"1": EFFECTIVE}))
    assert KINDS["vf-mtu"].holds(host, Step("vf-mtu", PF, {"1": 9000}))
    KINDS["vf-mtu"].write(host, PF, {"0": 4000, "1": 9000})
    assert host.text("/sys/class/net/ens2v0/mtu") == "4000"


def test_a_guid_reaches_a_vf_that_was_bound(ib: TwinHost) -> None:
    """The driver reads it when it takes the VF, so it takes it once more."""
    KINDS["vf-guid"].write(ib, IB, {"1": GUID})
    vf = ib.functions[IB].vfs[1]
    gid = ib.read(f"{vf.path}/infiniband/{vf.rdma}/ports/1/gids/0").strip()
    assert gid.endswith("0200:0000:0000:000a")
    assert [s.port_guid for s in ib.functions[IB].settings] == [ZERO_GUID, GUID, ZERO_GUID]


@pytest.mark.parametrize("kind", ["vf-mac", "vf-guid", "vf-state", "vf-mtu", "vf-node-guid"])
def test_undo_on_vfs_that_are_gone_is_nothing(ib: TwinHost, kind: str) -> None:
    ib.write(f"/sys/bus/pci/devices/{IB}/sriov_numvfs", "0")
    was: dict[str, Any] = {"vf-mtu": 1500, "vf-state": "auto"}
    before = tree(ib)
    KINDS[kind].undo(ib, Step(kind, IB, {}), {"1": was.get(kind, GUID)})
    same(before, tree(ib))


@pytest.mark.parametrize("kind", ["vf-guid", "vf-state"])
def test_setting_a_vf_that_is_not_there_fails(ib: TwinHost, kind: str) -> None:
    with pytest.raises(Failed, match="vf 7"):
        KINDS[kind].write(ib, IB, {"7": GUID if kind == "vf-guid" else "auto"})


def test_the_refusal_names_the_command_that_failed(host: TwinHost) -> None:
    with pytest.raises(Failed, match=r"ens2v2 mtu 99999.*greater than device maximum"):
        KINDS["vf-mtu"].write(host, PF, {"0": 4000, "2": 99999})


@pytest.mark.parametrize(
    "kind", ["vf-mac", "vf-guid", "vf-state", "vf-mtu", "vf-node-guid", "mtu", "link", "name"]
)
def test_a_pf_that_is_gone(host: TwinHost, kind: str) -> None:
    with pytest.raises(Gone):
        KINDS[kind].read(host, "0000:99:00.0")


@pytest.mark.parametrize("kind", ["mtu", "link"])
def test_a_pf_without_a_netdev_says_so(host: TwinHost, kind: str) -> None:
    host.write("/sys/bus/pci/drivers/igb/unbind", PF)
    with pytest.raises(Failed, match="has no netdev") as no:
        KINDS[kind].read(host, PF)
    assert "bind its driver" in no.value.fix


# --- the PF's MTU -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("now", "least", "holds"), [(1500, 9000, False), (9000, 9000, True), (9000, 1500, True)]
)
def test_a_pf_may_be_larger_than_asked(host: TwinHost, now: int, least: int, holds: bool) -> None:
    run_of(host, "ip", "link", "set", "ens2", "mtu", str(now))
    assert KINDS["mtu"].holds(host, Step("mtu", PF, {"least": least})) is holds
    assert KINDS["mtu"].holds(host, Step("mtu", PF, least)) is (now == least)
    assert KINDS["mtu"].says({"least": least}) == str(least)


def test_a_name_that_is_taken_is_said(host: TwinHost) -> None:
    before = tree(host)
    with pytest.raises(Failed, match="called ens2 and cannot be enp67s0 again"):
        KINDS["name"].write(host, PF, "enp67s0")
    same(before, tree(host))


def test_what_ip_cannot_tell_is_no_crash(host: TwinHost) -> None:
    """No `vfinfo_list`, as a driver without it shows: nothing is known, so nothing is set."""
    argv = ("ip", "-d", "-j", "link", "show", "dev", "ens2")
    host.put_program(argv, Ran(argv, 0, json.dumps([{}, {"ifname": "ens2"}])))
    kinds: list[Kind] = [KINDS[name] for name in ("vf-mac", "vf-guid", "vf-state")]
    assert [kind.read(host, PF) for kind in kinds] == [{}, {}, {}]
