"""VFs somebody else made: taken over as they are, used as they are, left as they were."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from podrail.host.twin import TwinHost
from podrail.host.twins import twin
from tests.realise.support import (
    Bench,
    Cli,
    Tree,
    bench,
    differences,
    good,
    numvfs,
    pf_of,
    policy,
    run_of,
    same,
    tree,
)

PF = "0000:9c:00.0"
RECORD = f"/etc/sriov-operator/pci/{PF}"
WISH = (
    policy("rail", "ens8f0#0-3", 6, mtu=9000, isRdma=True),
    policy("user", "ens8f0#4-5", 6, deviceType="vfio-pci"),
)


def upstream(place: Path, *policies: str) -> TwinHost:
    """A node as the upstream operator leaves it: VFs, and its record of the PF."""
    made = bench("roce-cx6", place / "upstream")
    good(made.apply(*policies))
    made.host.put(RECORD, json.dumps({"pciAddress": PF, "numVfs": 6}))
    return made.host


def identities(host: TwinHost) -> list[tuple[str, int, int | None]]:
    """Which VFs these are: an object, its netdev's number; both are new after a recreation."""
    return [
        (vf.address, id(vf), host.netdevs[vf.netdev].ifindex if vf.netdev else None)
        for vf in host.functions[PF].vfs
    ]


def test_a_node_as_wanted_is_taken_over_without_a_touch(tmp_path: Path) -> None:
    host = upstream(tmp_path, *WISH)
    before, who = tree(host), identities(host)
    ours = Bench(host, tmp_path / "ours")
    assert ours.apply(*WISH) == []
    assert identities(host) == who
    same(before, tree(host))
    assert ours.reset() == []
    same(before, tree(host))


def test_what_differs_is_changed_in_place_and_handed_back(tmp_path: Path) -> None:
    host = upstream(tmp_path, *WISH)
    for index, mtu in ((0, "4000"), (2, "1500")):
        run_of(host, "ip", "link", "set", f"ens8f0v{index}", "mtu", mtu)
    run_of(host, "ip", "link", "set", "ens8f0", "down")
    run_of(host, "ip", "link", "set", "ens8f0", "mtu", "1500")
    before, who = tree(host), identities(host)
    ours = Bench(host, tmp_path / "ours")
    good(ours.apply(*WISH))
    assert identities(host) == who
    assert [host.text(f"/sys/class/net/ens8f0v{i}/mtu") for i in range(4)] == ["9000"] * 4
    assert host.text("/sys/class/net/ens8f0/mtu") == "9000"
    good(ours.reset())
    assert identities(host) == who
    same(before, tree(host))


@pytest.mark.parametrize("count", [2, 6, 9])
def test_vfs_that_had_to_go_come_back_as_they_were(tmp_path: Path, count: int) -> None:
    """Settings, names, drivers and MTUs of VFs that were destroyed on the way."""
    host = upstream(tmp_path, *WISH)
    run_of(host, "ip", "link", "set", "ens8f0", "vf", "1", "vlan", "7", "qos", "2")
    run_of(host, "ip", "link", "set", "ens8f0", "vf", "2", "trust", "on")
    run_of(host, "ip", "link", "set", "ens8f0", "vf", "3", "mac", "02:aa:00:00:00:03")
    run_of(host, "ip", "link", "set", "ens8f0", "vf", "3", "spoofchk", "on")
    run_of(host, "ip", "link", "set", "ens8f0", "vf", "0", "state", "enable")
    run_of(host, "ip", "link", "set", "ens8f0", "vf", "0", "max_tx_rate", "1000")
    run_of(host, "ip", "link", "set", "ens8f0v1", "name", "storage1")
    _bound_again(host, 3)
    before = tree(host)
    ours = Bench(host, tmp_path / "ours")
    good(ours.apply(policy("p", "ens8f0", count, isRdma=True)))
    assert before != tree(host)
    good(ours.reset())
    same(_without_numbers(before), _without_numbers(tree(host)))


def _bound_again(host: TwinHost, index: int) -> None:
    """So that the VF has the MAC it was given."""
    vf = host.functions[PF].vfs[index]
    for way in ("unbind", "bind"):
        host.write(f"/sys/bus/pci/drivers/mlx5_core/{way}", vf.address)
    run_of(host, "ip", "link", "set", f"ens8f0v{index}", "mtu", "9000")


def _without_numbers(whole: Tree) -> Tree:
    """RDMA devices and vfio devices are numbered as they come."""
    return {
        path: content
        for path, content in whole.items()
        if "infiniband" not in path and "/vfio" not in path
    }


def test_drivers_taken_in_place_come_back_with_their_names(tmp_path: Path) -> None:
    host = upstream(tmp_path, policy("p", "ens8f0", 4))
    run_of(host, "ip", "link", "set", "ens8f0v2", "name", "backup0")
    run_of(host, "ip", "link", "set", "backup0", "mtu", "1400")
    before = tree(host)
    ours = Bench(host, tmp_path / "ours")
    good(ours.apply(policy("p", "ens8f0", 4, deviceType="vfio-pci")))
    assert {host.driver(vf) for vf in host.functions[PF].vfs} == {"vfio-pci"}
    good(ours.reset())
    same(_without_numbers(before), _without_numbers(tree(host)))


def test_a_record_without_a_wish_is_left_alone(tmp_path: Path) -> None:
    """VFs upstream made and nobody wants: not ours to take away."""
    host = upstream(tmp_path, *WISH)
    before = tree(host)
    ours = Bench(host, tmp_path / "ours")
    assert ours.apply(policy("p", "ens8f1", 0)) == []
    assert ours.reset() == []
    same(before, tree(host))


def test_autoprobe_that_was_off_is_off_again(tmp_path: Path) -> None:
    """VFs made by hand without drivers; ours get one, theirs come back without."""
    host = twin("igb")
    at = "/sys/bus/pci/devices/0000:81:00.0"
    host.write(f"{at}/sriov_drivers_autoprobe", "0")
    host.write(f"{at}/sriov_numvfs", "3")
    before = tree(host)
    ours = Bench(host, tmp_path)
    for wanted in (3, 5):
        good(ours.apply(policy("p", "ens2", wanted)))
        assert [host.driver(vf) for vf in host.functions["0000:81:00.0"].vfs] == ["igbvf"] * wanted
    good(ours.reset())
    same(before, tree(host))


def test_bound_vfs_come_back_bound_though_autoprobe_is_off(tmp_path: Path) -> None:
    host = twin("igb")
    at = "/sys/bus/pci/devices/0000:81:00.0"
    host.write(f"{at}/sriov_numvfs", "3")
    host.write(f"{at}/sriov_drivers_autoprobe", "0")
    before = tree(host)
    ours = Bench(host, tmp_path)
    good(ours.apply(policy("p", "ens2", 5)))
    good(ours.reset())
    same(before, tree(host))


def test_vfs_their_owner_took_away_need_nothing_back(tmp_path: Path) -> None:
    """Set up by us, removed by whoever made them: a reset finds nothing to do, and no error."""
    one = bench("ib-cx7", tmp_path)
    found = tree(one.host)
    at = "/sys/bus/pci/devices/0000:3c:00.0/sriov_numvfs"
    one.host.write(at, "3")
    good(one.apply(policy("p", "ibp60s0", 3)))
    one.host.write(at, "0")
    outcomes = one.reset()
    assert len(outcomes) == 1
    good(outcomes)
    same(found, tree(one.host))


# --- externallyManaged ------------------------------------------------------------------------


def external(count: int, **spec: object) -> str:
    return policy("p", "ens2", count, externallyManaged=True, **spec)


def test_externally_managed_vfs_are_used_and_the_pf_is_not_touched(tmp_path: Path) -> None:
    one = bench("igb", tmp_path)
    one.host.write("/sys/bus/pci/devices/0000:81:00.0/sriov_numvfs", "5")
    before = tree(one.host)
    good(one.apply(external(3, deviceType="vfio-pci")))
    driven = [one.host.driver(vf) for vf in one.host.functions["0000:81:00.0"].vfs]
    assert driven == ["vfio-pci"] * 3 + ["igbvf"] * 2
    changed = differences(before, tree(one.host))
    assert changed
    assert not any("0000:81:00.0/net/" in line or "sriov_" in line for line in changed)
    good(one.reset())
    same(before, tree(one.host))


@pytest.mark.parametrize(
    ("policies", "says"),
    [
        pytest.param((external(4),), ("only 0 of 4 VFs exist", "drop externallyManaged"), id="few"),
        pytest.param((external(2, mtu=9000),), ("externallyManaged",), id="mtu"),
    ],
)
def test_externally_managed_makes_nothing(
    tmp_path: Path, policies: tuple[str, ...], says: tuple[str, ...]
) -> None:
    host = twin("igb")
    if "mtu" in policies[0]:
        host.write("/sys/bus/pci/devices/0000:81:00.0/sriov_numvfs", "2")
    before = tree(host)
    result = Cli(host, tmp_path).apply(*policies)
    assert result.exit_code == 5
    assert all(words in result.output for words in says), result.output
    same(before, tree(host))


# --- beside upstream --------------------------------------------------------------------------


def test_a_running_daemon_of_upstream_is_refused(tmp_path: Path) -> None:
    host = upstream(tmp_path, *WISH)
    host.put("/proc/4242/comm", "sriov-network-c\n")
    before, cli = tree(host), Cli(host, tmp_path / "ours")
    result = cli.apply(policy("p", "ens8f0", 2))
    assert result.exit_code == 5
    assert "config daemon runs (pid 4242)" in result.output
    assert "configDaemonNodeSelector" in result.output
    same(before, tree(host))
    assert cli.apply(policy("p", "ens8f0", 2), options=["--dry-run"]).exit_code == 0
    assert cli.apply(policy("p", "ens8f0", 2), options=["--force"]).exit_code == 0
    assert numvfs(host, pf_of(host, "ens8f0")) == 2
