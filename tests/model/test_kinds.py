"""Every kind in upstream's wire form, and the slips the models must see."""

from __future__ import annotations

import pytest

from podrail.model.bundle import Resource
from podrail.model.kinds import model_of, registry
from podrail.model.kinds.gpu import ClusterPolicy
from podrail.model.kinds.mellanox import NicClusterPolicy
from podrail.model.kinds.sriov import SriovNetworkNodePolicy
from tests.model import samples


def _one(text: str) -> Resource:
    found = samples.bundle(text)
    assert found.findings == ()
    (resource,) = found.resources
    return resource


def test_every_kind_has_a_sample() -> None:
    kinds = {_one(text).kind for text in samples.ALL}
    assert kinds == {kind for _, kind in registry()}


@pytest.mark.parametrize("text", samples.ALL, ids=lambda text: text.split("\n")[1][6:])
def test_a_valid_object_comes_back_as_it_was_written(text: str) -> None:
    resource = _one(text)
    assert resource.model is not None
    assert resource.model.model_dump(by_alias=True, exclude_unset=True) == resource.data


@pytest.mark.parametrize("text", samples.ALL, ids=lambda text: text.split("\n")[1][6:])
def test_an_object_without_a_name_for_its_metadata_is_refused(text: str) -> None:
    broken = text.replace("metadata:", "metadate:", 1)
    assert ("schema.missing", "metadata") in samples.findings(broken)


def test_group_and_kind_decide_together() -> None:
    assert model_of("mellanox.com/v1alpha1", "NicClusterPolicy") is NicClusterPolicy
    assert model_of("nvidia.com/v1", "NicClusterPolicy") is None
    assert model_of("v1", "Pod") is not None
    assert model_of("apps/v1", "Pod") is None


# --- keys in the wrong place --------------------------------------------------------------------


def test_device_type_under_nic_selector() -> None:
    text = samples.POLICY.replace("    vendor:", "    deviceType: netdevice\n    vendor:")
    finding, where = samples.only(text)
    assert finding.id == "schema.misplaced-key"
    assert finding.actual == "`deviceType` stands under `spec.nicSelector`"
    assert finding.expected == "`deviceType` belongs to `spec`"
    assert (where.line, where.column, where.path) == (12, 5, "spec.nicSelector.deviceType")


def test_env_under_the_device_plugin_belongs_to_the_driver() -> None:
    text = samples.NIC_CLUSTER_POLICY.replace("    useCdi: true", "    env: []")
    finding, where = samples.only(text)
    assert finding.expected == "`env` belongs to `spec.ofedDriver`"
    assert (where.line, where.column) == (17, 5)


def test_env_under_spec_belongs_to_the_driver() -> None:
    finding, _ = samples.only(samples.NIC_CLUSTER_POLICY + "  env: []\n")
    assert finding.expected == "`env` belongs to `spec.ofedDriver`"
    assert finding.fix == "move `env` under `spec.ofedDriver`"


def test_a_misplaced_key_is_cut_and_the_rest_still_read() -> None:
    found = samples.bundle(samples.NIC_CLUSTER_POLICY + "  env: []\n")
    (policy,) = found.of(NicClusterPolicy)
    assert policy.model.spec is not None
    assert policy.model.spec.ofed_driver is not None


def test_rdma_beside_driver_belongs_to_the_driver() -> None:
    finding, _ = samples.only(samples.CLUSTER_POLICY + "  rdma: {enabled: true}\n")
    assert finding.expected == "`rdma` belongs to `spec.driver`"


def test_capabilities_of_the_pod_belong_to_a_container() -> None:
    text = samples.POD.replace("{runAsNonRoot: true,", "{capabilities: {add: [IPC_LOCK]},")
    finding, where = samples.only(text)
    assert finding.expected == "`capabilities` belongs to `spec.containers.securityContext`"
    assert (where.line, where.path) == (10, "spec.securityContext.capabilities")


def test_limits_beside_resources() -> None:
    text = samples.POD.replace("      limits:", "      memory: 1Gi\n      limits:")
    assert samples.findings(text) == [("schema.unknown-key", "spec.containers[0].resources.memory")]
    text = samples.POD.replace("    resources:\n      limits:", "    limits:")
    finding, _ = samples.only(text)
    assert finding.expected == "`limits` belongs to `spec.containers.resources`"


# --- keys nobody knows --------------------------------------------------------------------------


def test_node_feature_discovery_is_no_part_of_a_cluster_policy() -> None:
    finding, where = samples.only(samples.CLUSTER_POLICY + "  nfd: {enabled: true}\n")
    assert finding.id == "schema.unknown-key"
    assert finding.fix == "delete `nfd`"
    assert (where.path, where.column) == ("spec.nfd", 3)


def test_container_for_containers() -> None:
    text = samples.POD.replace("  containers:", "  container:")
    assert samples.findings(text) == [
        ("schema.missing", "spec.containers"),
        ("schema.unknown-key", "spec.container"),
    ]
    missing, unknown = samples.bundle(text).findings
    assert missing.fix == "rename `container` to `containers`"
    assert unknown.fix == "write `containers` instead of `container`"


@pytest.mark.parametrize(
    ("text", "old", "new", "wanted"),
    [
        (samples.POLICY, "numVfs:", "numVFs:", "numVfs"),
        (samples.POLICY, "pfNames:", "pfName:", "pfNames"),
        (samples.POLICY, "deviceID:", "deviceId:", "deviceID"),
        (samples.NETWORK, "  trust:", "  Trust:", "trust"),
        (samples.OPERATOR_CONFIG, "useCDI:", "useCdi:", "useCDI"),
        (samples.NIC_CLUSTER_POLICY, "useCdi:", "useCDI:", "useCdi"),
        (samples.IP_POOL, "perNodeBlockSize:", "perNodeBlocksize:", "perNodeBlockSize"),
        (samples.MACHINE_CONFIG, "osImageURL:", "osImageUrl:", "osImageURL"),
        (samples.POD, "hostIPC:", "hostIpc:", "hostIPC"),
        (samples.NAD, "  config:", "  Config:", "config"),
    ],
)
def test_a_slip_of_the_hand_names_what_was_meant(
    text: str, old: str, new: str, wanted: str
) -> None:
    broken = text.replace(old, new)
    fixes = [f.fix for f in samples.bundle(broken).findings if f.id == "schema.unknown-key"]
    assert fixes == [f"write `{wanted}` instead of `{new.strip(' :')}`"]


def test_what_older_releases_knew_is_left_to_lint() -> None:
    text = samples.NIC_CLUSTER_POLICY.replace("{multus:", "{ipamPlugin: {image: w}, multus:")
    assert samples.findings(text) == []


def test_open_kinds_say_nothing_about_keys_they_do_not_read() -> None:
    assert samples.findings(samples.SCC + "seLinuxContext: {type: MustRunAs}\n") == []
    assert samples.findings(samples.JOB.replace("parallelism", "backoffLimit")) == []


def test_a_template_is_strict_even_in_an_open_kind() -> None:
    text = samples.workload("Deployment").replace("image: b", "imagePolicy: b")
    ((id, path),) = samples.findings(text)
    assert (id, path) == (
        "schema.unknown-key",
        "spec.template.spec.containers[0].imagePolicy",
    )


# --- values -------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", ["daemonsets", "gfd", "nodeStatusExporter", "dcgm", "toolkit"])
def test_what_a_cluster_policy_must_have(missing: str) -> None:
    lines = samples.CLUSTER_POLICY.split("\n")
    text = "\n".join(line for line in lines if not line.startswith(f"  {missing}:"))
    assert samples.findings(text) == [("schema.missing", f"spec.{missing}")]


def test_a_probe_needs_both_its_times() -> None:
    text = samples.NIC_CLUSTER_POLICY.replace(", periodSeconds: 20", "")
    found = samples.bundle(text)
    assert [f.where.path for f in found.findings if f.where] == [
        "spec.ofedDriver.startupProbe.periodSeconds"
    ]
    assert [t.model.spec and t.model.spec.ofed_driver for t in found.of(NicClusterPolicy)] != [None]


def test_kernel_module_type_is_one_of_three() -> None:
    finding, where = samples.only(samples.CLUSTER_POLICY.replace("Type: open", "Type: closed"))
    assert finding.id == "schema.value"
    assert finding.expected == "'auto', 'open' or 'proprietary'"
    assert (where.line, where.column) == (9, 23)


def test_trust_on_is_a_boolean_for_yaml() -> None:
    finding, where = samples.only(samples.NETWORK.replace('"on"', "on"))
    assert finding.id == "yaml.boolean-trap"
    assert finding.fix == 'write trust: "on"'
    assert (where.line, where.column, where.path) == (7, 10, "spec.trust")


def test_a_device_id_of_digits_is_a_number_for_yaml() -> None:
    finding, _ = samples.only(samples.POLICY.replace('"1021"', "1021"))
    assert finding.id == "yaml.number-trap"
    assert finding.fix == 'write deviceID: "1021"'


def test_a_number_in_an_environment_variable() -> None:
    finding, _ = samples.only(samples.POD.replace("value: INFO", "value: 1"))
    assert finding.id == "yaml.number-trap"


def test_a_quantity_is_a_number_or_text_and_says_so_once() -> None:
    finding, where = samples.only(samples.POD.replace("gpu: 8", "gpu: true"))
    assert (finding.id, finding.actual) == ("schema.value", "true")
    assert where.path == "spec.containers[0].resources.limits.nvidia.com/gpu"


def test_true_in_quotes_is_no_boolean() -> None:
    finding, _ = samples.only(samples.POLICY.replace("isRdma: true", 'isRdma: "true"'))
    assert (finding.actual, finding.expected) == ("'true'", "true or false")


def test_a_bad_item_costs_its_list_nothing_else() -> None:
    text = samples.POLICY.replace('["ens8f0#0-3"]', "[1, ens8f0, 2, ens9f0]")
    found = samples.bundle(text)
    assert [f.where.path for f in found.findings if f.where] == [
        "spec.nicSelector.pfNames[0]",
        "spec.nicSelector.pfNames[2]",
    ]
    (policy,) = found.of(SriovNetworkNodePolicy)
    assert policy.model.spec.nic_selector.pf_names == ["ens8f0", "ens9f0"]


def test_faults_after_a_cut_item_keep_their_own_index() -> None:
    text = samples.POD.replace("  containers:\n", "  containers:\n  - image: nameless\n").replace(
        "    image: registry", "    imago: registry"
    )
    assert samples.findings(text) == [
        ("schema.missing", "spec.containers[0].name"),
        ("schema.unknown-key", "spec.containers[1].imago"),
    ]


def test_a_cluster_policy_of_another_shape_is_no_model() -> None:
    found = samples.bundle(
        "apiVersion: nvidia.com/v1\nkind: ClusterPolicy\nmetadata: {}\nspec: 5\n"
    )
    assert list(found.of(ClusterPolicy)) == []
    assert [f.actual for f in found.findings] == ["5"]
