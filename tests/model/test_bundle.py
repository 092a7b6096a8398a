"""What is handed over with `-f`: lists, playbooks, and kinds podrail does not know."""

from __future__ import annotations

from podrail.model.bundle import read
from podrail.model.kinds.sriov import SriovNetwork, SriovNetworkNodePolicy
from tests.model import samples


def _indented(text: str, spaces: int) -> str:
    return "".join(" " * spaces + line + "\n" for line in text.rstrip("\n").split("\n"))


def test_objects_come_in_the_order_given() -> None:
    found = read([("b.yaml", samples.NETWORK), ("a.yaml", samples.POLICY + "---\n" + samples.POD)])
    assert [r.kind for r in found.resources] == ["SriovNetwork", "SriovNetworkNodePolicy", "Pod"]
    assert [r.where("spec").file for r in found.resources] == ["b.yaml", "a.yaml", "a.yaml"]
    assert [str(r.subject) for r in found.resources][1] == (
        "SriovNetworkNodePolicy/openshift-sriov-network-operator/rail0"
    )


def test_a_list_holds_objects_with_their_places() -> None:
    text = "apiVersion: v1\nkind: List\nitems:\n- " + _indented(samples.NETWORK, 2).lstrip()
    found = samples.bundle(text)
    assert found.findings == ()
    (network,) = found.of(SriovNetwork)
    where = network.resource.where("spec", "trust")
    assert (where.line, where.column, where.path) == (10, 12, "items[0].spec.trust")


def test_a_fault_inside_a_list_names_its_whole_path() -> None:
    item = _indented(samples.POLICY.replace("numVfs: 8", "numVfs: x"), 2).lstrip()
    finding, where = samples.only("kind: SriovNetworkNodePolicyList\nitems:\n- " + item)
    assert where.path == "items[0].spec.numVfs"
    assert finding.fix == "set `spec.numVfs` to a whole number"


PLAYBOOK = """\
- name: SR-IOV
  hosts: localhost
  vars: {{num_vfs: 8}}
  tasks:
  - name: policy
    kubernetes.core.k8s:
      state: present
      definition:
{policy}
  - name: group
    block:
    - kubernetes.core.k8s:
        definition:
        - {{apiVersion: v1, kind: Namespace, metadata: {{name: train}}}}
  - name: from a file
    kubernetes.core.k8s: {{src: policy.yaml}}
"""


def test_a_playbook_holds_definitions() -> None:
    found = samples.bundle(PLAYBOOK.format(policy=_indented(samples.POLICY, 8).rstrip()))
    assert found.findings == ()
    assert [r.kind for r in found.resources] == ["SriovNetworkNodePolicy", "Namespace"]
    where = found.resources[0].where("spec", "numVfs")
    assert where.line == 18
    assert where.path.startswith("[0].tasks[0].kubernetes.core.k8s.definition.spec")


def test_an_unknown_kind_passes_untouched() -> None:
    text = "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: t}\nspec: {on: on}\n"
    found = samples.bundle(text)
    assert found.findings == ()
    (resource,) = found.resources
    assert resource.model is None
    assert resource.data["spec"] == {"on": True}
    assert str(resource.subject) == "PyTorchJob/t"


def test_what_is_no_object_is_left_alone() -> None:
    assert samples.bundle("a: 1\n---\n- 1\n- b\n---\njust text\n").resources == ()


def test_an_object_without_a_name() -> None:
    found = samples.bundle(samples.NAMESPACE.replace("{name: train}", "{}"))
    assert [r.name for r in found.resources] == ["(unnamed)"]
    found = samples.bundle(samples.POD.replace("name: train", "generateName: train-"))
    assert [r.name for r in found.resources] == ["train-"]


def test_lost_indentation_is_one_finding() -> None:
    flat = "\n".join(line.strip() for line in samples.NETWORK.split("\n")[:6])
    text = flat.replace("metadata: {name: rail0}", "metadata:\nname: rail0")
    finding, where = samples.only(text)
    assert finding.id == "yaml.lost-indentation"
    assert where.line == 3


def test_only_what_could_be_read_is_typed() -> None:
    found = samples.bundle(samples.POLICY.replace("  numVfs: 8\n", ""))
    assert list(found.of(SriovNetworkNodePolicy)) == []
    assert len(found.resources) == 1
