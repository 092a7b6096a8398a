"""JSON inside strings: read strictly, placed exactly, keys in any case."""

from __future__ import annotations

import pytest

from podrail.model.bundle import Resource
from podrail.model.kinds.configs import (
    CniConfig,
    DevicePluginConfig,
    Embedded,
    Ipam,
    JsonProblem,
    SharedDevicePluginConfig,
    embedded_json,
    read_config,
)
from tests.model import samples

PLUGIN = ("spec", "sriovDevicePlugin", "config")
SHARED = ("spec", "rdmaSharedDevicePlugin", "config")
IPAM = ("spec", "ipam")


def _resource(text: str) -> Resource:
    (resource,) = samples.bundle(text).resources
    return resource


def _read(text: str, path: tuple[str, ...] = IPAM) -> Embedded:
    found = embedded_json(_resource(text), path)
    assert isinstance(found, Embedded), found
    return found


def _refused(json: str) -> JsonProblem:
    block = "".join(f"    {line}\n" for line in json.split("\n"))
    text = samples.NETWORK.split("    {")[0] + block
    found = embedded_json(_resource(text), IPAM)
    assert isinstance(found, JsonProblem), found
    return found


def test_the_ipam_of_a_network() -> None:
    found = _read(samples.NETWORK)
    ipam, faults = read_config(Ipam, found)
    assert faults == []
    assert ipam is not None
    assert (ipam.type, ipam.range) == ("whereabouts", "192.168.100.0/24")
    where = found.where("range")
    assert (where.line, where.column, where.path) == (11, 16, "spec.ipam.range")
    assert found.where("range", key=True).column == 7
    assert found.get("range") == "192.168.100.0/24"
    assert found.get("routes", 0, "dst") is None


def test_a_cni_config_in_quotes() -> None:
    found = _read(samples.NAD, ("spec", "config"))
    config, faults = read_config(CniConfig, found)
    assert faults == []
    assert config is not None
    assert (config.cni_version, config.type, config.ipam) == ("1.0.0", "sriov", {})
    assert found.where("type").line == 8


def test_keys_of_every_ipam_have_one_model() -> None:
    text = samples.NETWORK.replace(
        '"range": "192.168.100.0/24"',
        '"range_start": "a", "rangeStart": "b", "poolName": "p", "routes": [{"dst": "c"}],\n'
        '      "node_slice_size": "/28", "ipRanges": [{"range": "d"}], "log_file": "e"',
    )
    ipam, faults = read_config(Ipam, _read(text))
    assert faults == []
    assert ipam is not None
    assert (ipam.range_start, ipam.host_range_start, ipam.pool_name) == ("a", "b", "p")
    assert ipam.routes is not None
    assert ipam.routes[0].dst == "c"
    assert ipam.model_extra == {"log_file": "e"}


# --- device plugin configs ----------------------------------------------------------------------


def test_selector_keys_in_any_case() -> None:
    found = _read(samples.NIC_CLUSTER_POLICY, PLUGIN)
    config, faults = read_config(DevicePluginConfig, found)
    assert faults == []
    assert config is not None
    (selectors,) = config.resource_list[0].selector_list()
    assert (selectors.vendors, selectors.is_rdma) == (["15b3"], True)


def test_selectors_may_be_a_list() -> None:
    text = samples.NIC_CLUSTER_POLICY.replace(
        '{"vendors": ["15b3"], "IsRdma": true}', '[{"devices": ["101e"]}, {"pfNames": ["ENS1"]}]'
    )
    config, faults = read_config(DevicePluginConfig, _read(text, PLUGIN))
    assert faults == []
    assert config is not None
    first, second = config.resource_list[0].selector_list()
    assert (first.devices, second.pf_names) == (["101e"], ["ENS1"])


def test_an_unknown_selector_has_its_place_in_the_file() -> None:
    text = samples.NIC_CLUSTER_POLICY.replace('"vendors"', '"vendorIDs"')
    _, (finding,) = read_config(DevicePluginConfig, _read(text, PLUGIN))
    assert finding.id == "schema.unknown-key"
    assert finding.fix == "write `vendors` instead of `vendorIDs`"
    assert finding.where is not None
    line = samples.NIC_CLUSTER_POLICY.split("\n").index('            "resourceName": "rail0",') + 2
    assert (finding.where.line, finding.where.column) == (line, 27)
    assert finding.where.path == (
        "spec.sriovDevicePlugin.config.resourceList[0].selectors.vendorIDs"
    )


def test_a_selector_that_belongs_to_the_other_plugin() -> None:
    text = samples.NIC_CLUSTER_POLICY.replace('"vendors"', '"deviceIDs"')
    _, (finding,) = read_config(DevicePluginConfig, _read(text, PLUGIN))
    assert finding.id == "schema.unknown-key"


def test_a_string_where_the_plugin_wants_a_list() -> None:
    text = samples.NIC_CLUSTER_POLICY.replace('["15b3"]', '"15b3"')
    config, (finding,) = read_config(DevicePluginConfig, _read(text, PLUGIN))
    assert (finding.id, finding.expected) == ("schema.value", "a list")
    assert config is not None
    assert config.resource_list[0].selector_list()[0].is_rdma


def test_the_shared_plugin() -> None:
    text = samples.NIC_CLUSTER_POLICY.replace(
        '"rdmaHcaMax": 63', '"rdmaHcaMax": 63, "selectors": {"deviceIds": ["101d"], "ifNames": []}'
    )
    config, faults = read_config(SharedDevicePluginConfig, _read(text, SHARED))
    assert faults == []
    assert config is not None
    (resource,) = config.config_list
    assert (resource.resource_name, resource.rdma_hca_max) == ("shared", 63)
    assert resource.selectors is not None
    assert resource.selectors.device_ids == ["101d"]


def test_a_config_that_is_no_object() -> None:
    text = samples.NAD.replace(samples.NAD.split("config: ")[1], "'[1]'\n")
    config, (finding,) = read_config(CniConfig, _read(text, ("spec", "config")))
    assert config is None
    assert finding.fix == "write a mapping"


# --- what is not JSON ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("json", "line", "found"),
    [
        ('{\n  "type": "x",\n}', 0, "a comma before the closing bracket"),
        ('{"exclude": ["a",]}', 9, "a comma before the closing bracket"),
        ('{\n  "type": "x" # note\n}', 10, "a comment"),
        ('{\n  // note\n  "type": "x"\n}', 10, "a comment"),
        ("{\n  'type': 'x'\n}", 10, "text in single quotes"),
        ("{\n  type: x\n}", 10, "a key without quotes"),
        ('{\n  "a": True\n}', 10, "Python's spelling"),
        ('{\n  "a": 1\n  "b": 2\n}', 11, 'no comma before `"b": 2`'),
        ('{\n  "a": 1', 0, "ends too early"),
        ('{"a": 1} {"b": 2}', 9, 'more text after the JSON: `{"b": 2}`'),
        ('{"a": {{ value }}}', 9, "a template that was never filled in"),
        ("type: whereabouts\nrange: 10.0.0.0/8", 9, "a key without quotes"),
        ('{"a": 1,, "b": 2}', 9, "two commas"),
        ('{"a": 1, "a": 2}', 9, "`a` stands on line 9 and again on line 9"),
    ],
)
def test_the_usual_slips_are_named(json: str, line: int, found: str) -> None:
    problem = _refused(json)
    assert found in problem.actual
    assert problem.fix
    assert problem.where.path.startswith("spec.ipam")
    if line:
        assert problem.where.line == line


def test_the_column_is_that_of_the_file() -> None:
    assert _refused("{\n  'type': 'x'\n}").where.column == 7


@pytest.mark.parametrize("json", ["[" * 100_000, "1" * 5000, " "])
def test_hostile_json_ends_in_a_message(json: str) -> None:
    assert _refused(json).actual


def test_json_through_an_alias_has_the_place_of_its_use() -> None:
    text = samples.NETWORK.replace("ipam: |", "ipam: *i").split("    {")[0]
    text = text.replace("{name: rail0}", "{name: rail0, annotations: {i: &i '{\"a\": 1}'}}")
    found = _read(text)
    assert found.data == {"a": 1}
    assert (found.where("a").line, found.where("a").path) == (8, "spec.ipam.a")
    _, faults = read_config(DevicePluginConfig, found)
    assert [f.where.line for f in faults if f.where] == [8, 8]


def test_tabs_are_good_json() -> None:
    text = samples.NETWORK.replace('      "range"', '    \t"range"')
    assert _read(text).data["range"] == "192.168.100.0/24"


def test_no_string_at_all() -> None:
    problem = embedded_json(_resource(samples.IB_NETWORK), IPAM)
    assert isinstance(problem, JsonProblem)
    assert problem.actual == "nothing"
    mapping = samples.IB_NETWORK + "  ipam: {type: whereabouts}\n"
    problem = embedded_json(_resource(mapping), IPAM)
    assert isinstance(problem, JsonProblem)
    assert problem.actual == "a YAML mapping instead of text"
