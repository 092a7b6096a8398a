"""`ip` in JSON: links, VF info, addresses, routes, IPoIB addresses."""

from __future__ import annotations

import json
from typing import Any

import pytest

from podrail.inventory import links
from tests.inventory.machines import lab_text


@pytest.fixture(scope="module")
def lab() -> dict[str, Any]:
    return {item["ifname"]: item for item in json.loads(lab_text("ip-d-j-link-rootns.json"))}


def test_lab_pf(lab: dict[str, Any]) -> None:
    link = links.link_of(lab["eth1"])
    assert link is not None
    assert (link.name, link.mtu, link.max_mtu, link.parent) == ("eth1", 1500, 9216, "0000:01:00.0")
    assert (link.state, link.admin_up) == ("UP", True)
    assert sorted(link.vfs) == [0, 1, 2, 3]


def test_lab_vf_settings(lab: dict[str, Any]) -> None:
    vf0, vf1, vf2, _ = (links.vf_info(info) for info in lab["eth1"]["vfinfo_list"])
    assert (vf0.mac, vf0.vlan, vf0.qos) == ("02:00:00:00:00:10", 100, 3)
    assert (vf0.max_tx_rate, vf0.min_tx_rate) == (100, 0)
    assert (vf0.spoofchk, vf0.trust, vf0.link_state) == (False, True, "auto")
    assert (vf1.vlan, vf1.qos, vf1.spoofchk, vf1.trust) == (100, 0, True, False)
    assert (vf2.vlan, vf2.vlan_proto) == (0, None)


def test_vlan_points_at_its_lower_device() -> None:
    items = json.loads(lab_text("ip-d-j-link-ns0-VF.json"))
    vlan = links.link_of(items[1])
    assert vlan is not None
    assert (vlan.name, vlan.kind, vlan.lower) == ("net1.300", "vlan", "net1")


def test_a_lower_device_of_another_namespace_is_not_ours() -> None:
    link = links.link_of({"ifname": "eth0", "link": "eth1", "link_netnsid": 0})
    assert link is not None
    assert link.lower is None


def test_infiniband_vf_has_a_guid_and_no_mac() -> None:
    info = links.vf_info(
        {
            "vf": 0,
            "link_type": "infiniband",
            "address": "00:00:0a:2d:fe:80:00:00:00:00:00:00:ec:0d:9a:03:00:44:36:8d",
            "node guid": "22:44:33:00:33:11:00:33",
            "port guid": "10:21:33:12:00:11:22:10",
        }
    )
    assert (info.mac, info.guid) == (None, "22:44:33:00:33:11:00:33")


def test_a_zero_guid_is_told_as_zero() -> None:
    assert links.vf_info({"node guid": ":".join(["00"] * 8)}).guid == ":".join(["00"] * 8)


def test_ipoib_address_of_the_seed() -> None:
    found = links.ipoib_of("00:00:09:e8:fe:80:00:00:00:00:00:00:38:25:f3:03:00:90:85:90")
    assert found is not None
    assert (found.flags, found.qpn) == (0, 0x0009E8)
    assert (found.prefix, found.guid) == ("fe80000000000000", "38:25:f3:03:00:90:85:90")


@pytest.mark.parametrize("address", [None, "", "52:54:00:01:aa:00", "zz:" * 19 + "zz"])
def test_other_addresses_are_not_ipoib(address: str | None) -> None:
    assert links.ipoib_of(address) is None


def test_routes_of_every_table_but_those_that_end_here() -> None:
    found = links.routes_of(
        [
            {"dst": "default", "dev": "eth0"},
            {"dst": "default", "dev": "net1", "table": "100"},
            {"dst": "10.1.0.0/16", "nexthops": [{"dev": "eth1"}, {"dev": "eth2"}]},
            {"dst": "10.2.0.0/16", "type": "blackhole"},
            {"dst": "default", "type": "unreachable", "dev": "lo", "table": "10"},
            {"dst": "10.3.0.1", "dev": "eth3", "table": "local"},
            {"dst": "10.3.0.2", "dev": "eth3", "table": "255"},
            {"dst": "10.3.0.3", "dev": "eth3", "type": "local", "table": "10"},
        ],
        "0.0.0.0/0",
    )
    assert [(str(r.network), r.devices, r.table) for r in found] == [
        ("0.0.0.0/0", ("eth0",), "main"),
        ("0.0.0.0/0", ("net1",), "100"),
        ("10.1.0.0/16", ("eth1", "eth2"), "main"),
    ]


def test_addresses_leave_link_local_out() -> None:
    shown = [
        {"local": "10.0.0.5", "prefixlen": 24},
        {"local": "fe80::1", "prefixlen": 64},
        {"local": "fd00::5", "prefixlen": 64},
    ]
    found = links.addresses_of([{"ifname": "eth0", "addr_info": shown}])
    assert found == {"eth0": ("10.0.0.5/24", "fd00::5/64")}


def test_the_uplink_is_told_from_its_representors_and_children() -> None:
    items = [
        {"ifname": "eth0", "ifindex": 3, "phys_port_name": "pf0vf0"},
        {"ifname": "p0", "ifindex": 9, "phys_port_name": "p0"},
        {"ifname": "p0.8001", "ifindex": 2, "link": "p0"},
    ]
    known = {link.name: link for link in map(links.link_of, items) if link}
    found = links.pick(links.Links(known, {}, ()), ["eth0", "p0", "p0.8001"])
    assert found == "p0"
