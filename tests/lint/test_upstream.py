"""Manifests as upstream's pages and a running cluster show them: none is an error.

A false alarm costs more than a miss, so each file states the warnings it may give in its first
line (`# warns: rule rule`) and gives no others.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from podrail.model.bundle import read
from podrail.model.finding import Status
from podrail.planning.lint import lint
from tests.lint.test_joins import OPERATOR, PF, WHEREABOUTS, bundle, found, net, policy

FILES = sorted((Path(__file__).parent / "upstream").glob("*.yaml"))


def _read(file: Path) -> dict[str, Status]:
    return {f.id: f.status for f in lint(read([(file.name, file.read_text())]))}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_gives_no_error(file: Path) -> None:
    stated = re.match(r"# warns: (.*)\n", file.read_text())
    allowed = dict.fromkeys(stated[1].split() if stated else (), Status.WARN)
    assert _read(file) == allowed


def test_there_are_many() -> None:
    assert len(FILES) >= 25


# --- what the operator passes over ------------------------------------------------------------


def test_policy_called_default_feeds_nothing() -> None:
    named = policy("default", PF, resource="rail0")
    other = policy("rail1", PF)
    assert found(named, other) == {"policy.default-ignored": Status.WARN}


# --- namespaces -------------------------------------------------------------------------------


def _in(namespace: str, made: dict[str, Any]) -> dict[str, Any]:
    made["metadata"]["namespace"] = namespace
    return made


def _config(namespace: str) -> dict[str, Any]:
    return {
        "apiVersion": "sriovnetwork.openshift.io/v1",
        "kind": "SriovOperatorConfig",
        "metadata": {"name": "default", "namespace": namespace},
        "spec": {"enableInjector": True, "enableOperatorWebhook": True},
    }


def _pod(namespace: str, networks: str, **resources: int) -> dict[str, Any]:
    asked = {f"openshift.io/{name}": count for name, count in resources.items()}
    container = {
        "name": "trainer", "image": "trainer:1", "resources": {"limits": asked},
        "securityContext": {"capabilities": {"add": ["IPC_LOCK"]}},
    }  # fmt: skip
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "trainer", "namespace": namespace,
            "annotations": {"k8s.v1.cni.cncf.io/networks": networks},
        },
        "spec": {"containers": [container]},
    }  # fmt: skip


class TestNamespaces:
    def test_lone_network_may_be_in_the_operators_namespace(self) -> None:
        assert found(_in("fast-lane", net("a", WHEREABOUTS))) == {}

    def test_operator_known_elsewhere_refuses_a_second_namespace(self) -> None:
        strays = found(_config("sriov-system"), _in("fast-lane", net("a", WHEREABOUTS)))
        assert strays == {"network.namespace-twice": Status.FAIL}

    def test_network_among_pods_is_not_the_operators(self) -> None:
        here = _in("lab", net("a", WHEREABOUTS))
        assert found(here, _pod("lab", "b"))["network.namespace-twice"] is Status.FAIL

    def test_policy_among_pods_is_not_read(self) -> None:
        assert "policy.namespace" in found(_in("lab", policy("a", PF)), _pod("lab", "b"))

    def test_policy_apart_from_the_others_is_not_read(self) -> None:
        assert "policy.namespace" in found(policy("a", PF), _in("lab", policy("b", PF)))

    def test_network_of_the_operators_namespace_needs_a_target(self) -> None:
        here = _in("sriov-system", net("a", WHEREABOUTS))
        del here["spec"]["networkNamespace"]
        assert "network.no-target-namespace" in found(_config("sriov-system"), here)


# --- drivers ----------------------------------------------------------------------------------

DIGEST = "9a831bfdf85f313b1f5749b7c9b2673bb8fff18b4ff768c9242dabaa4468e449"


def _driver(version: str) -> dict[str, Any]:
    driver = {"image": "doca-driver", "repository": "nvcr.io/nvidia/mellanox", "version": version}
    return {
        "apiVersion": "mellanox.com/v1alpha1",
        "kind": "NicClusterPolicy",
        "metadata": {"name": "nic-cluster-policy"},
        "spec": {"ofedDriver": driver},
    }


@pytest.mark.parametrize(
    ("version", "valid"),
    [
        ("doca3.3.0-26.01-1.0.0.0-0", True), ("doca3.6.0-26.10-043000-0", True),
        ("doca3.6.0-26.10-043000-0-6.8.0-1019-oracle-ubuntu22.04-arm64", True),
        ("doca3.1-25.07-0.9.7.0-0-5.14.0-427.87.1.el9_4.x86_64-rhcos4.18-amd64", True),
        ("doca3.6.0-26.10-016000-ubuntu24.04-amd64", True), ("doca3.1-24.01-0.3.3.1-0", True),
        ("25.01-0.6.0.0-0-6.8.0-1019-oracle-ubuntu22.04-arm64", True), ("23.10-0.2.2.0", True),
        ("23.10-0.2.2.0.1", True), ("5.9-0.5.6.0", True), (f"sha256:{DIGEST}", True),
        (f"sha256:{DIGEST.upper()}", True), (f"sha256:{DIGEST[1:]}", False), (DIGEST, False),
        ("doca3.6.0-26.10-16000", False), ("23-10-0.2.2.0", False), ("latest", False),
        ("doca3.3.0-26.01", False), ("v26.1.0", False),
    ],
)  # fmt: skip
def test_driver_version(version: str, valid: bool) -> None:
    assert ("ofed.version-format" not in found(_driver(version))) is valid


def test_old_versions_are_compared_as_numbers() -> None:
    assert found(_driver("5.9-0.5.6.0")) == {"ofed.outdated": Status.WARN}
    assert found(_driver("doca3.6.0-26.10-043000-0")) == {}


# --- addresses --------------------------------------------------------------------------------


def _pool(name: str, kind: str = "CIDRPool", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "nv-ipam.nvidia.com/v1alpha1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "nvidia-network-operator"},
        "spec": spec,
    }


class TestRoutes:
    ROUTES = WHEREABOUTS | {"routes": [{"dst": "0.0.0.0/0"}]}

    def test_node_prefix_is_what_a_pod_sees(self) -> None:
        assert found(_pool("a", cidr="172.16.0.0/15", perNodeNetworkPrefix=31)) == {}
        wide = found(_pool("a", cidr="172.16.0.0/12", perNodeNetworkPrefix=14))
        assert wide == {"ipam.wide-range": Status.FAIL}

    def test_pool_cut_for_nodes_only_may_reach_cluster_networks(self) -> None:
        cut = found(_pool("a", cidr="10.96.0.0/11", perNodeNetworkPrefix=24))
        assert cut == {"ipam.cluster-overlap": Status.WARN}

    def test_default_route_inside_a_vrf(self) -> None:
        vrf = net("a", self.ROUTES, metaPlugins='{"type": "vrf", "vrfname": "blue"}')
        assert found(vrf) == {}
        assert found(net("a", self.ROUTES)) == {"ipam.default-route": Status.FAIL}

    @pytest.mark.parametrize(
        ("kind", "status"),
        [("MacvlanNetwork", Status.WARN), ("HostDeviceNetwork", Status.FAIL)],
    )
    def test_pool_is_judged_by_the_networks_that_use_it(self, kind: str, status: Status) -> None:
        pool = _pool(
            "p", "IPPool", subnet="192.168.9.0/24", perNodeBlockSize=8, defaultGateway=True
        )
        user = {
            "apiVersion": "mellanox.com/v1alpha1",
            "kind": kind,
            "metadata": {"name": "n"},
            "spec": {"networkNamespace": "lab", "ipam": '{"type": "nv-ipam", "poolName": "p"}'},
        }
        own = {"master": "ens1"} if kind == "MacvlanNetwork" else {"resourceName": "port"}
        user["spec"] |= own  # type: ignore[operator]
        assert found(pool, user) == {"ipam.default-route": status}


# --- pods -------------------------------------------------------------------------------------


class TestPods:
    def test_other_names_are_no_slips(self) -> None:
        bonded = net("bond-net1", WHEREABOUTS)
        for listed in ("net1", "sriov-net2", "storage"):
            assert "pod.unknown-network" not in found(bonded, _pod("training", listed))

    def test_near_name_is_a_slip(self) -> None:
        pod = _pod("training", "bond-net")
        hits = lint(bundle(net("bond-net1", WHEREABOUTS), pod))
        assert [f.fix for f in hits if f.id == "pod.unknown-network"] == ["write bond-net1"]

    def test_resource_asked_for_tells_the_network_meant(self) -> None:
        pod = _pod("training", "storage", rail0=1)
        hits = lint(bundle(net("rail0", WHEREABOUTS), pod))
        assert [f.fix for f in hits if f.id == "pod.unknown-network"] == ["write rail0"]

    def test_unlike_resource_may_be_made_elsewhere(self) -> None:
        assert "pod.unknown-resource" not in found(policy("a", PF), _pod("x", "", hostdev=1))

    def test_admitted_pod_has_its_scc(self) -> None:
        pod = _pod("training", "a", a=1)
        assert found(policy("a", PF), pod) == {"pod.scc": Status.WARN}
        pod["metadata"]["annotations"]["openshift.io/scc"] = "rdma"
        assert found(policy("a", PF), pod) == {}

    @pytest.mark.parametrize(
        ("command", "blamed"),
        [
            ("nvidia-smi", False), ("hostname", False), ("/opt/build/all_reduce_perf -b 8", True),
            ("python3 train.py", True), ("torchrun train.py", True), ("ib_write_bw", False),
        ],
    )  # fmt: skip
    def test_only_what_uses_nccl_misses_its_variables(self, command: str, blamed: bool) -> None:
        script = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "run"},
            "data": {"run.sh": f"export NCCL_DEBUG=INFO\nmpirun -np 16 {command}\n"},
        }
        assert ("command.mpirun-env" in found(script)) is blamed


# --- policies ---------------------------------------------------------------------------------


class TestPolicies:
    def test_net_filter_beside_names_is_refused(self) -> None:
        cloud = {"netFilter": "openstack/NetworkID:1", "vendor": "15b3"}
        assert found(policy("a", cloud)) == {"policy.net-filter": Status.WARN}
        assert found(policy("a", cloud | PF)) == {"policy.net-filter": Status.FAIL}

    @pytest.mark.parametrize(
        ("selector", "status"),
        [
            ({"gpu": "true"}, Status.FAIL), ({"gpu": "true", "zone": "1"}, Status.FAIL),
            ({"zone": "1"}, Status.WARN), ({"gpu": "false"}, None),
        ],
    )  # fmt: skip
    def test_one_resource_of_one_pf_is_displaced(
        self, selector: dict[str, str], status: Status | None
    ) -> None:
        low = policy("a", {"pfNames": ["ens3f0#0-3"]}, resource="r")
        high = policy("b", {"pfNames": ["ens3f0#4-7"]}, resource="r", nodeSelector=selector)
        assert found(low, high).get("policy.resource-displaced") is status

    def test_message_names_who_stays(self) -> None:
        weak = policy("z", {"pfNames": ["ens3f0#0-3"]}, resource="r", priority=50)
        strong = policy("a", {"pfNames": ["ens3f0#4-7"]}, resource="r", priority=10)
        (hit,) = (f for f in lint(bundle(weak, strong)) if f.id == "policy.resource-displaced")
        assert hit.actual.endswith("a displaces z")
        assert "ens3f0#0-7" in hit.fix

    def test_object_given_twice(self) -> None:
        once, again = policy("a", PF), policy("a", PF, numVfs=4)
        assert found(once, once) == {"bundle.same-object": Status.WARN}
        assert found(once, again) == {"bundle.same-object": Status.FAIL}

    def test_written_and_as_the_cluster_shows_it(self) -> None:
        shown = policy("a", PF) | {"status": {}}
        shown["metadata"] = {"name": "a", "namespace": OPERATOR, "resourceVersion": "7", "uid": "1"}
        assert found(policy("a", PF), shown) == {"bundle.same-object": Status.WARN}
