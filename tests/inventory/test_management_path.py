"""What stands on a PF, and whether the machine would be cut off without it."""

from __future__ import annotations

from typing import Any

import pytest

from podrail.host.memory import MemoryHost
from podrail.inventory import discover
from podrail.model.inventory import Pf
from tests.inventory.machines import (
    IP_LINK,
    IP_ROUTE,
    IP_ROUTE6,
    bare,
    default_by,
    links,
    pf,
    says,
    vf,
)

NEAR = {"dst": "10.9.0.0/24", "dev": "ens1"}


def machine(*above: dict[str, Any], route: str, master: str | None = None) -> MemoryHost:
    host = bare()
    pf(host, "pci0000:00/0000:00:01.0", "ens1")
    lowest = {"ifname": "ens1", **({"master": master} if master else {})}
    says(host, IP_LINK, links(lowest, *above))
    says(host, IP_ROUTE, default_by(route))
    return host


def only_pf(host: MemoryHost) -> Pf:
    (found,) = discover(host).pfs
    return found


def kind(name: str) -> dict[str, Any]:
    return {"linkinfo": {"info_kind": name}}


def ovs_chain() -> MemoryHost:
    """ens1 → bond0 → bond0.100 → Open vSwitch br-ex, which has the default route."""
    host = machine(
        {"ifname": "bond0", **kind("bond")},
        {"ifname": "bond0.100", "link": "bond0", "master": "ovs-system", **kind("vlan")},
        {"ifname": "ovs-system", **kind("openvswitch")},
        {"ifname": "br-ex", **kind("openvswitch")},
        {"ifname": "br-int", **kind("openvswitch")},
        route="br-ex",
        master="bond0",
    )
    says(host, ("ovs-vsctl", "list-br"), "br-ex\nbr-int\n")
    says(host, ("ovs-vsctl", "list-ports", "br-ex"), "bond0.100\n")
    says(host, ("ovs-vsctl", "list-ports", "br-int"), "")
    return host


def test_default_route_on_the_pf_itself() -> None:
    assert only_pf(machine(route="ens1")).management == "the default route leaves through ens1"


def test_default_route_elsewhere() -> None:
    found = only_pf(machine({"ifname": "eth9"}, route="eth9"))
    assert (found.management, found.uplink_of) == (None, ())


def test_through_bond_vlan_and_open_vswitch() -> None:
    found = only_pf(ovs_chain())
    assert found.uplink_of == ("bond0", "bond0.100", "br-ex")
    assert found.management == (
        "the default route leaves through br-ex (ens1 → bond0 → bond0.100 → br-ex)"
    )


def test_another_ovs_bridge_is_not_above_it() -> None:
    host = ovs_chain()
    says(host, IP_ROUTE, default_by("br-int"))
    assert only_pf(host).management is None


def test_a_patch_port_may_lead_to_any_bridge() -> None:
    host = ovs_chain()
    says(host, IP_ROUTE, default_by("br-int"))
    says(host, ("ovs-vsctl", "list-ports", "br-ex"), "bond0.100\npatch-to-int\n")
    assert "br-int" in (only_pf(host).management or "")


def test_a_member_of_an_ovs_bond_is_not_listed_by_its_name() -> None:
    host = ovs_chain()
    says(host, ("ovs-vsctl", "list-ports", "br-ex"), "ovsbond\n")
    assert "br-ex" in (only_pf(host).management or "")


def test_unreadable_open_vswitch_counts_as_management() -> None:
    host = ovs_chain()
    host.remove_program(("ovs-vsctl",))
    assert only_pf(host).management == (
        "bond0.100 is an Open vSwitch port and its bridge could not be read"
    )


@pytest.mark.parametrize("upper", ["bridge", "team", "vrf"])
def test_through_a_master(upper: str) -> None:
    found = only_pf(machine({"ifname": "m0", **kind(upper)}, route="m0", master="m0"))
    assert found.management == "the default route leaves through m0 (ens1 → m0)"


@pytest.mark.parametrize("upper", ["vlan", "macvlan"])
def test_through_a_device_on_top(upper: str) -> None:
    found = only_pf(machine({"ifname": "u0", "link": "ens1", **kind(upper)}, route="u0"))
    assert found.management == "the default route leaves through u0 (ens1 → u0)"


def test_ipv6_default_route() -> None:
    host = machine(route="elsewhere")
    says(host, IP_ROUTE6, default_by("ens1"))
    assert only_pf(host).management == "the default route leaves through ens1"


def routed(*routes: dict[str, Any], above: tuple[dict[str, Any], ...] = ()) -> str | None:
    """Why ens1 is the way to the machine, with these IPv4 routes."""
    host = machine(*above, route="elsewhere")
    says(host, IP_ROUTE, list(routes))
    return only_pf(host).management


def test_a_default_route_of_another_table() -> None:
    assert routed({"dst": "default", "dev": "ens1", "table": "100"}) == (
        "the default route of table 100 leaves through ens1"
    )


def test_the_main_tables_default_route_is_the_reason_given() -> None:
    other = {"dst": "default", "dev": "ens1", "table": "100"}
    assert routed(other, *default_by("ens1")) == "the default route leaves through ens1"


@pytest.mark.parametrize(("low", "high"), [("0.0.0.0/1", "128.0.0.0/1"), ("::/1", "8000::/1")])
def test_a_default_route_in_halves(low: str, high: str) -> None:
    assert routed({"dst": low, "dev": "eth9"}, {"dst": high, "dev": "ens1"}) == (
        f"the route to {high} (part of a default route) leaves through ens1"
    )


def test_multicast_and_private_routes_are_no_default() -> None:
    narrow = ("224.0.0.0/4", "10.0.0.0/8", "fc00::/7")
    assert routed(*({"dst": dst, "dev": "ens1"} for dst in narrow)) is None


def test_a_vrf_with_a_default_route() -> None:
    vrf = {"ifname": "mgmt", "linkinfo": {"info_kind": "vrf", "info_data": {"table": 10}}}
    host = machine(vrf, route="elsewhere", master="mgmt")
    dead = {"dst": "default", "dev": "lo", "type": "unreachable", "table": "10"}
    says(host, IP_ROUTE, [dead])
    assert only_pf(host).management is None
    says(host, IP_ROUTE, [{"dst": "default", "dev": "eth9", "table": "10"}, dead])
    assert only_pf(host).management == "VRF mgmt has a default route in its table (ens1 → mgmt)"


def test_a_default_route_to_a_next_hop_without_a_device() -> None:
    host = machine(route="elsewhere")
    says(host, IP_ROUTE, [{"dst": "default", "nhid": 12, "flags": []}])
    found = discover(host)
    assert "could not be read" in (found.pfs[0].management or "")
    assert any("next hop 12" in fact.reason for fact in found.unknown)


def test_a_vf_that_carries_the_machine() -> None:
    host = machine({"ifname": "ens1v0"}, route="ens1v0")
    at = vf(host, "/sys/devices/pci0000:00/0000:00:01.0", 0, "0000:00:02.0", "igbvf")
    host.put_dir(f"{at}/net/ens1v0")
    assert only_pf(host).management == "the default route leaves through ens1v0"


def test_without_ip_nothing_is_taken_to_be_free() -> None:
    host = machine(route="elsewhere")
    host.remove_program(("ip",))
    found = discover(host)
    assert "could not be read" in (found.pfs[0].management or "")
    assert found.pfs[0].name == "ens1"
