from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from podrail.attach.deviceplugin.candidates import Candidate, candidates
from podrail.attach.deviceplugin.configs import Wanted, of_bundle, of_file
from podrail.attach.deviceplugin.nodes import extras
from podrail.attach.deviceplugin.resources import Offer, Pool, offer
from podrail.model.bundle import read
from podrail.model.errors import ManifestError
from tests.attach.deviceplugin.machines import (
    ENS8F1,
    Machine,
    configured,
    planned,
    policy,
    shared,
)


def offered(machine: Machine, wanted: Wanted, **options: Any) -> Offer:
    inventory = machine.look()
    found = candidates(inventory, extras(machine, inventory, wanted.asks))
    return offer(wanted, inventory, found, **options)


def ids(made: Offer, name: str) -> list[str]:
    return [slot.id for slot in pool(made, name).slots]


def pool(made: Offer, name: str) -> Pool:
    return next(pool for pool in made.pools if str(pool.resource) == name)


@pytest.fixture
def roce() -> Machine:
    return Machine("roce-cx6", ens8f0=4, ens8f1=2)


# --- plans ------------------------------------------------------------------------------------


def test_a_plan_cuts_a_pf_into_ranges(roce: Machine) -> None:
    made = offered(
        roce,
        planned(
            policy("a", "ens8f0#0-1", 4, isRdma=True),
            policy("b", "ens8f0#2-3", 4, deviceType="vfio-pci"),
        ),
    )
    assert ids(made, "openshift.io/a") == [roce.vf("ens8f0", i) for i in (0, 1)]
    assert ids(made, "openshift.io/b") == [roce.vf("ens8f0", i) for i in (2, 3)]
    assert {slot.traits.rdma for slot in pool(made, "openshift.io/a").slots} == {True}
    assert {slot.traits.driver for slot in pool(made, "openshift.io/b").slots} == {"vfio-pci"}


def test_one_resource_of_two_pfs(roce: Machine) -> None:
    both = policy("a", "ens8f0", 4, nicSelector={"pfNames": ["ens8f0", "ens8f1"]})
    assert len(ids(offered(roce, planned(both)), "openshift.io/a")) == 6


def test_a_plan_without_vfs_is_an_empty_resource() -> None:
    made = offered(Machine("roce-cx6"), planned(policy("a", "ens8f0", 4)))
    assert ids(made, "openshift.io/a") == []


@pytest.mark.parametrize(
    ("namespace", "extra", "prefix", "name"),
    [
        pytest.param("sriov-network-operator", "", None, "openshift.io/a", id="operator"),
        pytest.param("nvidia-network-operator", "", None, "nvidia.com/a", id="nvidia"),
        pytest.param("elsewhere", "", "my.org", "my.org/a", id="told"),
        pytest.param(
            "nvidia-network-operator",
            '{"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition", '
            '"metadata": {"name": "n", "namespace": "default", "annotations": '
            '{"k8s.v1.cni.cncf.io/resourceName": "its.own/a"}}, "spec": {"config": "{}"}}',
            None, "its.own/a", id="network",
        ),
    ],
)  # fmt: skip
def test_where_the_prefix_comes_from(
    roce: Machine, namespace: str, extra: str, prefix: str | None, name: str
) -> None:
    text = policy("a", "ens8f0", 4).replace("sriov-network-operator", namespace)
    bundle = read([("a.yaml", f"{text}\n---\n{extra}")], prefix)
    assert [str(p.resource) for p in offered(roce, of_bundle(bundle)).pools] == [name]


# --- configurations ---------------------------------------------------------------------------


def test_the_first_to_match_owns(roce: Machine) -> None:
    entries = [
        {"resourceName": "one", "selectors": {"pfNames": ["ens8f0#0"]}},
        {"resourceName": "two", "selectors": [{"pfNames": ["ens8f0#0-1"]}, {"devices": ["101e"]}]},
        {"resourceName": "three", "selectors": {"vendors": ["15b3"]}},
    ]
    made = offered(roce, of_file(json.dumps({"resourceList": entries}), "config.json"))
    assert ids(made, "intel.com/one") == [roce.vf("ens8f0", 0)]
    assert len(ids(made, "intel.com/two")) == 5
    assert ids(made, "intel.com/three") == []


def test_plan_before_configuration(roce: Machine) -> None:
    plan = planned(policy("a", "ens8f0#0-1", 4))
    both = replace(
        plan, entries=configured(resourceName="b", selectors={"devices": ["101e"]}).entries
    )
    made = offered(roce, both)
    assert len(ids(made, "openshift.io/a")) == 2
    assert len(ids(made, "intel.com/b")) == 4


def test_what_upstream_skips(roce: Machine) -> None:
    """A PF with VFs, and a device with the default route; a PF without VFs is handed out whole."""
    roce.write(f"/sys/bus/pci/devices/{ENS8F1}/sriov_numvfs", "0")
    made = offered(roce, configured(resourceName="all", selectors={}))
    found = ids(made, "intel.com/all")
    assert "0000:04:00.0" not in found  # br-ex on eno1
    assert "0000:9c:00.0" not in found  # it has VFs
    assert {"0000:04:00.1", ENS8F1} < set(found)


def test_keys_in_any_case_and_the_operators_own_spelling(roce: Machine) -> None:
    text = (
        '{"ResourceList":[{"resourcename":"a","Selectors":{"IsRdma":true,"PFNAMES":["ens8f0"]}}]}'
    )
    made = offered(roce, of_file(text, "config.json", "openshift.io"))
    assert len(ids(made, "openshift.io/a")) == 4
    assert made.said == ()


def test_excluded_topology_and_additional_info(roce: Machine) -> None:
    vf = roce.vf("ens8f0", 1)
    made = offered(
        roce,
        configured(
            resourceName="a",
            excludeTopology=True,
            selectors={"pfNames": ["ens8f0"], "needVhostNet": True},
            additionalInfo={"*": {"token": "t", "zone": "z"}, vf: {"token": "mine"}},
        ),
    )
    slots = {slot.id: slot for slot in pool(made, "intel.com/a").slots}
    assert {slot.numa for slot in slots.values()} == {None}
    assert slots[vf].info == {"token": "mine", "zone": "z"}
    assert slots[roce.vf("ens8f0", 0)].info == {"token": "t", "zone": "z"}
    assert slots[vf].traits.vhost


def test_what_cannot_be_offered_is_said(roce: Machine) -> None:
    wrong = of_file(
        '{"resourceList":[{"resourceName":"a b","selectors":{}},{"resourceName":"none"},'
        '{"resourceName":"c","selectors":{"ddpProfiles":["x"]},"colour":"red"}]}',
        "config.json",
    )
    made = offered(roce, wrong)
    said = "\n".join(made.said)
    assert "intel.com/a b is not offered" in said
    assert "intel.com/none is empty: it has no selectors" in said
    assert "does not read DDP profiles" in said
    assert "colour" in said
    assert ids(made, "intel.com/c") == []


@pytest.mark.parametrize("text", ["", "[]", "{", "nonsense"])
def test_a_file_that_is_no_configuration(text: str) -> None:
    with pytest.raises(ManifestError, match=r"config\.json: "):
        of_file(text, "config.json")


# --- shared HCAs ------------------------------------------------------------------------------


def test_shares_as_upstream_counts_them(roce: Machine) -> None:
    wanted = shared(resourceName="hca", rdmaHcaMax=3, selectors={"ifNames": ["ens8f0", "ens8f1"]})
    made = offered(roce, wanted)
    assert ids(made, "rdma/hca") == ["0", "1", "2"]
    assert {len(slot.members) for slot in pool(made, "rdma/hca").slots} == {2}
    each = offered(roce, wanted, per_hca=True)
    assert len(ids(each, "rdma/hca")) == 6
    assert {slot.numa for slot in pool(each, "rdma/hca").slots} == {1}


@pytest.mark.parametrize(
    ("keys", "count", "said"),
    [
        pytest.param({"devices": ["ens8f0"]}, 2, "", id="devices"),
        pytest.param({"selectors": {"vendors": ["8086"]}}, 0, "", id="no-rdma-there"),
        pytest.param({}, 0, "neither selectors nor devices", id="neither"),
        pytest.param(
            {"selectors": {"vendors": ["15b3"]}, "devices": ["ens8f0"]}, 0, "both", id="both"
        ),
        pytest.param(
            {"selectors": {"vendors": ["15b3"]}, "resourcePrefix": "a.b"}, 2, "", id="prefix"
        ),
    ],
)
def test_shared_configurations(roce: Machine, keys: dict[str, Any], count: int, said: str) -> None:
    made = offered(roce, shared(resourceName="hca", rdmaHcaMax=2, **keys))
    assert len(made.pools[0].slots) == count
    assert said in "\n".join(made.said)
    assert str(made.pools[0].resource) == f"{keys.get('resourcePrefix', 'rdma')}/hca"


def test_a_vf_that_is_a_rail_is_not_shared(roce: Machine) -> None:
    rails = planned(policy("a", "ens8f0", 4))
    both = shared(resourceName="hca", rdmaHcaMax=1, selectors={"vendors": ["15b3"]})
    made = offered(roce, replace(rails, shared=both.shared))
    members = {one.id for one in pool(made, "rdma/hca").slots[0].members}
    assert not members & set(ids(made, "openshift.io/a"))
    assert "0000:9c:00.0" in members


def test_nothing_is_shared_where_namespaces_are_exclusive(roce: Machine) -> None:
    assert roce.run(("rdma", "system", "set", "netns", "exclusive")).rc == 0
    made = offered(roce, shared(resourceName="hca", rdmaHcaMax=2, devices=["ens8f0"]))
    assert ids(made, "rdma/hca") == []
    assert "set them to shared" in made.said[0]


# --- what is remembered -----------------------------------------------------------------------


def seen(machine: Machine, before: dict[str, Candidate] | None = None) -> dict[str, Candidate]:
    return candidates(machine.look(), before=before)


def test_a_function_is_known_by_what_it_was(roce: Machine) -> None:
    vf = roce.vf("ens8f0", 1)
    before = seen(roce)
    roce.unbind("ens8f0", 1)
    after = seen(roce, before)[vf]
    assert (after.driver, after.driver_now) == ("mlx5_core", None)
    assert (after.rdma, after.rdma_now) == (before[vf].rdma, None)
    assert seen(roce)[vf].driver is None


def test_another_function_at_the_same_address_is_another(roce: Machine) -> None:
    vf = roce.vf("ens8f0", 1)
    before = {vf: replace(seen(roce)[vf], index=3, acpi_index="9", vdpa="vhost")}
    assert seen(roce, before)[vf].vdpa is None


def test_a_driver_that_changed_counts(roce: Machine) -> None:
    vf = roce.vf("ens8f0", 1)
    before = {vf: replace(seen(roce)[vf], driver="vfio-pci")}
    assert seen(roce, before)[vf].driver == "mlx5_core"


@pytest.mark.parametrize("by_pod", [True, False])
def test_rdma_of_a_vf_in_a_pod(roce: Machine, by_pod: bool) -> None:
    """Nothing remembered: podrail has just started."""
    vf = roce.vf("ens8f0", 1)
    if by_pod:
        roce.into_pod("ens8f0", 1, rdma=True)
    else:
        roce.twin.remove(roce.resolve(f"/sys/bus/pci/devices/{vf}") + "/infiniband")
        roce.twin.remove(f"/sys/class/infiniband/{roce.function('ens8f0', 1).rdma}")
    assert seen(roce)[vf].has_rdma is by_pod
