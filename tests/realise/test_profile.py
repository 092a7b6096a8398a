"""Which steps a profile means for a machine, and what they would change."""

from __future__ import annotations

from dataclasses import replace

import pytest

from podrail.host.open import open_host
from podrail.host.record import RecordedHost, RecordingHost
from podrail.host.twin import TwinHost
from podrail.inventory import discover
from podrail.model.bundle import read
from podrail.model.inventory import Inventory
from podrail.model.plan import NodePlan, Plan
from podrail.model.profile import Profile, profiles
from podrail.planning.lint import lint
from podrail.planning.show import show, summary
from podrail.realise.profile import passed_over, preview, profile_steps
from podrail.realise.step import MACHINE, Step, kind_of, pending
from tests.conftest import ROOT

HEAD = "apiVersion: podrail.io/v1alpha1\nkind: HostProfile\nmetadata: {name: %s}\nspec:\n"
PF = "0000:9c:00.0"


def given(spec: str, name: str = "p") -> tuple[Profile, ...]:
    """A profile whose spec is the lines of `spec`, each indented by two spaces here."""
    body = "".join(f"  {line}\n" for line in spec.strip().split("\n")) if spec else "  {}\n"
    bundle = read([("p.yaml", HEAD % name + body)])
    assert bundle.findings == ()
    return profiles(bundle)


def machine(name: str = "roce-cx6") -> tuple[TwinHost, Inventory]:
    host = open_host(f"twin:{name}")
    assert isinstance(host, TwinHost)
    return host, discover(host)


def steps(spec: str, twin: str = "roce-cx6") -> dict[str, Step]:
    return {step.kind: step for step in profile_steps(given(spec), machine(twin)[1])}


NICS = "nicSelector: {pfNames: [ens8f0]}\n"


# --- which --------------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", ["", "nodeSelector: {}\nnicSelector: {vendor: '15b3'}"])
def test_an_empty_profile_changes_nothing(spec: str) -> None:
    assert profile_steps(given(spec), machine()[1]) == ()


def test_what_roce_means() -> None:
    found = steps(NICS + "roce: {trust: dscp, priority: 3, dscp: 26, ecn: true}")
    assert list(found) == ["pfc", "dscp-map", "ecn", "trust", "roce-tos"]
    assert found["pfc"].to == {str(p): p == 3 for p in range(8)}
    assert found["dscp-map"].to == {"26": 3}
    assert found["ecn"].to == {"roce_np/3": True, "roce_rp/3": True}
    assert found["trust"].to == {"trust": "dscp"}
    assert found["roce-tos"].to == {"view": True, "1": 106}
    assert {step.target for step in found.values()} == {PF}
    assert {step.set_by for step in found.values()} == {"p"}


def test_a_tos_of_its_own_wins_over_that_of_the_dscp() -> None:
    assert steps(NICS + "roce: {dscp: 26, tos: 96}")["roce-tos"].to == {"view": True, "1": 96}


def test_under_pcp_no_dscp_is_mapped() -> None:
    """On mlx5 an entry would make the port trust DSCP again."""
    found = steps(NICS + "roce: {trust: pcp, priority: 3, dscp: 26}")
    assert "dscp-map" not in found
    assert found["trust"].to == {"trust": "pcp"}


def test_the_rest_of_a_nic() -> None:
    found = steps(
        NICS + "rings: {rx: 8192}\ncoalescing: {adaptiveRx: false, rxUsecs: 8}\n"
        "pcie: {relaxedOrdering: true, maxReadRequest: 4096}"
    )
    assert found["rings"].to == {"rx": 8192}
    assert found["coalescing"].to == {"adaptiveRx": False, "rxUsecs": 8}
    assert found["pcie"].to == {"relaxedOrdering": True, "maxReadRequest": 4096}


def test_the_machine_needs_no_nic() -> None:
    found = steps("cpu: {governor: performance}\nmemlock: unlimited")
    assert found["governor"] == Step("governor", MACHINE, "performance", "p")
    assert found["memlock"].target == MACHINE


def test_every_kind_is_registered() -> None:
    text = (ROOT / "examples/profile/roce.yaml").read_text().replace("ens8f0]", "ens8f0, ens8f1]")
    found = profile_steps(profiles(read([("roce.yaml", text)])), machine()[1])
    assert {kind_of(step).name for step in found} == {step.kind for step in found}
    assert len([step for step in found if step.kind == "pfc"]) == 2


def test_selectors_are_those_of_policies() -> None:
    inventory = machine()[1]
    for nics in ("vendor: '15b3'", "deviceID: 101d", "rootDevices: ['0000:9c:00.0']"):
        found = profile_steps(given(f"nicSelector: {{{nics}}}\nrings: {{rx: 512}}"), inventory)
        assert PF in {step.target for step in found}, nics
    assert profile_steps(given("rings: {rx: 512}"), inventory) == ()
    by_altname = given("nicSelector: {pfNames: [enp156s0f0]}\nrings: {rx: 512}")
    assert [step.target for step in profile_steps(by_altname, inventory)] == [PF]


def test_a_node_that_is_not_meant() -> None:
    chosen = given(NICS + "nodeSelector: {gpu: 'yes'}\nrings: {rx: 512}\nmemlock: unlimited")
    inventory = machine()[1]
    assert profile_steps(chosen, inventory) == ()
    (one,) = passed_over(chosen, inventory)
    assert (one.pf, one.policy) == ("*", "p")
    assert 'gpu="yes"' in one.reason


def test_the_management_path_is_never_touched() -> None:
    inventory = machine()[1]
    uplink = next(pf for pf in inventory.pfs if pf.management)
    chosen = given(f"nicSelector: {{pfNames: [{uplink.name}]}}\nrings: {{rx: 512}}")
    assert profile_steps(chosen, inventory) == ()
    reasons = {one.pf: one.reason for one in passed_over(chosen, inventory)}
    assert "management path" in reasons[uplink.name]
    assert "wanted" in reasons["ens8f0"]


def test_roce_is_not_for_infiniband() -> None:
    _, inventory = machine("ib-cx7")
    chosen = given("nicSelector: {pfNames: [ibp60s0]}\nroce: {priority: 3}")
    assert profile_steps(chosen, inventory) == ()
    reasons = {one.pf: one.reason for one in passed_over(chosen, inventory)}
    assert "InfiniBand" in reasons["ibp60s0"]
    both = given("nicSelector: {pfNames: [ibp60s0]}\nroce: {priority: 3}\nrings: {rx: 512}")
    assert [step.kind for step in profile_steps(both, inventory)] == ["rings"]


def test_an_invalid_manifest_is_not_half_read() -> None:
    text = HEAD % "p" + "  nicSelector: {vendor: 1}\n  rings: {rx: 512}\n  memlock: unlimited\n"
    chosen = profiles(read([("p.yaml", text)]))
    inventory = machine()[1]
    assert profile_steps(chosen, inventory) == ()
    assert "invalid" in passed_over(chosen, inventory)[0].reason


def test_the_later_name_wins_key_by_key() -> None:
    first = given(NICS + "rings: {rx: 512, tx: 512}\ncpu: {governor: powersave}", "a")
    then = given(NICS + "rings: {rx: 8192}\ncpu: {governor: performance}", "b")
    inventory = machine()[1]
    for order in ((*first, *then), (*then, *first)):
        found = {step.kind: step for step in profile_steps(order, inventory)}
        assert found["rings"].to == {"rx": 8192, "tx": 512}
        assert found["governor"] == Step("governor", MACHINE, "performance", "b")


def test_the_ports_of_the_rdma_device() -> None:
    inventory = machine()[1]
    device = next(d for d in inventory.rdma if d.name == "mlx5_0")
    two = replace(device, ports=(device.ports[0], replace(device.ports[0], number=2)))
    inventory = replace(inventory, rdma=(two,))
    (step,) = profile_steps(given(NICS + "roce: {tos: 106}"), inventory)
    assert step.to == {"view": True, "1": 106, "2": 106}


# --- what would change --------------------------------------------------------------------------


def test_preview_tells_old_and_new_and_changes_nothing() -> None:
    host, inventory = machine()
    wanted = profile_steps(given(NICS + "rings: {rx: 8192}\nroce: {priority: 3}"), inventory)
    before = dict(host._files)
    changes = preview(host, wanted)
    assert [(c.field, c.old, c.new, c.set_by) for c in changes] == [
        ("ens8f0 rings", "rx 1024", "rx 8192", "p"),
        ("ens8f0 pfc", "off", "priority 3", "p"),
    ]
    assert host._files == before


def test_what_holds_is_no_change() -> None:
    host, inventory = machine()
    wanted = profile_steps(
        given(NICS + "rings: {rx: 1024}\ncpu: {governor: performance}"), inventory
    )
    assert preview(host, wanted) == ()


def test_what_cannot_be_read_says_why() -> None:
    host, inventory = machine()
    host.remove_program(["dcb"])
    wanted = profile_steps(given(NICS + "roce: {priority: 3}\nrings: {rx: 99999}"), inventory)
    rings, pfc = preview(host, wanted)
    assert (rings.old, pfc.old) == (None, None)
    assert "the most that ens8f0 can is 8192" in rings.field
    assert "neither dcb nor mlnx_qos is installed" in pfc.field
    assert pfc.new == "priority 3"


def test_a_record_that_never_looked_says_so() -> None:
    host, _ = machine()
    recording = RecordingHost(host)
    inventory = discover(recording)
    record = RecordedHost.from_text(recording.dump(), "node.json")
    text = (ROOT / "examples/profile/roce.yaml").read_text()
    changes = preview(record, profile_steps(profiles(read([("roce.yaml", text)])), inventory))
    assert {c.field.partition(" (")[0] for c in changes} >= {"memlock", "ens8f0 pfc"}
    assert all(c.old is None and "(not in the record)" in c.field for c in changes)


def test_only_runtimes_with_a_limit_are_told() -> None:
    host, inventory = machine()
    (change,) = preview(host, profile_steps(given("memlock: unlimited"), inventory))
    assert (change.old, change.new) == ("limited for kubelet", "unlimited")


def test_a_nic_that_went_away() -> None:
    host, inventory = machine()
    (step,) = profile_steps(given(NICS + "rings: {rx: 8192}"), inventory)
    (change,) = preview(host, [replace(step, target="0000:9c:00.7")])
    assert change.field == "0000:9c:00.7 rings (0000:9c:00.7 is gone)"


def test_done_nothing_is_left_to_change() -> None:
    host, inventory = machine()
    text = (ROOT / "examples/profile/roce.yaml").read_text()
    wanted = profile_steps(profiles(read([("roce.yaml", text)])), inventory)
    assert len(preview(host, wanted)) >= 5
    for step in wanted:
        kind_of(step).do(host, step)
    assert preview(host, wanted) == ()
    (told,) = pending(host, wanted)
    assert "systemctl restart kubelet" in told


def test_the_example_lints_without_a_finding() -> None:
    text = (ROOT / "examples/profile/roce.yaml").read_text()
    assert lint(read([("roce.yaml", text)])) == ()


def test_a_plan_shows_settings_without_a_reboot() -> None:
    host, inventory = machine()
    changes = preview(
        host, profile_steps(given(NICS + "rings: {rx: 8192}\nmemlock: unlimited"), inventory)
    )
    node = NodePlan("n", (), settings=changes)
    plan = Plan((node,))
    assert (node.changed, node.reboot) == (True, False)
    assert [c["field"] for c in node.to_json()["settings"]] == ["memlock", "ens8f0 rings"]
    lines = list(show(plan))
    assert "~   ens8f0 rings: rx 1024 → rx 8192   (p)" in lines
    assert "      no policy given" not in lines
    assert summary(plan) == "1 node: 2 settings to change"
    assert not NodePlan("n", ()).changed
