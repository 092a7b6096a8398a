from __future__ import annotations

from ipaddress import ip_address, ip_network
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podrail.attach.ipam.facts import Pooled
from podrail.attach.ipam.leases import LocalAddresses
from podrail.attach.ipam.nvipam import nvipam_plan
from podrail.attach.ipam.pool import Range
from podrail.attach.result import Address, CniError, Code, Route
from podrail.model.kinds.nvipam import CIDRPool, IPPool
from tests.attach.ipam.made import facts


def ip_pool(name: str = "a", status: Any = None, **spec: Any) -> IPPool:
    spec = {"subnet": "10.0.0.0/24", "perNodeBlockSize": 16, **spec}
    return IPPool.model_validate(
        {"apiVersion": "nv-ipam.nvidia.com/v1alpha1", "kind": "IPPool", "metadata": {"name": name},
         "spec": spec, "status": status}
    )  # fmt: skip


def cidr_pool(name: str = "a", status: Any = None, **spec: Any) -> CIDRPool:
    spec = {"cidr": "10.0.0.0/16", "perNodeNetworkPrefix": 24, **spec}
    return CIDRPool.model_validate(
        {"apiVersion": "nv-ipam.nvidia.com/v1alpha1", "kind": "CIDRPool",
         "metadata": {"name": name}, "spec": spec, "status": status}
    )  # fmt: skip


def _plan(*pools: IPPool | CIDRPool, ipam: dict[str, Any] | None = None, **more: Any) -> Pooled:
    kind = "cidrpool" if isinstance(pools[0], CIDRPool) else "ippool"
    ipam = {"type": "nv-ipam", "poolName": "a", "poolType": kind, **(ipam or {})}
    return nvipam_plan(ipam, facts(ipam, pools=pools, **{"node": "n", "node_index": 0, **more}))


def _only(*pools: IPPool | CIDRPool, **more: Any) -> Range:
    (request,) = _plan(*pools, **more).requests
    (range_,) = request.pools
    return range_


def _ends(range_: Range) -> str:
    return f"{range_.first}–{range_.last} {range_.network}"


# --- IPPool -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("index", "ends"),
    [(0, "10.0.0.1–10.0.0.16"), (1, "10.0.0.17–10.0.0.32"), (14, "10.0.0.225–10.0.0.240")],
)
def test_the_block_of_a_node(index: int, ends: str) -> None:
    assert _ends(_only(ip_pool(), node_index=index)) == f"{ends} 10.0.0.0/24"


def test_a_block_must_be_whole() -> None:
    with pytest.raises(CniError, match="no block for node 15"):
        _plan(ip_pool(), node_index=15)


def test_blocks_that_are_excluded_as_a_whole_are_not_counted() -> None:
    out = [{"startIP": "10.0.0.17", "endIP": "10.0.0.40"}]
    assert _ends(_only(ip_pool(exclusions=out), node_index=1)).startswith("10.0.0.33–10.0.0.48")
    assert _only(ip_pool(exclusions=out), node_index=1).size == 8


def test_the_status_of_the_pool_beats_the_index() -> None:
    status = {"allocations": [
        {"nodeName": "m", "startIP": "10.0.0.1", "endIP": "10.0.0.16"},
        {"nodeName": "n", "startIP": "10.0.0.65", "endIP": "10.0.0.80"},
    ]}  # fmt: skip
    assert _ends(_only(ip_pool(status=status))).startswith("10.0.0.65–10.0.0.80")


def test_exclusions_by_index_count_from_the_block() -> None:
    range_ = _only(ip_pool(perNodeExclusions=[{"startIndex": 0, "endIndex": 3}]), node_index=1)
    assert range_.size == 12
    assert range_.exclusions == ((ip_address("10.0.0.17"), ip_address("10.0.0.20")),)


def test_gateway_routes_and_default_route() -> None:
    made = ip_pool(gateway="10.0.0.1", defaultGateway=True, routes=[{"dst": "192.168.0.0/16"}])
    plan = _plan(made)
    assert plan.requests[0].pools[0].size == 15
    assert plan.routes == (Route("192.168.0.0/16", "10.0.0.1"), Route("0.0.0.0/0", "10.0.0.1"))


@given(st.integers(24, 30), st.integers(1, 9), st.integers(0, 12))
def test_property_nodes_share_no_address(length: int, size: int, nodes: int) -> None:
    net = ip_network(f"10.0.0.0/{length}")
    made = ip_pool(subnet=str(net), perNodeBlockSize=size)
    parts = []
    for index in range(nodes):
        try:
            parts.append(_only(made, node_index=index))
        except CniError:
            assert (index + 1) * size > net.num_addresses - 2
            break
    for one, two in combinations(parts, 2):
        assert int(one.last) < int(two.first)
    assert all(part.size == size for part in parts)


# --- CIDRPool ---------------------------------------------------------------------------------


def test_the_network_of_a_node() -> None:
    assert _ends(_only(cidr_pool(), node_index=7)) == "10.0.7.1–10.0.7.254 10.0.7.0/24"


def test_point_to_point_networks() -> None:
    made = cidr_pool(cidr="10.0.0.0/24", perNodeNetworkPrefix=31, gatewayIndex=0)
    range_ = _only(made, node_index=3)
    assert (_ends(range_), str(range_.gateway)) == ("10.0.0.6–10.0.0.7 10.0.0.6/31", "10.0.0.6")
    assert range_.size == 1


def test_v6() -> None:
    made = cidr_pool(cidr="fd00::/48", perNodeNetworkPrefix=64, gatewayIndex=1)
    range_ = _only(made, node_index=65535)
    assert str(range_.network) == "fd00:0:0:ffff::/64"
    assert str(range_.gateway) == "fd00:0:0:ffff::1"


def test_static_allocations_are_their_nodes_and_nobody_elses() -> None:
    named = [{"nodeName": "n", "prefix": "10.0.9.0/24", "gateway": "10.0.9.9"},
             {"nodeName": "m", "prefix": "10.0.1.0/24"}, {"prefix": "10.0.2.0/24"}]  # fmt: skip
    made = cidr_pool(staticAllocations=named, gatewayIndex=1)
    mine = _only(made)
    assert (str(mine.network), str(mine.gateway)) == ("10.0.9.0/24", "10.0.9.9")
    other = _only(made, node="o", node_index=1)
    assert (str(other.network), str(other.gateway)) == ("10.0.3.0/24", "10.0.3.1")


def test_excluded_networks_are_not_counted() -> None:
    out = [{"startIP": "10.0.0.0", "endIP": "10.0.1.128"}]
    range_ = _only(cidr_pool(exclusions=out), node_index=0)
    assert str(range_.network) == "10.0.1.0/24"
    assert range_.size == 254 - 128


def test_its_status_and_indexes_from_the_network_address() -> None:
    status = {"allocations": [{"nodeName": "n", "prefix": "10.0.4.0/24", "gateway": "10.0.4.7"}]}
    made = cidr_pool(status=status, perNodeExclusions=[{"startIndex": 0, "endIndex": 9}])
    range_ = _only(made)
    assert (str(range_.network), str(range_.gateway)) == ("10.0.4.0/24", "10.0.4.7")
    assert range_.exclusions == ((ip_address("10.0.4.0"), ip_address("10.0.4.9")),)


# --- which pool -------------------------------------------------------------------------------


def test_two_pools_are_dual_stack(tmp_path: Path) -> None:
    plan = _plan(ip_pool("a"), ip_pool("b", subnet="fd00::/64"), ipam={"poolName": "a, b"})
    with LocalAddresses(str(tmp_path / "leases.db")) as addresses:
        assert plan.add(addresses).ips == (Address("10.0.0.1/24"), Address("fd00::1/64"))
        plan.check(addresses)
        plan.remove(addresses)
        with pytest.raises(CniError, match="has no address of pool nv-ipam:ippool:a"):
            plan.check(addresses)


def test_the_default_pool_has_the_networks_name() -> None:
    assert _only(ip_pool("rail0"), ipam={"poolName": ""}).name == "nv-ipam:ippool:rail0"
    with pytest.raises(CniError, match="poolName"):
        _plan(ip_pool("rail0"), ipam={"poolName": "", "forcePoolName": True})


def test_an_ippool_and_a_cidrpool_of_one_name_are_two() -> None:
    both = ip_pool("a"), cidr_pool("a")
    names = {_only(*both, ipam={"poolType": kind}).name for kind in ("ippool", "CIDRPool")}
    assert names == {"nv-ipam:ippool:a", "nv-ipam:cidrpool:a"}


def test_the_pod_may_name_pools() -> None:
    args = {"args": {"cni": {"poolNames": ["b"], "poolType": "cidrpool"}}}
    assert _only(ip_pool("a"), cidr_pool("b"), config=args).name == "nv-ipam:cidrpool:b"


def test_keys_of_the_daemon_are_noted() -> None:
    assert "daemonsocket" in _plan(ip_pool(), ipam={"daemonSocket": "unix:///x"}).notes[0]


# --- what the pod wishes ----------------------------------------------------------------------


def _added(tmp_path: Path, plan: Pooled) -> tuple[Address, ...]:
    with LocalAddresses(str(tmp_path / "leases.db")) as addresses:
        return plan.add(addresses).ips


def test_an_address_outside_of_the_block_may_be_asked_for(tmp_path: Path) -> None:
    plan = _plan(ip_pool(), config={"runtimeConfig": {"ips": ["10.0.0.200/24"]}})
    assert _added(tmp_path, plan) == (Address("10.0.0.200/24"),)


def test_priority_of_wishes(tmp_path: Path) -> None:
    config = {"args": {"cni": {"ips": ["10.0.0.7"]}}}
    plan = _plan(ip_pool(), config=config, args={"IP": "10.0.0.8"})
    assert plan.requests[0].static == ("10.0.0.7",)
    assert _plan(ip_pool(), args={"IP": "10.0.0.8"}).requests[0].static == ("10.0.0.8",)


def test_an_index_in_the_block(tmp_path: Path) -> None:
    plan = _plan(ip_pool(), node_index=1, config={"args": {"cni": {"allocateIPWithIndex": 3}}})
    assert _added(tmp_path, plan) == (Address("10.0.0.20/24"),)


def test_the_gateways_own_place(tmp_path: Path) -> None:
    config = {"args": {"cni": {"allocateDefaultGateway": True}}}
    plan = _plan(ip_pool(gateway="10.0.0.1"), config=config)
    assert _added(tmp_path, plan) == (Address("10.0.0.1/24"),)


@pytest.mark.parametrize(
    "cni",
    [
        {"allocateIPWithIndex": 16}, {"allocateIPWithIndex": -1}, {"allocateIPWithIndex": "1"},
        {"allocateDefaultGateway": True}, {"allocateIPWithIndex": 1, "ips": ["10.0.0.1"]},
        {"ips": ["10.9.0.1"]}, {"ips": ["10.0.0.5", "10.0.0.6"]}, {"ips": "10.0.0.5"},
        {"poolNames": ["a", "b", "c"]}, {"poolNames": ["a", "a"]}, {"poolType": "pool"},
    ],
)  # fmt: skip
def test_wishes_that_cannot_be(cni: dict[str, Any]) -> None:
    with pytest.raises(CniError, match=r"found .*, wanted ") as no:
        _plan(ip_pool(), config={"args": {"cni": cni}})
    assert no.value.code == Code.INVALID_CONFIG


# --- bad pools --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(ip_pool(subnet="10.0.0.0"), id="subnet"),
        pytest.param(ip_pool(gateway="10.9.0.1"), id="gateway"),
        pytest.param(ip_pool(exclusions=[{"startIP": "10.0.0.9", "endIP": "10.0.0.1"}]),
                     id="order"),
        pytest.param(ip_pool(exclusions=[{"startIP": "fd00::", "endIP": "fd00::1"}]), id="family"),
        pytest.param(ip_pool(exclusions=[{"startIP": "x", "endIP": "10.0.0.1"}]), id="exclusion"),
        pytest.param(ip_pool(perNodeExclusions=[{"startIndex": 9, "endIndex": 1}]),
                     id="index-order"),
        pytest.param(ip_pool(perNodeExclusions=[{"startIndex": 0, "endIndex": 999}]), id="index"),
        pytest.param(ip_pool(routes=[{"dst": "10.1.0.0/16"}]), id="routes-without-gateway"),
        pytest.param(ip_pool(gateway="10.0.0.1", routes=[{"dst": "x"}]), id="route"),
        pytest.param(ip_pool(status={"allocations": [{"nodeName": "n"}]}), id="status-empty"),
        pytest.param(ip_pool(status={"allocations": "x"}), id="status-text"),
        pytest.param(ip_pool(status={"allocations": [
            {"nodeName": "n", "startIP": "10.9.0.1", "endIP": "10.9.0.2"}]}), id="status-outside"),
        pytest.param(cidr_pool(cidr="x/8"), id="cidr"),
        pytest.param(cidr_pool(perNodeNetworkPrefix=8), id="prefix-short"),
        pytest.param(cidr_pool(perNodeNetworkPrefix=64), id="prefix-long"),
        pytest.param(cidr_pool(gatewayIndex=0), id="gateway-is-the-network"),
        pytest.param(cidr_pool(gatewayIndex=255), id="gateway-is-the-broadcast"),
        pytest.param(cidr_pool(staticAllocations=[{"nodeName": "n", "prefix": "x"}]), id="static"),
        pytest.param(cidr_pool(status={"allocations": [{"nodeName": "n"}]}), id="cidr-status"),
    ],
)  # fmt: skip
def test_bad_pools(made: IPPool | CIDRPool) -> None:
    with pytest.raises(CniError, match=r"found .*, wanted ") as no:
        _plan(made)
    assert no.value.code == Code.INVALID_CONFIG


@pytest.mark.parametrize("name", ["b", "a,b,a", "a,", "a,a", ","])
def test_pool_names_that_cannot_be(name: str) -> None:
    with pytest.raises(CniError, match="poolName"):
        _plan(ip_pool("a"), ipam={"poolName": name})


def test_a_node_that_has_no_block_yet_is_to_try_again() -> None:
    with pytest.raises(CniError, match="no block for node n yet") as no:
        _plan(ip_pool(), node_index=None)
    assert no.value.code == Code.TRY_AGAIN_LATER
