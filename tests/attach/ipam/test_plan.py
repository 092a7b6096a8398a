from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from podrail.attach.ipam.addresses import Owner
from podrail.attach.ipam.delegate import Delegated
from podrail.attach.ipam.facts import Pooled, facts_of, owner_of
from podrail.attach.ipam.leases import LocalAddresses
from podrail.attach.ipam.plan import forget_addresses, plan_addresses
from podrail.attach.request import Request
from podrail.attach.result import CniError, Code, Result
from tests.attach.ipam.made import POD, ask, facts


@pytest.mark.parametrize("ipam", [None, {}, {"type": ""}, {"type": None}])
def test_without_a_type_there_is_nothing_to_have(tmp_path: Path, ipam: object) -> None:
    plan = plan_addresses(ipam, facts(ipam))
    with LocalAddresses(str(tmp_path / "leases.db")) as addresses:
        assert plan.add(addresses) == Result()
        plan.check(addresses)
        plan.remove(addresses)


@pytest.mark.parametrize("kind", ["host-local", "dhcp"])
def test_installed_plugins(kind: str) -> None:
    assert isinstance(plan_addresses({"type": kind}, facts()), Delegated)


@pytest.mark.parametrize(
    "ipam",
    [
        {"type": "whereabouts", "range": "10.0.0.0/24"},
        {"type": "static", "addresses": [{"address": "10.0.0.5/24"}]},
    ],
)
def test_our_own(ipam: dict[str, Any]) -> None:
    assert isinstance(plan_addresses(ipam, facts(ipam)), Pooled)


@pytest.mark.parametrize("kind", ["calico-ipam", "../host-local", "Whereabouts", "host_local"])
def test_an_unknown_type_names_the_known(kind: str) -> None:
    with pytest.raises(CniError, match="dhcp, host-local, nv-ipam, static, whereabouts") as no:
        plan_addresses({"type": kind}, facts())
    assert no.value.code == Code.INVALID_CONFIG


@pytest.mark.parametrize("ipam", ["whereabouts", [], 7, True, {"type": 7}, {"type": ["static"]}])
def test_what_is_no_ipam_object(ipam: object) -> None:
    with pytest.raises(CniError, match="wanted") as no:
        plan_addresses(ipam, facts(ipam))
    assert no.value.code == Code.INVALID_CONFIG


@pytest.mark.parametrize(
    "broken", [None, "x", {"type": "whereabouts"}, {"type": "nv-ipam", "poolName": "gone"}]
)
def test_addresses_are_given_up_whatever_became_of_the_configuration(
    tmp_path: Path, broken: object
) -> None:
    with LocalAddresses(str(tmp_path / "leases.db")) as addresses:
        addresses.allocate(ask())
        forget_addresses(broken, facts(broken), addresses)
        assert addresses.leases() == []


def test_giving_up_what_an_installed_plugin_gave_asks_the_plugin(tmp_path: Path) -> None:
    with (
        LocalAddresses(str(tmp_path / "leases.db")) as addresses,
        pytest.raises(CniError, match="host-local is not installed"),
    ):
        forget_addresses({"type": "host-local"}, facts(), addresses)


def test_a_lease_that_is_gone_fails_the_check(tmp_path: Path) -> None:
    ipam = {"type": "whereabouts", "range": "10.0.0.0/24"}
    plan = plan_addresses(ipam, facts(ipam))
    with LocalAddresses(str(tmp_path / "leases.db")) as addresses:
        plan.add(addresses)
        plan.check(addresses)
        addresses.reclaim(lambda who: False)
        with pytest.raises(CniError, match="has no address of pool whereabouts:10"):
            plan.check(addresses)


def test_facts_of_a_request() -> None:
    request = Request(
        "ADD", "c1", "/run/netns/x", "net1", {"IgnoreUnknown": "1", **POD}, ("/a", "/b"),
        {"name": "rail0"},
    )  # fmt: skip
    found = facts_of(request, node="n", node_index=3)
    assert found.owner == Owner("c1", "net1", "uid-a", "train/a")
    assert found.environment == {
        "CNI_COMMAND": "ADD", "CNI_CONTAINERID": "c1", "CNI_NETNS": "/run/netns/x",
        "CNI_IFNAME": "net1", "CNI_PATH": "/a:/b",
        "CNI_ARGS": "IgnoreUnknown=1;K8S_POD_NAMESPACE=train;K8S_POD_NAME=a;K8S_POD_UID=uid-a",
    }  # fmt: skip
    assert (found.network, found.node, found.node_index) == ("rail0", "n", 3)


def test_an_owner_without_a_pod() -> None:
    assert owner_of(Request("ADD", "c1", ifname="net1")) == Owner("c1", "net1")
