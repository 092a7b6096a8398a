from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from podrail.attach.ipam.facts import Pooled
from podrail.attach.ipam.leases import LocalAddresses, PoolFull
from podrail.attach.ipam.pool import Range
from podrail.attach.ipam.whereabouts import whereabouts_plan
from podrail.attach.result import Address, CniError, Code, Dns, Route
from tests.attach.ipam.made import ask, facts


def _plan(ipam: dict[str, Any], **more: Any) -> Pooled:
    return whereabouts_plan({"type": "whereabouts", **ipam}, facts(ipam, **more))


def _only(ipam: dict[str, Any]) -> Range:
    (request,) = _plan(ipam).requests
    (range_,) = request.pools
    return range_


@pytest.mark.parametrize(
    ("ipam", "network", "first", "last"),
    [
        pytest.param({"range": "10.0.0.0/24"}, "10.0.0.0/24", "10.0.0.1", "10.0.0.254", id="plain"),
        pytest.param({"range": "10.0.0.77/24"}, "10.0.0.0/24", "10.0.0.1", "10.0.0.254",
                     id="host-bits"),
        pytest.param({"range": "10.0.0.0/24", "range_start": "10.0.0.9", "range_end": "10.0.0.12"},
                     "10.0.0.0/24", "10.0.0.9", "10.0.0.12", id="ends"),
        pytest.param({"Range": "10.0.0.0/24", "Range_Start": "10.0.0.9"},
                     "10.0.0.0/24", "10.0.0.9", "10.0.0.254", id="keys-in-any-case"),
        pytest.param({"range": "10.0.0.10-10.0.0.20/24", "range_start": "10.0.0.2"},
                     "10.0.0.0/24", "10.0.0.10", "10.0.0.20", id="span-beats-start"),
        pytest.param({"range": "fd00::10-fd00::20/64"}, "fd00::/64", "fd00::10", "fd00::20",
                     id="span-v6"),
        pytest.param({"range": "10.0.0.4/31"}, "10.0.0.4/31", "10.0.0.4", "10.0.0.5", id="p2p"),
        pytest.param({"ipRanges": [{"range": "10.0.0.0/30"}]}, "10.0.0.0/30", "10.0.0.1",
                     "10.0.0.2", id="ip-ranges"),
        pytest.param({"range": "10.0.0.0/24", "range_end": None, "gateway": None},
                     "10.0.0.0/24", "10.0.0.1", "10.0.0.254", id="null-is-absent"),
    ],
)  # fmt: skip
def test_ranges(ipam: dict[str, Any], network: str, first: str, last: str) -> None:
    range_ = _only(ipam)
    assert (str(range_.network), str(range_.first), str(range_.last)) == (network, first, last)


def test_exclusions_and_gateway() -> None:
    range_ = _only({
        "range": "10.0.0.0/28", "exclude": ["10.0.0.4/30", "10.0.0.9", "fd00::/64"],
        "gateway": "10.0.0.1",
    })  # fmt: skip
    assert range_.size == 14 - 4 - 1 - 1
    assert str(range_.gateway) == "10.0.0.1"


def test_dual_stack_is_a_request_for_each_range_and_the_gateway_for_its_family() -> None:
    plan = _plan({
        "range": "10.0.0.0/24", "ipRanges": [{"range": "fd00::/64", "exclude": ["fd00::1"]}],
        "gateway": "10.0.0.1",
    })  # fmt: skip
    v4, v6 = (request.pools[0] for request in plan.requests)
    assert (str(v4.gateway), v6.gateway) == ("10.0.0.1", None)
    assert [str(low) for low, _ in v6.exclusions] == ["fd00::1"]
    assert v4.exclusions == ()


def test_routes_and_dns() -> None:
    plan = _plan({
        "range": "10.0.0.0/24", "routes": [{"dst": "10.1.0.0/16", "gw": "10.0.0.1", "mtu": 9000}],
        "dns": {"nameservers": ["10.0.0.53"], "domain": "rail"},
    })  # fmt: skip
    assert plan.routes == (Route("10.1.0.0/16", "10.0.0.1", 9000),)
    assert plan.dns == Dns(("10.0.0.53",), "rail")


def test_upstream_passes_over_ends_outside_of_the_network_and_we_say_so() -> None:
    plan = _plan({"range": "10.0.0.0/24", "range_start": "10.9.0.1", "range_end": "10.0.0.255"})
    assert str(plan.requests[0].pools[0].last) == "10.0.0.254"
    assert [note.split(" has")[0] for note in plan.notes] == [
        "ipam.range_start 10.9.0.1", "ipam.range_end 10.0.0.255",
    ]  # fmt: skip


def test_keys_without_effect_are_noted() -> None:
    plan = _plan({
        "range": "10.0.0.0/24", "leader_lease_duration": 1500, "kubernetes": {"kubeconfig": "/x"},
        "log_file": "/tmp/x", "node_slice_size": "/26", "reconciler_cron_expression": "* * * * *",
        "rangeStart": "10.0.0.9",
    })  # fmt: skip
    assert [note.split()[0] for note in plan.notes] == [
        "ipam.leader_lease_duration", "ipam.kubernetes", "ipam.log_file", "ipam.node_slice_size",
        "ipam.reconciler_cron_expression", "ipam.rangestart",
    ]  # fmt: skip
    assert _plan({"range": "10.0.0.0/24", "network_name": "a"}).notes == ()


def test_a_gateway_nobody_can_reach_is_noted() -> None:
    assert "outside" in _plan({"range": "10.0.0.0/24", "gateway": "10.9.0.1"}).notes[0]


def test_names_and_scopes() -> None:
    plain, named = (
        _only({"range": "10.0.0.0/24"}),
        _only({"range": "10.0.0.0/24", "network_name": "b"}),
    )
    apart = _only({"range": "10.0.0.0/24", "enable_overlapping_ranges": False})
    assert plain.name == apart.name != named.name
    assert (plain.scope, named.scope) == ("whereabouts:", "whereabouts:b")
    assert apart.scope == apart.name


def test_overlapping_ranges_give_no_address_twice_unless_told_to(tmp_path: Path) -> None:
    wide, narrow = _only({"range": "10.0.0.0/24"}), _only({"range": "10.0.0.0/30"})
    alone = _only({"range": "10.0.0.0/30", "enable_overlapping_ranges": False})
    other = _only({"range": "10.0.0.0/24", "network_name": "other"})
    with LocalAddresses(str(tmp_path / "leases.db")) as addresses:
        for number in (1, 2):
            addresses.allocate(ask(number, wide))
        with pytest.raises(PoolFull):
            addresses.allocate(ask(3, narrow))
        assert addresses.allocate(ask(4, alone)).address == "10.0.0.1/30"
        assert addresses.allocate(ask(5, other)).address == "10.0.0.1/24"


def test_what_the_pod_asks_for_is_given_instead(tmp_path: Path) -> None:
    ipam = {"range": "10.0.0.0/24", "ipRanges": [{"range": "fd00::/64"}], "gateway": "10.0.0.1"}
    plan = _plan(ipam, config={"runtimeConfig": {"ips": ["10.0.0.77/24"]}})
    with LocalAddresses(str(tmp_path / "leases.db")) as addresses:
        result = plan.add(addresses)
    assert result.ips == (Address("10.0.0.77/24", "10.0.0.1"), Address("fd00::1/64"))


def test_written_addresses_come_on_top_and_nobody_else_gets_them(tmp_path: Path) -> None:
    ipam = {
        "range": "10.0.0.0/30",
        "addresses": [{"address": "10.0.0.2/25", "gateway": "10.0.0.9"}, {"address": "10.9.0.9/8"}],
    }
    plan = _plan(ipam, args={"IP": "172.16.0.2/16"})
    with LocalAddresses(str(tmp_path / "leases.db")) as addresses:
        assert plan.add(addresses).ips == (
            Address("10.0.0.1/30"), Address("10.0.0.2/25", "10.0.0.9"), Address("10.9.0.9/8"),
            Address("172.16.0.2/16"),
        )  # fmt: skip
        assert plan.add(addresses) == plan.add(addresses), "and once more the same"
        with pytest.raises(PoolFull):
            addresses.allocate(ask(9, _only({"range": "10.0.0.0/30"})))
        plan.remove(addresses)
        assert addresses.leases() == []


@pytest.mark.parametrize(
    "ipam",
    [
        pytest.param({}, id="no-range"),
        pytest.param({"range": ""}, id="empty-range"),
        pytest.param({"range": 7}, id="number"),
        pytest.param({"range": True}, id="boolean"),
        pytest.param({"range": "10.0.0.0"}, id="no-prefix"),
        pytest.param({"range": "10.0.0.0/33"}, id="prefix"),
        pytest.param({"range": "300.0.0.0/24"}, id="octet"),
        pytest.param({"range": "10.0.0.9-10.0.0.4/24"}, id="span-backwards"),
        pytest.param({"range": "10.9.0.1-10.0.0.4/24"}, id="span-outside"),
        pytest.param({"range": "fd00::1-10.0.0.4/24"}, id="span-families"),
        pytest.param({"range": "10.0.0.1-/24"}, id="span-half"),
        pytest.param({"range": "10.0.0.0/24", "range_start": "x"}, id="start"),
        pytest.param({"range": "10.0.0.0/24", "range_start": "10.0.0.1/24"}, id="start-prefix"),
        pytest.param({"range": "10.0.0.0/24", "range_start": "10.0.0.9", "range_end": "10.0.0.4"},
                     id="ends-backwards"),
        pytest.param({"range": "10.0.0.0/24", "exclude": "10.0.0.1"}, id="exclude-text"),
        pytest.param({"range": "10.0.0.0/24", "exclude": ["10.0.0.0/99"]}, id="exclude"),
        pytest.param({"range": "10.0.0.0/24", "exclude": [5]}, id="exclude-number"),
        pytest.param({"range": "10.0.0.0/24", "gateway": "10.0.0.1/24"}, id="gateway"),
        pytest.param({"range": "10.0.0.0/24", "ipRanges": {}}, id="ip-ranges-object"),
        pytest.param({"range": "10.0.0.0/24", "ipRanges": [{}]}, id="ip-ranges-empty"),
        pytest.param({"range": "10.0.0.0/24", "ipRanges": ["10.0.0.0/24"]}, id="ip-ranges-text"),
        pytest.param({"range": "10.0.0.0/24", "routes": [{"gw": "10.0.0.1"}]}, id="route"),
        pytest.param({"range": "10.0.0.0/24", "dns": []}, id="dns"),
        pytest.param({"range": "10.0.0.0/24", "network_name": 1}, id="network-name"),
        pytest.param({"range": "10.0.0.0/24", "enable_overlapping_ranges": "no"}, id="overlapping"),
        pytest.param({"range": "10.0.0.0/24", "addresses": [{"address": "10.0.0.1"}]}, id="static"),
    ],
)  # fmt: skip
def test_bad_input_is_an_invalid_config(ipam: dict[str, Any]) -> None:
    with pytest.raises(CniError, match=r"found .*, wanted ") as no:
        _plan(ipam)
    assert no.value.code == Code.INVALID_CONFIG


@pytest.mark.parametrize("ips", [["10.9.0.1"], ["10.0.0.5", "10.0.0.6"], ["x"], [""]])
def test_addresses_asked_for_that_no_range_has(ips: list[str]) -> None:
    with pytest.raises(CniError, match="wanted") as no:
        _plan({"range": "10.0.0.0/24"}, config={"runtimeConfig": {"ips": ips}})
    assert no.value.code == Code.INVALID_CONFIG
