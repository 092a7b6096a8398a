"""What rules conclude from several objects, and where they keep silent for want of proof."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from podrail.model.bundle import Bundle, read
from podrail.model.finding import Status
from podrail.planning.lint import lint
from podrail.planning.lint.homes import is_openshift, prefix_of
from podrail.planning.lint.ranges import Range, all_ranges, network, span, usable
from podrail.planning.lint.view import least_vfs_per_node, policies, resource_vfs_per_node

OPERATOR = "openshift-sriov-network-operator"


def policy(name: str, nic: dict[str, Any], *, resource: str = "", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "sriovnetwork.openshift.io/v1",
        "kind": "SriovNetworkNodePolicy",
        "metadata": {"name": name, "namespace": OPERATOR},
        "spec": {
            "resourceName": resource or name, "nodeSelector": {"gpu": "true"}, "numVfs": 8,
            "isRdma": True, "nicSelector": nic, **spec,
        },
    }  # fmt: skip


def net(name: str, ipam: dict[str, Any] | str, *, resource: str = "", **spec: Any) -> Any:
    text = ipam if isinstance(ipam, str) else json.dumps(ipam)
    return {
        "apiVersion": "sriovnetwork.openshift.io/v1",
        "kind": "SriovNetwork",
        "metadata": {"name": name, "namespace": OPERATOR},
        "spec": {
            "resourceName": resource or name, "networkNamespace": "training", "ipam": text, **spec,
        },
    }  # fmt: skip


def bundle(*objects: dict[str, Any]) -> Bundle:
    return read([("manifests.yaml", yaml.safe_dump_all(objects, sort_keys=False))])


def found(*objects: dict[str, Any]) -> dict[str, Status]:
    return {f.id: f.status for f in lint(bundle(*objects))}


WHEREABOUTS = {"type": "whereabouts", "range": "192.168.100.0/24"}
PF = {"pfNames": ["ens3f0"]}


class TestPolicies:
    def test_unlike_labels_make_overlap_a_risk(self) -> None:
        ours = policy("a", PF)
        theirs = policy("b", PF, nodeSelector={"storage": "true"})
        assert found(ours, theirs)["policy.vf-overlap"] is Status.WARN

    def test_narrower_labels_make_overlap_certain(self) -> None:
        ours = policy("a", PF)
        theirs = policy("b", PF, nodeSelector={"gpu": "true", "zone": "1"})
        assert found(ours, theirs)["policy.vf-overlap"] is Status.FAIL

    def test_different_nodes_never_overlap(self) -> None:
        one = policy("a", PF, nodeSelector={"kubernetes.io/hostname": "node-1"})
        two = policy("b", PF, nodeSelector={"kubernetes.io/hostname": "node-2"})
        assert "policy.vf-overlap" not in found(one, two)

    def test_ranges_of_one_policy_overlap(self) -> None:
        twice = policy("a", {"pfNames": ["ens3f0#0-3", "ens3f0#3-5"]})
        assert found(twice)["policy.vf-overlap"] is Status.FAIL

    @pytest.mark.parametrize(
        ("entry", "bad"),
        [
            ("ens3f0", False), ("ens3f0#0-7", False), ("ens3f0#7-7", False), ("ens3f0#7", True),
            ("ens3f0#0,2-3", True), ("ens3f0#5-4", True), ("ens3f0#0-8", True),
            ("ens3f0#", True), ("ens3f0#a-b", True), ("#0-3", True), ("", True),
        ],
    )  # fmt: skip
    def test_range_syntax(self, entry: str, bad: bool) -> None:
        assert ("policy.pf-range" in found(policy("a", {"pfNames": [entry]}))) is bad

    @pytest.mark.parametrize(
        ("entry", "better"),
        [
            ("3c:00.0", "0000:3c:00.0"), ("3c:00", "0000:3c:00.0"),
            ("0000:3C:00.1", "0000:3c:00.1"), ("3:0.1", "0000:03:00.1"),
        ],
    )  # fmt: skip
    def test_short_address_is_completed(self, entry: str, better: str) -> None:
        hits = lint(bundle(policy("a", {"rootDevices": [entry]})))
        assert [f.fix for f in hits if f.id == "policy.root-device"] == [f'write "{better}"']

    def test_mtu_of_infiniband_network_is_not_judged_as_roce(self) -> None:
        ib = net("a", "")
        ib["kind"] = "SriovIBNetwork"
        assert "policy.rdma-mtu" not in found(policy("a", PF, mtu=2044), ib)


class TestCounts:
    def test_unnamed_pfs_are_unknown(self) -> None:
        vendor = bundle(policy("a", {"vendor": "15b3"}))
        assert resource_vfs_per_node(vendor, "a") is None
        assert least_vfs_per_node(vendor, "a") is None

    def test_ranges_count_their_vfs(self) -> None:
        part = bundle(policy("a", {"pfNames": ["ens3f0#0-3", "ens4f0"]}))
        assert least_vfs_per_node(part, "a") == 12

    def test_addresses_count_each_pf(self) -> None:
        four = [f"0000:{bus}:00.0" for bus in ("3c", "4d", "bc", "dc")]
        assert least_vfs_per_node(bundle(policy("a", {"rootDevices": four})), "a") == 32

    def test_two_node_groups_bound_from_both_sides(self) -> None:
        groups = bundle(
            policy("a", PF, resource="r"),
            policy("b", {"pfNames": ["ens4f0"]}, resource="r", nodeSelector={"other": "true"}),
        )
        assert least_vfs_per_node(groups, "r") == 8
        assert resource_vfs_per_node(groups, "r") == 16


class TestPlatform:
    def test_api_group_alone_is_no_openshift(self) -> None:
        one = policy("a", PF)
        one["metadata"]["namespace"] = "nvidia-network-operator"
        vanilla = bundle(one)
        assert not is_openshift(vanilla)
        assert prefix_of(vanilla, policies(vanilla)[0].resource) == "nvidia.com"

    def test_namespace_tells_openshift(self) -> None:
        ocp = bundle(policy("a", PF))
        assert is_openshift(ocp)
        assert prefix_of(ocp, policies(ocp)[0].resource) == "openshift.io"


class TestAddresses:
    def test_empty_ipam_means_no_addresses(self) -> None:
        assert found(net("a", "")) == {}
        assert found(net("a", "{}")) == {}

    def test_rules_reach_into_a_nad(self) -> None:
        config = {"plugins": [{"type": "sriov", "ipam": WHEREABOUTS | {"range": "10.0.0.0/8"}}]}
        nad = {
            "apiVersion": "k8s.cni.cncf.io/v1",
            "kind": "NetworkAttachmentDefinition",
            "metadata": {
                "name": "a", "namespace": "training",
                "annotations": {"k8s.v1.cni.cncf.io/resourceName": "openshift.io/a"},
            },
            "spec": {"config": json.dumps(config)},
        }  # fmt: skip
        assert found(nad) == {"ipam.wide-range": Status.FAIL}

    def test_range_that_swallows_a_cluster_network_fails(self) -> None:
        swallows = net("a", {"type": "whereabouts", "range": "172.30.0.0/16"})
        inside = net("a", {"type": "whereabouts", "range": "172.30.4.0/24"})
        assert found(swallows)["ipam.cluster-overlap"] is Status.FAIL
        assert found(inside)["ipam.cluster-overlap"] is Status.WARN

    def test_kubeadm_networks_do_not_count_on_openshift(self) -> None:
        assert found(net("a", {"type": "whereabouts", "range": "10.100.0.0/24"})) == {}

    def test_cgnat_outside_ovn_is_free(self) -> None:
        assert found(net("a", {"type": "whereabouts", "range": "100.100.100.0/24"})) == {}

    def test_one_rail_in_two_namespaces_shares_its_range(self) -> None:
        here, there = net("a", WHEREABOUTS), net("a", WHEREABOUTS)
        there["spec"]["networkNamespace"] = "other"
        there["metadata"]["name"] = "b"
        assert "ipam.shared-subnet" not in found(here, there)

    def test_two_parts_of_one_pf_share_their_range(self) -> None:
        low = policy("a", {"pfNames": ["ens3f0#0-3"]})
        high = policy("b", {"pfNames": ["ens3f0#4-7"]})
        shared = found(low, high, net("a", WHEREABOUTS), net("b", WHEREABOUTS))
        assert "ipam.shared-subnet" not in shared

    def test_default_route_of_ipv6_and_of_pools_nobody_uses(self) -> None:
        six = {"type": "whereabouts", "range": "fd00:100::/64", "routes": [{"dst": "::/0"}]}
        pool = {
            "apiVersion": "nv-ipam.nvidia.com/v1alpha1",
            "kind": "IPPool",
            "metadata": {"name": "a", "namespace": "nvidia-network-operator"},
            "spec": {"subnet": "192.168.9.0/24", "perNodeBlockSize": 8, "defaultGateway": True},
        }
        assert found(net("a", six)) == {"ipam.default-route": Status.FAIL}
        assert found(pool) == {"ipam.default-route": Status.WARN}

    def test_smaller_family_decides(self) -> None:
        two = {"type": "whereabouts", "ipRanges": [
            {"range": "fd00:100::/64"}, {"range": "192.168.100.0/29"},
        ]}  # fmt: skip
        assert "ipam.pool-too-small" in found(policy("a", PF), net("a", two))


def _one(ipam: dict[str, Any]) -> Range:
    (only,) = all_ranges(bundle(net("a", {"type": "whereabouts"} | ipam)))
    return only


@pytest.mark.parametrize(
    ("ipam", "size"),
    [
        ({"range": "192.168.100.0/24"}, 254),
        ({"range": "192.168.100.7/29"}, 6),
        ({"range": "192.168.100.0/31"}, 2),
        ({"range": "192.168.100.10-192.168.100.19/24"}, 10),
        ({"range": "10.1.0.0/24", "range_start": "10.1.0.101", "range_end": "10.1.0.212"}, 112),
        ({"range": "10.1.0.0/24", "range_start": "10.1.0.20", "range_end": "10.1.0.10"}, 0),
        ({"range": "10.1.0.0/24", "exclude": ["10.1.0.0/28", "10.1.0.8/29"]}, 239),
        ({"range": "10.1.0.0/24", "exclude": ["10.2.0.0/28", "fd00::/64"]}, 254),
        ({"range": "10.1.0.0/24", "exclude": ["10.1.0.0/16"]}, 0),
    ],
)
def test_size_of_a_range(ipam: dict[str, Any], size: int) -> None:
    assert _one(ipam).size == size


@pytest.mark.parametrize("text", ["192.168.1.0", "192.168.1.0/33", "rail/24", "", "/24"])
def test_not_a_subnet(text: str) -> None:
    assert network(text) is None


def test_span_and_usable() -> None:
    assert span("10.0.0.1-10.0.0.9/24") == ("10.0.0.1/24", "10.0.0.1", "10.0.0.9")
    net_ = network("10.0.0.0/30")
    assert net_ is not None
    assert [str(a) for a in usable(net_)] == ["10.0.0.1", "10.0.0.2"]
