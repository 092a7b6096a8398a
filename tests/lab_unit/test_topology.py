"""Fat trees: whatever is asked for, the cables fit the switches and the net file says the same."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podrail.lab.topology import SPEEDS, WIDTHS, FatTree, Net, degrade, parse, render
from podrail.model.errors import UsageError


@st.composite
def trees(draw: st.DrawFn) -> FatTree:
    rails = draw(st.integers(1, 5))
    pods = draw(st.integers(1, 3))
    spines = draw(st.integers(1 if rails * pods > 1 else 0, 4))
    uplinks = draw(st.integers(1, 2))
    return FatTree(
        hosts=draw(st.integers(1, 24)), rails=rails, leaves=rails * pods, spines=spines,
        uplinks=uplinks, speed=draw(st.sampled_from(SPEEDS)), width=draw(st.sampled_from(WIDTHS)),
        subnet=draw(st.integers(0, 255)),
    )  # fmt: skip


@given(trees())
def test_the_net_file_says_what_the_model_says(tree: FatTree) -> None:
    assert parse(render(tree.net())) == tree.net()


@given(trees())
def test_every_adapter_is_plugged_in_once_into_the_leaf_of_its_rail(tree: FatTree) -> None:
    net = tree.net()
    assert len(net.adapters) == tree.hosts * tree.rails
    for adapter in net.adapters:
        (cable,) = adapter.cables
        rail = int(adapter.name.rpartition("rail")[2])
        assert int(cable.peer.removeprefix("S-leaf")) % tree.rails == rail
    plugged = Counter(c.peer for node in net.switches for c in node.cables if c.peer[0] == "H")
    assert all(count == 1 for count in plugged.values())
    assert set(plugged) == {adapter.name for adapter in net.adapters}


@given(trees())
def test_a_host_has_all_its_rails_in_one_pod(tree: FatTree) -> None:
    pods: dict[str, set[int]] = {}
    for adapter in tree.net().adapters:
        leaf = int(adapter.cables[0].peer.removeprefix("S-leaf"))
        pods.setdefault(adapter.name.rpartition("-")[0], set()).add(leaf // tree.rails)
    assert all(len(where) == 1 for where in pods.values())


@given(trees())
def test_no_switch_has_more_cables_than_ports_and_no_port_two_cables(tree: FatTree) -> None:
    for node in tree.net().nodes:
        ports = [cable.port for cable in node.cables]
        assert len(set(ports)) == len(ports)
        assert all(1 <= port <= node.ports for port in ports)


@given(trees())
def test_every_cable_is_seen_alike_from_both_ends(tree: FatTree) -> None:
    net = tree.net()
    for node in net.nodes:
        for cable in node.cables:
            back = net[cable.peer].cable(cable.peer_port)
            assert back is not None
            assert (back.peer, back.peer_port) == (node.name, cable.port)
            assert (back.width, back.speed) == (cable.width, cable.speed)


@given(trees())
def test_every_leaf_has_the_same_uplinks_to_every_spine(tree: FatTree) -> None:
    for spine in (node for node in tree.net().switches if "spine" in node.name):
        counted = Counter(cable.peer for cable in spine.cables)
        assert counted == {f"S-leaf{leaf}": tree.uplinks for leaf in range(tree.leaves)}


@given(trees())
def test_guids_are_unique_and_always_the_same(tree: FatTree) -> None:
    net = tree.net()
    guids = [node.guid for node in net.nodes]
    ports = [adapter.port_guid(1) for adapter in net.adapters]
    assert len({*guids, *ports}) == len(guids) + len(ports)
    assert tree.net() == net


@given(trees(), st.integers(0, 255))
def test_two_subnets_share_no_guid(tree: FatTree, other: int) -> None:
    if other != tree.subnet:
        again = FatTree(hosts=3, rails=2, subnet=other)
        assert not {n.guid for n in tree.net().nodes} & {n.guid for n in again.net().nodes}
        assert tree.prefix != again.prefix


@given(trees())
def test_all_of_it_is_in_reach_of_any_node(tree: FatTree) -> None:
    net = tree.net()
    assert net.reach(net.nodes[-1].name) == net.wiring()


def test_names_fit_what_ibsim_can_hold() -> None:
    largest = FatTree(hosts=36, rails=20, leaves=40, spines=2)
    # struct sim_client_info.nodeid has 32 bytes
    assert all(len(node.name) < 32 for node in largest.net().nodes)


def test_cutting_the_only_uplink_leaves_a_pod_alone() -> None:
    net = FatTree(hosts=2, rails=1, leaves=2, spines=1).net()
    alone = net.reach("H-node1-rail0", [("S-spine0", 1)])
    assert alone == {frozenset({net.end("H-node1-rail0", 1), net.end("S-leaf0", 1)})}


def test_a_slower_cable_is_slower_at_both_ends_and_nowhere_else() -> None:
    net = FatTree().net()
    slow = degrade(net, "S-leaf0", 1, 1, "EDR")
    assert _rates(slow) - _rates(net) == {
        ("S-leaf0", 1, 1, "EDR"),
        ("H-node1-rail0", 1, 1, "EDR"),
    }
    assert parse(render(slow)) == slow


def _rates(net: Net) -> set[tuple[str, int, int, str]]:
    return {(n.name, c.port, c.width, c.speed) for n in net.nodes for c in n.cables}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        pytest.param({"hosts": 0}, "hosts 0", id="no-hosts"),
        pytest.param({"rails": 0, "leaves": 1}, "rails 0", id="no-rails"),
        pytest.param({"rails": 2, "leaves": 3}, "multiple of 2", id="a-leaf-too-many"),
        pytest.param({"spines": 0}, "add --spines 1", id="no-spine"),
        pytest.param({"hosts": 40}, "a leaf needs 41 ports", id="leaf-full"),
        pytest.param({"leaves": 42}, "a spine needs 42 ports", id="spine-full"),
        pytest.param({"speed": "XYZ"}, "4xXYZ is no link", id="no-such-speed"),
        pytest.param({"subnet": 256}, "subnet 256", id="no-such-subnet"),
    ],
)
def test_what_cannot_be_cabled_is_refused_with_the_numbers(
    wrong: dict[str, int], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        FatTree(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("vendid=0x2c9\ndevid=0x1", "no node with a GUID", id="no-node"),
        pytest.param('caguid=0x1\nCa\t1 "H-a"\t\t# "a"\n[1] what', "not a cable", id="not-a-cable"),
    ],
)
def test_what_is_no_net_file_is_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse(text)
