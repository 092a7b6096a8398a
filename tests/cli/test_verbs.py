"""The command line as a contract: exit codes, JSON shapes, messages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from podrail.cli import VERBS, cli
from tests.conftest import ROOT

EXAMPLE = str(ROOT / "examples" / "seed-002")
MISTAKES = str(ROOT / "examples" / "mistakes" / "seed-003")

POLICY = """\
apiVersion: sriovnetwork.openshift.io/v1
kind: SriovNetworkNodePolicy
metadata: {name: p, namespace: openshift-sriov-network-operator}
spec:
  resourceName: rail
  nodeSelector: {}
  numVfs: 4
  nicSelector: %s
"""


def run(*argv: str, stdin: str | None = None) -> Result:
    result = CliRunner().invoke(cli, argv, input=stdin)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_every_verb_helps_with_an_example(verb: str) -> None:
    result = run(verb, "--help")
    assert result.exit_code == 0
    assert "Example:" in result.output


def test_help_lists_every_verb() -> None:
    assert all(verb in run("--help").output for verb in VERBS)


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        pytest.param(["dance"], "No such command", id="verb"),
        pytest.param(["lint"], "Missing option", id="nothing-to-lint"),
        pytest.param(["lint", "-f", "nowhere.yaml"], "cannot read nowhere.yaml", id="file"),
        pytest.param(["discover", "--host", "twin:nobody"], "roce-cx6", id="twin"),
        pytest.param(["discover", "--host", "nowhere.json"], "nowhere.json", id="record"),
        pytest.param(["discover", "--label", "x"], "KEY=VALUE", id="label"),
        pytest.param(["size", "--pods-per-node", "-3"], "-3", id="negative"),
    ],
)  # fmt: skip
def test_wrong_use_says_so_and_exits_2(argv: list[str], says: str) -> None:
    result = run(*argv)
    assert result.exit_code == 2, result.output
    assert says in result.output


def test_an_empty_directory_is_said(tmp_path: Path) -> None:
    result = run("lint", "-f", str(tmp_path))
    assert (result.exit_code, "no manifest in" in result.output) == (2, True)


def test_lint_clean() -> None:
    result = run("lint", "-f", EXAMPLE)
    assert (result.exit_code, "clean" in result.output) == (0, True)


def test_lint_shows_place_finding_reason_and_fix() -> None:
    result = run("lint", "-f", MISTAKES)
    assert result.exit_code == 3
    assert all(word in result.output for word in ("found", "wanted", "why", "fix"))


def test_lint_json_is_the_designs_shape() -> None:
    result = run("lint", "-f", MISTAKES, "-o", "json")
    report = json.loads(result.output)
    assert set(report) == {"schema", "verdict", "coverage", "findings"}
    assert report["verdict"] == "fail"
    keys = {
        "id",
        "layer",
        "subject",
        "status",
        "actual",
        "expected",
        "why",
        "fix",
        "evidence",
        "where",
    }
    assert all(set(finding) == keys for finding in report["findings"])
    assert all(finding["layer"] == 0 for finding in report["findings"])


def test_lint_counts_what_it_could_read() -> None:
    """A kind nobody knows is not promised; one that cannot be read is, and is missing."""
    text = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n---\napiVersion: x/v1\nkind: Y\n"
    report = json.loads(run("lint", "-f", "-", "-o", "json", stdin=text).output)
    assert report["coverage"] == {"declared": 1, "measured": 0}


def test_lint_warnings_alone_exit_1() -> None:
    text = POLICY % '{vendor: "15b3", deviceID: "101d"}' + "  linkType: ETH\n"
    result = run("lint", "-f", "-", stdin=text)
    assert (result.exit_code, "policy.link-type-eth" in result.output) == (1, True)


def test_lint_leaves_unknown_kinds_alone() -> None:
    result = run("lint", "-f", "-", stdin="apiVersion: x/v1\nkind: Whatever\nspec: {a: [1]}\n")
    assert result.exit_code == 0


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_plan_is_the_designs_shape(form: str) -> None:
    result = run("plan", "-f", EXAMPLE, "--host", "twin:roce-cx6", "-o", form)
    assert result.exit_code == 0
    plan = json.loads(result.output) if form == "json" else yaml.safe_load(result.output)
    (node,) = plan["nodes"]
    (pf,) = node["pfs"]
    assert (pf["name"], pf["action"], pf["refused"]) == ("ens8f0", "create", None)
    assert {c["field"]: (c["from"], c["to"], c["set_by"]) for c in pf["changes"]} == {
        "numVfs": (0, 8, "gpu-rdma-vfs"),
        "mtu": (1500, 9000, "gpu-rdma-vfs"),
        "vf 0-7 mtu": (None, 9000, "gpu-rdma-vfs"),
    }
    assert pf["vf_groups"][0]["range"] == "0-7"
    assert set(pf["disturbs"]) == {"pods", "drain", "reboot", "seconds"}
    assert {n["pf"] for n in node["not_selected"]} == {"eno1", "eno2", "ens8f1"}


def test_plan_refuses_the_management_nic_unless_told() -> None:
    text = POLICY % "{pfNames: [eno1]}"
    refused = run("plan", "-f", "-", "--host", "twin:roce-cx6", stdin=text)
    assert refused.exit_code == 1
    assert "management path" in refused.output
    assert "--allow-management eno1" in refused.output
    told = run(
        "plan", "-f", "-", "--host", "twin:roce-cx6", "--allow-management", "eno1", stdin=text
    )
    assert (told.exit_code, "numVfs: 0 → 4" in told.output) == (0, True)


def test_plan_of_a_broken_manifest_exits_3_and_names_it() -> None:
    text = POLICY % '{vendor: "15b3", deviceType: netdevice}'
    result = run("plan", "-f", "-", "--host", "twin:roce-cx6", stdin=text)
    assert result.exit_code == 3
    assert "`deviceType` belongs to `spec`" in result.output


def test_plan_over_several_machines() -> None:
    text = POLICY % '{vendor: "15b3", deviceID: "1021"}'
    result = run(
        "plan", "-f", "-", "--host", "twin:ib-cx7", "--host", "twin:hgx-h100", "-o", "json",
        stdin=text,
    )  # fmt: skip
    nodes = json.loads(result.output)["nodes"]
    assert [(n["node"], len(n["pfs"])) for n in nodes] == [("hgx-1", 10), ("test-cluster-3", 6)]


def test_labels_decide_what_is_selected() -> None:
    text = (POLICY % '{vendor: "15b3"}').replace("{}", "{pool: gpu}")
    argv = ["plan", "-f", "-", "--host", "twin:cx6-ib"]
    assert "nodeSelector wants pool" in run(*argv, stdin=text).output
    assert "numVfs: 0 → 4" in run(*argv, "--label", "pool=gpu", stdin=text).output


def test_discover_dump_and_replay_are_equal_byte_for_byte(tmp_path: Path) -> None:
    first, second = str(tmp_path / "a.json"), str(tmp_path / "b.json")
    live = run("discover", "--host", "twin:ib-cx7", "--dump", first, "-o", "json")
    replay = run("discover", "--host", first, "--dump", second, "-o", "json")
    assert live.exit_code == replay.exit_code == 0
    old, new = json.loads(live.output), json.loads(replay.output)
    assert old == new
    texts = [json.loads(Path(f).read_text()) for f in (first, second)]
    assert {k: v for k, v in texts[0].items() if k != "label"} == {
        k: v for k, v in texts[1].items() if k != "label"
    }


def test_a_record_keeps_the_labels_a_plan_selects_by(tmp_path: Path) -> None:
    record = str(tmp_path / "r.json")
    run("discover", "--host", "twin:roce-cx6", "--label", "rack=7", "--dump", record)
    known = json.loads(Path(record).read_text())["labels"]
    assert known["rack"] == "7"
    assert "node-role.kubernetes.io/gpu-worker" in known
    live = run("plan", "-f", EXAMPLE, "--host", "twin:roce-cx6", "-o", "json")
    replay = run("plan", "-f", EXAMPLE, "--host", record, "-o", "json")
    assert live.exit_code == replay.exit_code == 0
    assert json.loads(replay.output) == json.loads(live.output)


def test_a_fault_changes_what_is_seen(tmp_path: Path) -> None:
    fault = tmp_path / "fault.yaml"
    path = "/sys/bus/pci/devices/0000:9c:00.0/sriov_totalvfs"
    fault.write_text(f"id: sriov-off\nset:\n- path: {path}\n  value: '0'\n")
    result = run("plan", "-f", EXAMPLE, "--host", "twin:roce-cx6", "--fault", str(fault))
    assert result.exit_code == 1
    assert "SR-IOV is off" in result.output
    assert "mstconfig -d 0000:9c:00.0 set SRIOV_EN=1 NUM_OF_VFS=8" in result.output


def test_size_says_which_limit_binds() -> None:
    fits = run("size", "--pods-per-node", "8", "--pfs", "1", "--totalvfs", "16")
    assert (fits.exit_code, "10 with 20 % spare" in fits.output) == (0, True)
    over = run("size", "--pods-per-node", "16", "--pfs", "1", "--totalvfs", "16", "-o", "json")
    assert over.exit_code == 1
    assert json.loads(over.output)["binding"]["spare"] == -4


def test_size_against_manifests_and_a_machine() -> None:
    result = run(
        "size", "--pods-per-node", "7", "--nodes", "40", "-f", EXAMPLE,
        "--host", "twin:roce-cx6", "-o", "json",
    )  # fmt: skip
    sizing = json.loads(result.output)
    assert sizing["addresses"] == 8 * 40
    assert result.exit_code == 1
    assert sizing["binding"]["what"].startswith("addresses of SriovNetwork/")


def test_the_story() -> None:
    result = run("up", "--twin", "--once")
    assert result.exit_code == 0, result.output
    assert "clean" in result.output
    assert "numVfs: 0 → 8" in result.output


def test_a_prefix_nothing_tells_can_be_told() -> None:
    text = (POLICY % '{vendor: "15b3", deviceID: "101d"}').replace(
        "openshift-sriov-network-operator", "my-operator"
    )
    pod = """---
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: ns, annotations: {k8s.v1.cni.cncf.io/networks: n}}
spec:
  containers:
  - name: c
    image: registry.example/app:1
    resources: {limits: {wrong.io/rail: 1}, requests: {wrong.io/rail: 1}}
---
apiVersion: sriovnetwork.openshift.io/v1
kind: SriovNetwork
metadata: {name: n, namespace: my-operator}
spec: {resourceName: rail, networkNamespace: ns}
---
apiVersion: sriovnetwork.openshift.io/v1
kind: SriovOperatorConfig
metadata: {name: default, namespace: my-operator}
spec: {}
"""
    untold = run("lint", "-f", "-", stdin=text + pod)
    assert "pod.resource-prefix" not in untold.output
    told = run("lint", "-f", "-", "--resource-prefix", "acme.io", stdin=text + pod)
    assert "acme.io/rail" in told.output
