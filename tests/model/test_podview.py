"""Pods wherever they are, and the networks they ask for."""

from __future__ import annotations

import pytest

from podrail.model.podview import NetworkRef, PodView, parse_networks, pod_templates, whole
from tests.model import samples


def _views(text: str) -> list[PodView]:
    return [view for r in samples.bundle(text).resources for view in pod_templates(r)]


def _one(text: str) -> PodView:
    (view,) = _views(text)
    return view


def test_a_pod_is_its_own_template() -> None:
    view = _one(samples.POD)
    assert (view.name, view.namespace, view.replicas, view.path) == ("train", "ml", 1, ())
    assert view.networks().refs == (NetworkRef(None, "rail0"),)
    where = view.where("spec", "containers", 0, "image")
    assert (where.line, where.column) == (13, 12)
    assert view.resource.where(*view.networks_path).line == 7


def test_what_the_limits_add_up_to() -> None:
    text = samples.POD + "  initContainers: [{name: i, resources: {limits: {nvidia.com/gpu: 1}}}]\n"
    text = text.replace(
        "  containers:\n",
        "  containers:\n  - {name: side, resources: {limits: {nvidia.com/rail0: 2}}}\n",
    )
    view = _one(text)
    assert view.requested("nvidia.com/rail0") == 3
    assert view.requested("nvidia.com/gpu") == 8
    assert view.requested("nvidia.com/none") == 0
    assert view.limits() == {"nvidia.com/rail0": 3, "nvidia.com/gpu": 8}
    assert [path for path, _ in view.containers()] == [
        ("spec", "containers", 0),
        ("spec", "containers", 1),
    ]
    assert [c.name for _, c in view.all_containers()] == ["i", "side", "app"]


@pytest.mark.parametrize(
    ("amount", "count"),
    [(1, 1), ("8", 8), (2.0, 2), (0.5, None), ("500m", None), ("64Gi", None), ("", None)],
)
def test_quantities_that_count(amount: int | float | str, count: int | None) -> None:
    assert whole(amount) == count


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"])
def test_workloads_hold_a_template(kind: str) -> None:
    view = _one(samples.workload(kind))
    assert (view.replicas, view.path) == (3, ("spec", "template"))
    assert view.networks().refs == (NetworkRef(None, "rail0"),)


def test_jobs_hold_a_template() -> None:
    assert _one(samples.JOB).replicas == 4
    view = _one(samples.CRON_JOB)
    assert view.at("spec") == ("spec", "jobTemplate", "spec", "template", "spec")
    assert view.replicas is None


PYTORCH = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: train, namespace: ml}
spec:
  pytorchReplicaSpecs:
    Master:
      replicas: 1
      template: {spec: {containers: [{name: pytorch, made_up: 1}]}}
    Worker:
      replicas: 7
      template:
        metadata: {annotations: {k8s.v1.cni.cncf.io/networks: "rail0, rail1"}}
        spec:
          nodeSelector: {pool: gpu}
          containers:
          - name: pytorch
            resources: {limits: {nvidia.com/rail0: 1}}
status:
  template: {spec: {containers: []}}
"""

LEADER_WORKER_SET = """\
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: serve}
spec:
  replicas: 2
  leaderWorkerTemplate:
    size: 4
    leaderTemplate: {spec: {containers: [{name: leader}]}}
    workerTemplate: {spec: {containers: [{name: worker}]}}
"""


def test_a_kind_nobody_told_us_about() -> None:
    assert samples.findings(PYTORCH) == []
    master, worker = _views(PYTORCH)
    assert (master.replicas, worker.replicas) == (1, 7)
    assert worker.networks().refs == (NetworkRef(None, "rail0"), NetworkRef(None, "rail1"))
    assert worker.node_selector == {"pool": "gpu"}
    assert worker.requested("nvidia.com/rail0") == 1
    assert worker.namespace == "ml"
    assert worker.where("spec", "containers", 0).line == 16


def test_templates_of_any_name() -> None:
    leader, worker = _views(LEADER_WORKER_SET)
    assert [c.name for _, c in leader.containers()] == ["leader"]
    assert worker.path == ("spec", "leaderWorkerTemplate", "workerTemplate")


def test_a_pod_with_faults_is_still_looked_at() -> None:
    text = samples.POD.replace("  containers:\n", "  containers:\n  - image: nameless\n")
    view = _one(text.replace("hostIPC", "hostIpc"))
    path, container = list(view.containers())[1]
    assert (path, container.name) == (("spec", "containers", 1), "app")


def test_what_holds_no_pod() -> None:
    assert _views(samples.POLICY) == []
    assert _views(samples.POD.replace("containers:", "container:")) == []


# --- the networks annotation --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "refs"),
    [
        ("", ()),
        ("a", (NetworkRef(None, "a"),)),
        ("ns/a@net9", (NetworkRef("ns", "a", "net9"),)),
        (" a , ns/b ", (NetworkRef(None, "a"), NetworkRef("ns", "b"))),
        ('[{"name": "a"}]', (NetworkRef(None, "a"),)),
        (
            '[{"name": "a", "namespace": "ns", "interface": "ib0", "ips": ["10.0.0.1/24"]}]',
            (NetworkRef("ns", "a", "ib0"),),
        ),
        ('[{"name": "a"}, {"name": "a"}]', (NetworkRef(None, "a"), NetworkRef(None, "a"))),
    ],
)
def test_networks_as_multus_reads_them(text: str, refs: tuple[NetworkRef, ...]) -> None:
    found = parse_networks(text)
    assert (found.refs, found.problem) == (refs, None)


@pytest.mark.parametrize(
    ("text", "problem", "left"),
    [
        ("a,,b", "an empty entry", 2),
        ("a/b/c", "more than one /", 0),
        ("a@b@c", "more than one / or @", 0),
        ("/a", "names nothing", 0),
        ("a@", "names nothing", 0),
        ("Rail0", "`Rail0` is no valid name", 0),
        ("a@interface-too-long", "`interface-too-long` is no interface name", 0),
        ("[{]", "looks like JSON but is not", 0),
        ('{"name": "a"}', "no list", 0),
        ('[{"name": "a"}, {"namespace": "n"}]', "entry 1: it has no `name`", 1),
        ('["a"]', 'entry 0: "a" is no object', 0),
    ],
)
def test_networks_multus_refuses(text: str, problem: str, left: int) -> None:
    found = parse_networks(text)
    assert problem in (found.problem or "")
    assert len(found.refs) == left
