"""`podrail status`: what is, against what was applied."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from podrail.host.twin import TwinHost
from podrail.host.twins import twin
from tests.cli.test_apply import PF
from tests.realise.support import (
    Bench,
    Cli,
    Died,
    Tree,
    hold_by_pod,
    policy,
    run_of,
    same,
    tree,
    vf_of,
)

PF_KEYS = {
    "pci", "name", "state", "numvfs", "totalvfs", "mtu", "drift", "reason", "fix", "held",
    "changed",
}  # fmt: skip


@pytest.fixture
def host() -> TwinHost:
    return twin("igb")


@pytest.fixture
def igb(host: TwinHost, tmp_path: Path) -> Cli:
    return Cli(host, tmp_path)


def test_nothing_applied(igb: Cli) -> None:
    result = igb("status")
    assert (result.exit_code, "nothing applied; no agent" in result.output) == (0, True)


def test_as_wanted(igb: Cli, host: TwinHost) -> None:
    igb.apply(policy("p", "ens2", 4))
    before = tree(host)
    result = igb("status")
    assert result.exit_code == 0
    assert f"ens2  {PF}  as wanted  4 of 7 VFs, mtu 1500" in result.output
    same(before, tree(host))


def test_json_has_the_keys_of_its_schema(igb: Cli, host: TwinHost) -> None:
    igb.apply(policy("p", "ens2", 4))
    hold_by_pod(host, vf_of(host, PF, 2))
    told = json.loads(igb("status", "-o", "json").stdout)
    assert told["schema"] == "podrail/status/1"
    assert told.keys() >= {"schema", "node", "manifests", "pfs", "agent", "notes"}
    (pf,) = told["pfs"]
    assert pf.keys() >= PF_KEYS
    assert (pf["state"], pf["numvfs"], pf["changed"]) == ("as wanted", 4, True)
    assert pf["held"] == ["vf 2: pod 8d2f-1 (container train)"]
    assert told["manifests"] == ["<stdin>"]


DRIFTS = [
    pytest.param(("numvfs", "0"), ("4", "0"), id="vfs"),
    pytest.param(("ip", "ens2", "down"), ("link", "up", "down"), id="link"),
    pytest.param(("ip", "ens2", "mtu", "1500"), ("mtu", "1500", "9000"), id="mtu"),
    pytest.param(("ip", "ens2v1", "mtu", "1500"), ("vf 1", "1500", "9000"), id="vf-mtu"),
    pytest.param(("unbind", "1"), ("of vf 1 is none", "netdevice"), id="driver"),
]


@pytest.mark.parametrize(("done", "says"), DRIFTS)
def test_drift_is_actual_against_wanted_and_mended_by_apply(
    igb: Cli, host: TwinHost, done: tuple[str, ...], says: tuple[str, ...]
) -> None:
    igb.apply(policy("p", "ens2", 4, mtu=9000))
    whole = _lasting(tree(host))
    if done[0] == "numvfs":
        host.write(f"/sys/bus/pci/devices/{PF}/sriov_numvfs", done[1])
    elif done[0] == "unbind":
        host.write("/sys/bus/pci/drivers/igbvf/unbind", vf_of(host, PF, int(done[1])))
    else:
        run_of(host, "ip", "link", "set", *done[1:])
    result = igb("status")
    assert (result.exit_code, "drifted" in result.output) == (1, True), result.output
    assert all(words in result.output for words in says), result.output
    (pf,) = json.loads(igb("status", "-o", "json").stdout)["pfs"]
    assert pf["drift"]
    assert all(d.keys() == {"what", "actual", "wanted", "set_by"} for d in pf["drift"])
    assert igb.apply(policy("p", "ens2", 4, mtu=9000)).exit_code == 0
    assert igb("status").exit_code == 0
    same(whole, _lasting(tree(host)))


def _lasting(whole: Tree) -> Tree:
    """A VF that is bound again has its MAC from the PF, no longer from udev."""
    return {path: text for path, text in whole.items() if not path.endswith("addr_assign_type")}


def test_refused_unwanted_and_unfinished(igb: Cli, host: TwinHost) -> None:
    igb.apply(policy("p", "ens2", 4), policy("q", "enp67s0", 99), options=["--partial"])
    assert "enp67s0  0000:43:00.0  refused" in igb("status").output

    def die(point: str) -> None:
        if point.endswith("step 0"):
            raise Died

    with pytest.raises(Died):
        Bench(host, igb.place, die).apply(policy("p", "ens2", 6))
    result = igb("status")
    assert (result.exit_code, "unfinished" in result.output) == (1, True)


def test_a_pf_whose_driver_is_gone_is_told_and_no_crash(igb: Cli, host: TwinHost) -> None:
    by_address = json.dumps({"rootDevices": [PF]})
    igb.apply(policy("p", "ens2", 4, mtu=9000).replace('{"pfNames": ["ens2"]}', by_address))
    host.write("/sys/bus/pci/drivers/igb/unbind", PF)
    result = igb("status")
    assert result.exit_code == 1
    assert "has no netdev" in result.output


def test_labels_and_consent_are_kept_with_the_manifests(tmp_path: Path) -> None:
    one = Cli(host := twin("igb"), tmp_path)
    host.labels["pool"] = "gpu"
    picky = policy("p", "ens2", 2).replace('"nodeSelector": {}', '"nodeSelector": {"pool": "gpu"}')
    assert one.apply(picky).exit_code == 0
    host.labels.clear()
    assert "as wanted" in one("status").output


def test_a_journal_in_pieces_is_said(igb: Cli, tmp_path: Path) -> None:
    (tmp_path / "journal.db").write_bytes(b"this is no journal " * 999)
    result = igb("status")
    assert (result.exit_code, "is damaged" in result.output) == (5, True)
