"""A default route over a tunnel: which port the tunnel itself leaves through."""

from __future__ import annotations

from typing import Any

import pytest

from podrail.host.memory import MemoryHost
from tests.inventory.machines import IP_ROUTE, default_by, says
from tests.inventory.test_management_path import NEAR, kind, machine, only_pf, routed

WG = ("wg", "show", "all", "endpoints")


def tunnel(name: str, info_kind: str, **data: Any) -> dict[str, Any]:
    info = {"info_kind": info_kind, "info_data": data}
    return {"ifname": name, "link_type": "none", "linkinfo": info}


@pytest.mark.parametrize("of", ["vxlan", "geneve", "gre", "ipip"])
def test_a_tunnel_runs_over_the_port_its_far_end_is_behind(of: str) -> None:
    above = (tunnel("t0", of, remote="10.9.0.5"),)
    assert routed(*default_by("t0"), NEAR, above=above) == (
        "the default route leaves through t0 (ens1 → t0)"
    )
    elsewhere = (tunnel("t0", of, remote="10.8.0.5"),)
    assert (
        routed(*default_by("t0"), NEAR, {"dst": "10.8.0.0/24", "dev": "eth9"}, above=elsewhere)
        is None
    )


def test_a_tunnel_below_a_bridge() -> None:
    vxlan = {**tunnel("vx0", "vxlan", id=7, link="ens1"), "master": "br0"}
    bridge = {"ifname": "br0", **kind("bridge")}
    assert routed(*default_by("br0"), above=(vxlan, bridge)) == (
        "the default route leaves through br0 (ens1 → vx0 → br0)"
    )


def wireguard() -> MemoryHost:
    host = machine(tunnel("wg0", "wireguard"), route="wg0")
    others = [{"dst": "10.8.0.0/24", "dev": "eth9"}, {"dst": "fe80::/64", "dev": "ens1"}]
    says(host, IP_ROUTE, [*default_by("wg0"), NEAR, *others])
    return host


@pytest.mark.parametrize(
    ("endpoint", "way"),
    [("10.9.0.5:51820", "the default route leaves through wg0 (ens1 → wg0)"), ("10.8.0.5:1", None)],
)
def test_wireguard_by_its_peers(endpoint: str, way: str | None) -> None:
    host = wireguard()
    says(host, WG, f"wg0\tHIgo9xNzJMWLKASShiTqIybxZ0U3wGLiUeJ1PKf8ykw=\t{endpoint}\n")
    assert only_pf(host).management == way


@pytest.mark.parametrize("answer", [None, "wg0\tkey\t(none)\n", "nonsense\n", ""])
def test_wireguard_without_peers_may_run_over_every_port_with_a_route(answer: str | None) -> None:
    host = wireguard()
    if answer is not None:
        says(host, WG, answer)
    assert only_pf(host).management == (
        "the default route leaves through wg0; wg0 is a wireguard tunnel whose far end is not "
        "known, so it may run over ens1"
    )
    says(host, IP_ROUTE, [*default_by("wg0"), {"dst": "10.8.0.0/24", "dev": "eth9"}])
    assert only_pf(host).management is None, "without a route nothing leaves through ens1"


def test_a_tunnel_that_carries_nothing_vital_binds_nobody() -> None:
    above = (tunnel("t0", "gre", remote="any"), tunnel("wg0", "wireguard"), {"ifname": "eth9"})
    assert routed(*default_by("eth9"), NEAR, above=above) is None


def test_a_default_route_over_a_userspace_tunnel() -> None:
    assert "tun0 is a tun tunnel" in (
        routed(*default_by("tun0"), NEAR, above=(tunnel("tun0", "tun", type="tun"),)) or ""
    )


def test_a_virtual_machines_tap_is_no_way_out() -> None:
    tap = {**tunnel("tap0", "tun", type="tap"), "link_type": "ether", "master": "br0"}
    bridge = {"ifname": "br0", **kind("bridge")}
    assert routed(*default_by("br0"), NEAR, above=(tap, bridge)) is None
