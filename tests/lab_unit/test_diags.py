"""Parsers of infiniband-diags on recorded output."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from podrail.lab import diags
from podrail.lab.topology import FatTree, degrade
from podrail.model.errors import Unmeasured

DATA = Path(__file__).resolve().parents[1] / "data" / "ibsim"


def recorded(name: str) -> str:
    return (DATA / f"{name}.txt").read_text(encoding="utf-8")


def test_ibnetdiscover_finds_nodes_lids_and_cables() -> None:
    found = diags.ibnetdiscover(recorded("fat-tree-ibnetdiscover"))
    leaf = found.nodes[0]
    assert (leaf.kind, leaf.description, leaf.ports, leaf.lid) == ("Switch", "leaf02;ibsim", 40, 2)
    assert (leaf.vendor, leaf.device) == (0x2C9, 0xD2F0)
    assert [(w.port, w.peer_port, w.width, w.speed) for w in leaf.wires] == [
        (1, 1, 4, "SDR"), (2, 1, 4, "SDR"), (39, 3, 4, "SDR"), (40, 4, 4, "SDR"),
    ]  # fmt: skip
    adapter = found.nodes[-1]
    assert (adapter.kind, adapter.lid, adapter.wires[0].port_guid) == ("Ca", 4, adapter.guid + 1)
    assert len(found.wiring()) == 8


def test_ibnetdiscover_of_a_generated_tree_is_the_tree() -> None:
    found = diags.ibnetdiscover(recorded("hdr-ibnetdiscover"))
    net = degrade(FatTree().net(), "S-leaf0", 1, 1, "EDR")
    assert found.wiring() == net.wiring()
    assert {(n.guid, n.description, n.ports) for n in found.nodes} == {
        (n.guid, n.description, n.ports) for n in net.nodes
    }


def test_an_adapter_with_an_unused_port_has_one_cable() -> None:
    found = diags.ibnetdiscover(recorded("two-switches-ibnetdiscover"))
    assert [len(n.wires) for n in found.nodes if n.kind == "Ca"] == [1, 1, 1, 1]
    assert [n.lid for n in found.nodes] == [3, 2, 6, 4, 5, 1]


def test_the_two_forms_of_iblinkinfo_say_the_same() -> None:
    grouped = diags.iblinkinfo(recorded("two-switches-iblinkinfo"))
    assert grouped == diags.iblinkinfo(recorded("two-switches-iblinkinfo_--line"))
    assert len(grouped) == 20
    assert grouped[0] == diags.LinkInfo(
        0x10000A, "Hca4", 6, 1, "Active", "LinkUp", 4, 2.5, 3, 2, "Switch2",
        "Could be 12X Could be 10.0 Gbps",
    )  # fmt: skip


def test_a_port_without_a_cable_has_no_width_and_no_peer() -> None:
    (down,) = (
        link
        for link in diags.iblinkinfo(recorded("fat-tree-iblinkinfo-after-unlink"))
        if (link.name, link.port) == ("leaf02;ibsim", 2)
    )
    assert (down.state, down.physical) == ("Down", "Polling")
    assert (down.width, down.gbps, down.peer_lid, down.peer) == (None, None, None, "")


def test_a_slow_link_stands_out_among_fast_ones() -> None:
    links = [k for k in diags.iblinkinfo(recorded("hdr-iblinkinfo")) if k.state == "Active"]
    assert {(k.width, k.lane_gbps) for k in links} == {(4, 53.125), (1, 25.78125)}
    assert sorted(k.name for k in links if k.width == 1) == ["leaf0", "node1 mlx5_0"]
    assert {k.gbps for k in links} == {212.5, 25.78125}


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        pytest.param(
            "two-switches-sminfo", diags.SmInfo(1, 0x100001, 88, 0, "MASTER"), id="master"
        ),
        pytest.param(
            "hdr-sminfo-standby", diags.SmInfo(0, 0x0C42A10000010101, 192, 7, "STANDBY"),
            id="standby",
        ),
    ],
)  # fmt: skip
def test_sminfo(name: str, wanted: diags.SmInfo) -> None:
    assert diags.sminfo(recorded(name)) == wanted


def test_sminfo_keeps_a_state_it_does_not_know() -> None:
    text = "sminfo: sm lid 1 sm guid 0x1, activity count 2 priority 3 state 9 ???"
    assert diags.sminfo(text).state == "STATE_9"


def test_the_master_lists_every_subnet_manager_as_it_last_saw_it() -> None:
    found = diags.subnet_managers(recorded("hdr-saquery-SMIR"))
    assert {(sm.priority, sm.state) for sm in found} == {(8, "MASTER"), (7, "DISCOVERING")}


def test_paths_leave_out_the_empty_record_of_the_simulator() -> None:
    text = recorded("two-switches-saquery_-p")
    assert len(diags.saquery(text)) == 3
    assert diags.paths(text)[1] == diags.Path("fe80::10:1", "fe80::20:0", 1, 2, 0xFFFF, 0, 1024, 10)


def test_path_rates_of_hdr_are_known() -> None:
    assert {path.gbps for path in diags.paths(recorded("hdr-saquery-p"))} <= {10, 25, 50, 200}


def test_node_records_are_read_as_they_are() -> None:
    (record,) = diags.saquery(recorded("two-switches-saquery"))
    assert record["node_type"] == "Channel Adapter"
    assert record["NodeDescription"] == "Hca1"


@pytest.mark.parametrize(
    ("name", "is_sm", "sm_lid"),
    [("two-switches-ibstat", True, 1), ("fat-tree-ibstat-node3", False, 4)],
    ids=["with-sm", "without-sm"],
)
def test_ibstat(name: str, is_sm: bool, sm_lid: int) -> None:
    (adapter,) = diags.ibstat(recorded(name))
    (port,) = adapter.ports
    assert (adapter.name, adapter.kind) == ("ibsim0", "simulator")
    assert (port.number, port.state, port.physical, port.rate) == (1, "Active", "LinkUp", 10)
    assert (port.is_sm, port.sm_lid, port.guid) == (is_sm, sm_lid, adapter.guid + 1)


def test_ibstat_of_several_adapters_and_ports() -> None:
    one = recorded("two-switches-ibstat")
    second = one[one.index("\tPort 1:") :].replace("Port 1:", "Port 2:")
    both = diags.ibstat(one + second + one.replace("ibsim0", "mlx5_1"))
    assert [(a.name, len(a.ports)) for a in both] == [("ibsim0", 2), ("mlx5_1", 1)]


@pytest.mark.parametrize(
    ("name", "lid", "data"),
    [("two-switches-perfquery_1_1", 1, 37296), ("hdr-perfquery-x", 5, 42264)],
    ids=["classic", "extended"],
)
def test_perfquery(name: str, lid: int, data: int) -> None:
    counters = diags.perfquery(recorded(name))
    assert (counters.lid, counters.port) == (lid, 1)
    assert counters.values["PortXmitData"] == data
    assert counters.values["CounterSelect"] == 0


def test_lists_of_nodes() -> None:
    switches = diags.listed(recorded("fat-tree-ibswitches"))
    assert [(n.description, n.ports, n.lid) for n in switches] == [
        ("leaf02;ibsim", 40, 2), ("spine01;ibsim", 40, 3), ("leaf01;ibsim", 40, 1),
    ]  # fmt: skip
    assert len(diags.listed(recorded("two-switches-ibhosts"))) == 4
    assert len(diags.listed(recorded("two-switches-ibnodes"))) == 6
    assert len(diags.listed(recorded("two-switches-ibnetdiscover_-l"))) == 6
    hosts = diags.listed(recorded("fat-tree-ibhosts-after-unlink"))
    assert "node4 mlx5_0" not in {n.description for n in hosts}


def test_a_list_may_be_empty() -> None:
    assert diags.listed("") == ()


@pytest.mark.parametrize("text", ["", "hdr-sminfo-stopped", "two-switches-ibping_-c_2_2"])
@pytest.mark.parametrize(
    "parser",
    [
        diags.ibnetdiscover, diags.iblinkinfo, diags.sminfo, diags.saquery, diags.paths,
        diags.subnet_managers, diags.ibstat, diags.perfquery,
    ],
)  # fmt: skip
def test_what_says_nothing_is_unmeasured_never_a_guess(
    parser: Callable[[str], object], text: str
) -> None:
    with pytest.raises(Unmeasured, match="wanted"):
        parser(recorded(text) if text else "")


def test_what_was_said_instead_is_quoted() -> None:
    with pytest.raises(Unmeasured, match="Query SA failed: Connection timed out"):
        diags.paths(recorded("hdr-saquery-stopped"))
