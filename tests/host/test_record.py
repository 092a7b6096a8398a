"""What a record holds, what it leaves out, and what is said of one that is none."""

from __future__ import annotations

import json
from typing import Any

import pytest

from podrail.host.memory import MemoryHost
from podrail.host.record import SCHEMA, RecordedHost, RecordingHost, redact
from podrail.host.twins import twin
from podrail.inventory import discover
from podrail.model.errors import Unmeasured

CHECKPOINT = "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"
KUBECONFIG = """apiVersion: v1
kind: Config
clusters:
- cluster:
    certificate-authority-data: U0VDUkVU
    server: https://admin:U0VDUkVU@10.0.0.5:6443
  name: local
users:
- name: node
  user: {token: U0VDUkVU}
"""


def replayed(recording: RecordingHost) -> RecordedHost:
    return RecordedHost.from_text(recording.dump(), "r.json")


# --- labels ---------------------------------------------------------------------------------------


def test_labels_are_kept() -> None:
    host = twin("roce-cx6")
    assert replayed(RecordingHost(host)).labels == host.labels
    assert replayed(RecordingHost(host, {"a": "b"})).labels == {"a": "b"}
    assert MemoryHost("m").labels == {}


def test_an_old_record_has_none() -> None:
    record = json.loads(RecordingHost(twin("igb")).dump())
    del record["labels"]
    assert RecordedHost.from_text(json.dumps(record), "old.json").labels == {}


# --- what is left out -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "/etc/kubernetes/kubelet.conf",
        "/var/lib/kubelet/kubeconfig",
        "/var/lib/rancher/k3s/agent/kubelet.kubeconfig",
        "/var/lib/rancher/rke2/agent/kubelet.kubeconfig",
        "/var/snap/microk8s/current/credentials/kubelet.config",
    ],
)
def test_a_kubeconfig_keeps_its_server_only(path: str) -> None:
    host = MemoryHost("m", {path: KUBECONFIG})
    recording = RecordingHost(host)
    recording.read(path)
    assert "U0VDUkVU" not in recording.dump()
    assert "server: https://10.0.0.5:6443" in replayed(recording).read(path)
    recording.read_bytes(path)
    assert b"U0VDUkVU" not in replayed(recording).read_bytes(path)


def test_a_kubeconfig_on_one_line_keeps_nothing() -> None:
    text = "clusters: [{cluster: {server: https://h, certificate-authority-data: U0VD}}]"
    assert "U0VD" not in redact("/var/lib/kubelet/kubeconfig", text)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("ro rd.iscsi.password=hunter2 quiet", "ro rd.iscsi.password=REMOVED quiet"),
        ("PASS=a,b x.api_token=c", "PASS=REMOVED x.api_token=REMOVED"),
        ('secret="two words" ro', "secret=REMOVED ro"),
        ("inst.ks=http://u:p@h/ks?token=x&n=1", "inst.ks=http://REMOVED@h/ks?token=REMOVED&n=1"),
        ("netroot=iscsi:u:p@10.0.0.1::::iqn", "netroot=iscsi:REMOVED@10.0.0.1::::iqn"),
        ("iommu.passthrough=1 rd.vconsole.keymap=us iommu=pt", None),
    ],
)
def test_the_command_line(given: str, kept: str | None) -> None:
    assert redact("/proc/cmdline", given) == (kept or given)
    assert redact("/etc/os-release", given) == given


def test_the_kubelets_checkpoint_keeps_who_holds_what() -> None:
    entry = {
        "PodUID": "7c1f", "ContainerName": "main", "ResourceName": "nvidia.com/gpu",
        "DeviceIDs": {"0": ["0000:01:10.0"]},
    }  # fmt: skip
    full = {**entry, "AllocResp": "CkIKDVNFQ1JFVA=="}
    data = {"PodDeviceEntries": [full], "RegisteredDevices": {"a": ["b"]}}
    host = MemoryHost("m", {CHECKPOINT: json.dumps({"Data": data, "Checksum": 4711})})
    recording = RecordingHost(host)
    recording.read(CHECKPOINT)
    assert json.loads(replayed(recording).read(CHECKPOINT)) == {
        "Data": {"PodDeviceEntries": [entry]}
    }


@pytest.mark.parametrize("text", ["{", "[]", '{"Data": 1}', '{"Data": {"PodDeviceEntries": [1]}}'])
def test_a_checkpoint_nobody_can_read_is_not_kept(text: str) -> None:
    assert redact(CHECKPOINT, text) == "REMOVED: not a checkpoint\n"
    host = MemoryHost("m", {CHECKPOINT: text})
    assert any(fact.path == CHECKPOINT for fact in discover(RecordingHost(host)).unknown)


def test_no_pod_yet() -> None:
    text = '{"Data": {"PodDeviceEntries": null, "RegisteredDevices": {}}, "Checksum": 1}'
    assert json.loads(redact(CHECKPOINT, text)) == {"Data": {"PodDeviceEntries": []}}


# --- what is no record ----------------------------------------------------------------------------


def record(**changes: Any) -> str:
    whole: dict[str, Any] = {
        "schema": SCHEMA, "label": "x", "files": {}, "dirs": {}, "links": {}, "resolved": {},
        "programs": [],
    }  # fmt: skip
    whole |= changes
    return json.dumps({key: value for key, value in whole.items() if value is not ...})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not JSON: Expecting value"),
        ("[" * 100_000, "not JSON"),
        ("[]", "it is a JSON list, wanted an object"),
        ("{}", "key 'schema' is missing"),
        (record(files=...), "key 'files' is missing"),
        (record(programs=...), "key 'programs' is missing"),
        (record(dirs=[]), "key 'dirs' is not an object"),
        (record(files={"/a": 5}), "files['/a'] is '5', wanted text"),
        (record(dirs={"/a": "b"}), "dirs['/a'] is 'b', wanted a list of names"),
        (record(links={"/a": ["b"]}), "links['/a'] is"),
        (record(resolved={"/a": {}}), "resolved['/a'] is '{}', wanted text or"),
        (record(programs={}), "key 'programs' is not a list"),
        (record(programs=[1]), "programs[0] is not an object"),
        (record(programs=[{"rc": 0}]), "programs[0]: key 'argv' is missing or not a list"),
        (record(programs=[{"argv": ["ip"]}]), "programs[0]: key 'rc' is missing or not a number"),
        (record(programs=[{"argv": ["ip"], "rc": 0}]), "key 'stdout' is missing or not text"),
        (record(labels={"a": 1}), "labels['a'] is '1', wanted text"),
        (record(labels=["a"]), "key 'labels' is not an object"),
    ],
)
def test_the_wrong_key_is_named(text: str, message: str) -> None:
    with pytest.raises(Unmeasured) as no:
        RecordedHost.from_text(text, "r.json")
    said = str(no.value)
    assert said.startswith("r.json is not a record of a machine (")
    assert message in said
    assert "podrail discover --dump FILE" in said


def test_another_schema() -> None:
    with pytest.raises(Unmeasured, match="schema is 'podrail/record/9', this podrail reads"):
        RecordedHost.from_text(record(schema="podrail/record/9"), "r.json")


def test_an_error_that_no_kernel_knows() -> None:
    host = RecordedHost.from_text(record(files={"/a": {"errno": "errorcode"}}), "r.json")
    with pytest.raises(OSError, match="Input/output error"):
        host.read("/a")
