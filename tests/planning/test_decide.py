"""What a plan does to a PF, and what it refuses."""

from __future__ import annotations

from dataclasses import replace

import pytest

from podrail.model.inventory import Inventory, Iommu, Node, Pf
from podrail.model.plan import Action, PfPlan
from podrail.model.policy import PfName, Policy, VfRange
from podrail.model.vf import Vf, VfTable
from podrail.planning.planner import Planner
from podrail.planning.pools import Habits, Pool
from podrail.planning.show import show

PF = Pf(
    pci="0000:3b:00.0", name="ens8f0", vendor="15b3", device="101d",
    totalvfs=16, numvfs=0, mtu=1500, max_mtu=9978, admin_up=True,
)  # fmt: skip
POLICY = Policy("p", "r", 8, vendor="15b3")


def vfs(count: int, **more: object) -> VfTable:
    return VfTable(
        Vf(i, f"0000:3b:01.{i}", driver="mlx5_core", netdev=f"v{i}", mtu=1500, **more)  # type: ignore[arg-type]
        for i in range(count)
    )


HAS_8 = replace(PF, numvfs=8, vfs=vfs(8))


def planned(pf: Pf, policy: Policy = POLICY, node: Node | None = None, **options: object) -> PfPlan:
    planner = Planner([policy], **options)  # type: ignore[arg-type]
    (only,) = planner.node(Inventory(node or Node("n"), pfs=(pf,))).pfs
    return only


def test_create_disturbs_nobody() -> None:
    plan = planned(PF)
    assert plan.action is Action.CREATE
    assert [(c.field, c.old, c.new, c.set_by) for c in plan.changes] == [("numVfs", 0, 8, "p")]
    assert not plan.disturbs.drain
    assert plan.disturbs.pods == ()
    assert plan.disturbs.seconds == pytest.approx(2.7)


def test_nothing_to_do() -> None:
    assert planned(HAS_8).action is Action.NONE


def test_resize_names_the_pods_it_disturbs() -> None:
    held = replace(HAS_8, vfs=vfs(8, holder="pod ai/train-0"))
    plan = planned(held, replace(POLICY, num_vfs=4))
    assert plan.action is Action.RESIZE
    assert plan.disturbs.drain
    assert plan.disturbs.pods[0] == "vf 0: pod ai/train-0"


def test_an_mtu_raise_is_in_place() -> None:
    plan = planned(HAS_8, replace(POLICY, mtu=9000))
    assert plan.action is Action.ADJUST
    assert [(c.field, c.old, c.new) for c in plan.changes] == [
        ("mtu", 1500, 9000),
        ("vf 0-7 mtu", 1500, 9000),
    ]


def test_a_lower_mtu_leaves_the_pf_alone() -> None:
    jumbo = replace(HAS_8, mtu=9000)
    assert planned(jumbo, replace(POLICY, mtu=1500)).action is Action.NONE


def test_rebinding_touches_only_the_vfs_of_the_group() -> None:
    policy = replace(POLICY, pf_names=(PfName("ens8f0", VfRange(2, 3)),), device_type="vfio-pci")
    held = replace(
        HAS_8,
        vfs=VfTable(
            replace(vf, holder="pod x" if vf.index in (1, 3) else None) for vf in HAS_8.vfs
        ),
    )
    plan = planned(held, policy)
    assert [c.field for c in plan.changes] == ["vf 2-3 driver"]
    assert plan.disturbs.pods == ("vf 3: pod x",)


def test_zero_guids_on_infiniband_are_mended() -> None:
    zero, good = "00:00:00:00:00:00:00:00", "38:25:f3:03:00:85:1d:ae"
    table = VfTable(replace(vf, guid=zero if vf.index < 2 else good) for vf in HAS_8.vfs)
    plan = planned(replace(HAS_8, link_type="ib", vfs=table))
    assert [c.field for c in plan.changes] == ["vf 0-1 guid"]


@pytest.mark.parametrize(
    ("pf", "policy", "says"),
    [
        pytest.param(PF, replace(POLICY, num_vfs=17), "over sriov_totalvfs 16", id="too-many"),
        pytest.param(replace(PF, totalvfs=0), POLICY, "SR-IOV is off", id="sriov-off"),
        pytest.param(PF, replace(POLICY, mtu=9999), "over the 9978", id="mtu"),
        pytest.param(
            PF, replace(POLICY, pf_names=(PfName("ens8f0", VfRange(4, 8)),)),
            "beyond numVfs 8", id="range",
        ),
        pytest.param(
            PF, replace(POLICY, external=True), "only 0 of 8 VFs exist", id="external-missing"
        ),
        pytest.param(
            replace(HAS_8, vendor="8086"), replace(POLICY, vendor="8086", link_type="ib"),
            "but the port is eth", id="link-type-fixed",
        ),
        pytest.param(
            replace(PF, management="default route via br-ex"), POLICY,
            "management path: default route via br-ex", id="management",
        ),
    ],
)  # fmt: skip
def test_refusals_say_why_and_what_next(pf: Pf, policy: Policy, says: str) -> None:
    plan = planned(pf, policy)
    assert plan.action is Action.REFUSE
    assert says in str(plan.refused)
    assert plan.fix


def test_the_management_pf_may_be_named() -> None:
    pf = replace(PF, management="default route")
    assert planned(pf, allow_management=["ens8f0"]).action is Action.CREATE
    assert planned(pf, allow_management=["ens8f1"]).action is Action.REFUSE


def test_a_management_pf_that_already_is_as_wanted_is_no_refusal() -> None:
    assert planned(replace(HAS_8, management="default route")).action is Action.NONE


def test_link_type_change_reboots_and_lockdown_forbids_it() -> None:
    policy = replace(POLICY, link_type="ib")
    assert planned(PF, policy).disturbs.reboot
    locked = planned(PF, policy, Node("n", lockdown="integrity"))
    assert locked.action is Action.REFUSE
    assert "lockdown" in str(locked.refused)


def test_vfio_without_iommu_asks_for_kernel_arguments() -> None:
    policy = replace(POLICY, device_type="vfio-pci")
    node = Node("n", iommu=Iommu((), 0), cmdline="quiet", cpu_vendor="GenuineIntel")
    plan = Planner([policy]).node(Inventory(node, pfs=(PF,)))
    assert [c.new for c in plan.system] == ["intel_iommu=on iommu=pt"]
    assert plan.reboot
    told = replace(node, cmdline="intel_iommu=on")
    assert planned(PF, policy, told).action is Action.REFUSE


def test_a_pf_no_policy_wants_is_reset_only_if_a_record_claims_it() -> None:
    nobody = replace(POLICY, vendor="ffff")
    inventory = Inventory(Node("n"), pfs=(HAS_8,))
    assert Planner([nobody]).node(inventory).pfs == ()
    claimed = replace(inventory, pfs=(replace(HAS_8, recorded=True),))
    (plan,) = Planner([nobody]).node(claimed).pfs
    assert plan.action is Action.RESET


def test_every_pf_not_selected_says_why() -> None:
    policies = [
        replace(POLICY, name="vendor", vendor="8086"),
        replace(POLICY, name="device", device="1021"),
        replace(POLICY, name="address", root_devices=("0000:5e:00.0",)),
        replace(POLICY, name="pfname", pf_names=(PfName("ens1f0"),)),
        replace(POLICY, name="empty", vendor=None),
        replace(POLICY, name="labels", node_selector=(("pool", "gpu"),)),
    ]
    plan = Planner(policies).node(Inventory(Node("n", labels={"pool": "cpu"}), pfs=(PF,)))
    reasons = {n.policy: n.reason for n in plan.not_selected}
    assert reasons["vendor"] == "vendor is 15b3, wanted 8086"
    assert reasons["device"] == "device id is 101d, wanted 1021"
    assert reasons["address"] == "address is 0000:3b:00.0, wanted 0000:5e:00.0"
    assert reasons["pfname"] == "name is ens8f0, wanted ens1f0"
    assert "empty" in reasons["empty"]
    assert reasons["labels"] == 'nodeSelector wants pool="gpu", the node has pool="cpu"'


def test_sharing_never_mixes_up_nodes() -> None:
    """The planner's caches: nodes that differ in one fact must differ in the plan."""
    variants = [
        PF, replace(PF, totalvfs=4), replace(PF, mtu=9000), HAS_8, replace(PF, name="ens9"),
        replace(HAS_8, vfs=VfTable(replace(v, driver="vfio-pci") for v in HAS_8.vfs)),
        replace(PF, management="default route"), replace(PF, admin_up=False),
        replace(PF, eswitch="switchdev"), replace(HAS_8, vfs=vfs(8, holder="pod y")),
    ]  # fmt: skip
    policy = replace(POLICY, mtu=9000)
    shared = Planner([policy])
    nodes = [Inventory(Node(f"n{i}"), pfs=(pf,)) for i, pf in enumerate(variants * 2)]
    together = {n.node: n.to_json() for n in shared.plan(nodes).nodes}
    apart = {i.node.name: Planner([policy]).node(i).to_json() for i in nodes}
    assert together == apart


def test_two_plans_of_the_same_input_are_equal_and_print_the_same() -> None:
    inventory = Inventory(Node("n"), pfs=(PF, replace(HAS_8, pci="0000:3b:00.1", name="ens8f1")))
    first, second = (Planner([POLICY]).plan([inventory]) for _ in range(2))
    assert first == second
    assert list(show(first)) == list(show(second))


def test_the_operators_habits() -> None:
    resized = replace(POLICY, num_vfs=4)
    assert not planned(HAS_8, resized, habits=Habits(drains=False)).disturbs.drain
    systemd = planned(HAS_8, resized, habits=Habits(reboots_always=True)).disturbs
    assert (systemd.drain, systemd.reboot) == (True, True)
    assert not planned(HAS_8, habits=Habits(reboots_always=True)).disturbs.reboot


def test_a_node_in_two_pools_is_said() -> None:
    pools = [Pool(name, (), "exclusive") for name in ("a", "b")]
    plan = Planner([POLICY], pools).node(Inventory(Node("n"), pfs=(PF,), rdma_netns="shared"))
    assert [n.reason for n in plan.not_selected] == [
        "the node is in a and b; the operator wants one pool"
    ]
    assert plan.system == ()


def test_the_rdma_mode_of_a_pool_is_a_change_with_a_reboot() -> None:
    inventory = Inventory(Node("n"), pfs=(PF,), rdma_netns="shared")
    plan = Planner([POLICY], [Pool("a", (), "exclusive")]).node(inventory)
    assert [(c.old, c.new, c.set_by) for c in plan.system] == [("shared", "exclusive", "a")]
    assert plan.reboot
