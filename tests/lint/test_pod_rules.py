"""Pods judged by what the bundle can prove, and left alone where it cannot."""

from __future__ import annotations

from podrail.model.bundle import read
from podrail.model.finding import Finding, Status
from podrail.planning.lint import lint
from podrail.planning.lint.podspec import count_of, is_extended, is_gpu

NETWORK = """\
apiVersion: sriovnetwork.openshift.io/v1
kind: SriovNetwork
metadata:
  name: rail0
  namespace: sriov-network-operator
spec:
  resourceName: rail0
  networkNamespace: training
"""

INJECTOR = """\
apiVersion: sriovnetwork.openshift.io/v1
kind: SriovOperatorConfig
metadata:
  name: default
  namespace: sriov-network-operator
spec:
  enableInjector: true
"""

POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: trainer
  namespace: training
  annotations:
    k8s.v1.cni.cncf.io/networks: {networks}
spec:
  {containers}:
    - name: trainer
      image: nvcr.io/nvidia/pytorch:25.10-py3
"""


def _pod(networks: str = "rail0", containers: str = "containers") -> str:
    return POD.format(networks=networks, containers=containers)


def _found(id: str, *parts: str) -> list[Finding]:
    found = lint(read([("a.yaml", "---\n".join(parts))]))
    return [f for f in found if f.id == id]


def test_missing_resource_fails() -> None:
    (found,) = _found("pod.missing-vf-resource", NETWORK, _pod())
    assert found.status is Status.FAIL
    assert "openshift.io/rail0" in found.expected


def test_injector_makes_it_a_warning() -> None:
    (found,) = _found("pod.missing-vf-resource", NETWORK, INJECTOR, _pod())
    assert found.status is Status.WARN


def test_misspelt_containers_hide_nothing() -> None:
    assert _found("pod.missing-vf-resource", NETWORK, _pod(containers="container"))


def test_pod_alone_is_not_blamed_for_its_network() -> None:
    assert lint(read([("a.yaml", _pod())])) == ()


def test_unknown_network_beside_used_ones_may_live_in_the_cluster() -> None:
    assert _found("pod.unknown-network", NETWORK, _pod("rail0, storage")) == []


def test_network_in_json_form() -> None:
    networks = """'[{"name": "rail0", "namespace": "training", "interface": "rail0"}]'"""
    assert _found("pod.missing-vf-resource", NETWORK, _pod(networks))


def test_template_of_a_foreign_kind() -> None:
    body = "".join(f"        {line}\n" for line in _pod().splitlines()[2:])
    job = (
        "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata:\n  name: job\n"
        "  namespace: training\nspec:\n  pytorchReplicaSpecs:\n    Worker:\n      template:\n"
        + body
    )
    assert _found("pod.missing-vf-resource", NETWORK, job)


def test_amounts() -> None:
    assert [count_of(a) for a in (1, "2", 3.0, "1000m", "1k")] == [1, 2, 3, 1, 1000]
    assert [count_of(a) for a in (0.5, "500m", "-1", "one", True, None, float("inf"))] == [None] * 7


def test_kinds_of_resources() -> None:
    assert is_extended("openshift.io/rail0")
    assert not is_extended("cpu")
    assert not is_extended("requests.kubernetes.io/x")
    assert is_gpu("nvidia.com/gpu")
    assert is_gpu("nvidia.com/mig-1g.10gb")
    assert not is_gpu("nvidia.com/sriov_rdma_vf")
