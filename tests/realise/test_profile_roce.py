"""RoCE on the host: PFC, DSCP, trust, ECN and the traffic class of rdma_cm."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from podrail.host.open import open_host
from podrail.host.seam import Ran, exists
from podrail.host.twin import TwinHost
from podrail.host.twins.programs import dcb as dcb_program
from podrail.realise.step import Step, kind_of
from tests.realise.tuned import (
    NAME,
    PF,
    PFC_3,
    STEPS,
    VIEW,
    done,
    refused,
    roce_cx6,
)


@pytest.fixture
def host() -> TwinHost:
    return roce_cx6()


def dscp_map(host: TwinHost) -> dict[str, int]:
    entries = json.loads(host.run(["dcb", "-j", "app", "show", "dev", NAME]).stdout)
    return {str(d): p for d, p in entries.get("dscp_prio", [])}


def test_other_priorities_stop_pausing(host: TwinHost) -> None:
    host.run(["dcb", "pfc", "set", "dev", NAME, "prio-pfc", "5:on"])
    was = done(host, STEPS[0])
    assert kind_of(STEPS[0]).says(was) == "priority 5"
    shown = json.loads(host.run(["dcb", "-j", "pfc", "show", "dev", NAME]).stdout)
    assert [p for p, on in enumerate(shown["prio_pfc"]) if on] == [3]


def test_setting_pfc_is_felt_by_who_holds_a_vf() -> None:
    assert kind_of(STEPS[0]).disturbs_vfs


def test_an_entry_is_replaced_and_put_back(host: TwinHost) -> None:
    """The program complains here, and exits with 0: what counts is what is read."""
    host.run(["dcb", "app", "add", "dev", NAME, "dscp-prio", "26:1", "10:2"])
    was = done(host, Step("dscp-map", PF, {"26": 3}))
    assert dscp_map(host) == {"26": 3, "10": 2}
    kind_of(STEPS[1]).undo(host, STEPS[1], was)
    assert dscp_map(host) == {"26": 1, "10": 2}


def test_the_first_entry_makes_mlx5_trust_dscp(host: TwinHost) -> None:
    trust = Step("trust", PF, {"trust": "dscp"})
    assert "roce.dscp" in refused(host, trust).fix
    was = done(host, STEPS[1])
    assert kind_of(trust).holds(host, trust)
    kind_of(STEPS[1]).undo(host, STEPS[1], was)
    assert kind_of(trust).read(host, PF)["trust"] == "pcp"


def test_leaving_dscp_gives_its_map_back(host: TwinHost) -> None:
    host.run(["dcb", "app", "add", "dev", NAME, "dscp-prio", "26:3", "48:6"])
    pcp = Step("trust", PF, {"trust": "pcp"})
    was = done(host, pcp)
    assert dscp_map(host) == {}
    assert kind_of(pcp).says(was) == "dscp"
    kind_of(pcp).undo(host, pcp, was)
    assert dscp_map(host) == {"26": 3, "48": 6}


def test_a_driver_that_orders_what_it_trusts(host: TwinHost) -> None:
    order = ["pcp", "dscp"]

    def apptrust(argv: Sequence[str]) -> Ran:
        if "set" in argv:
            order[:] = argv[argv.index("order") + 1 :]
        return Ran(tuple(argv), 0, json.dumps({"order": order}) if "-j" in argv else "")

    host.put_program(["dcb", "-j", "apptrust"], apptrust)
    host.put_program(["dcb", "apptrust"], apptrust)
    step = Step("trust", PF, {"trust": "dscp"})
    was = done(host, step)
    assert order == ["dscp"]
    order.append("pcp")
    assert kind_of(step).holds(host, step)
    kind_of(step).undo(host, step, was)
    assert order == ["pcp", "dscp"]


@pytest.mark.parametrize("kind", ["pfc", "dscp-map", "trust"])
def test_a_driver_without_dcb_is_refused(kind: str) -> None:
    host = open_host("twin:igb")
    assert isinstance(host, TwinHost)
    pf = next(a for a, f in host.functions.items() if f.spec.sriov)
    to = {"pfc": PFC_3, "dscp-map": {"26": 3}, "trust": {"trust": "dscp"}}[kind]
    no = refused(host, Step(kind, pf, to))
    assert "igb" in no.reason


def test_mlnx_qos_stands_in_for_dcb(host: TwinHost) -> None:
    host.remove_program(["dcb"])
    host.put_program(["mlnx_qos"], lambda argv: dcb_program.mlnx_qos(host, argv))
    trust = Step("trust", PF, {"trust": "dscp"})
    steps = [STEPS[0], trust, Step("dscp-map", PF, {"26": 5, "48": 6})]
    shown = host.run(["mlnx_qos", "-i", NAME]).stdout
    found = [(step, done(host, step)) for step in steps]
    assert all(kind_of(step).holds(host, step) for step in steps)
    now = host.run(["mlnx_qos", "-i", NAME]).stdout
    assert "Priority trust state: dscp" in now
    assert "\tprio:5 dscp:47,46,45,44,43,42,41,40,\n\tprio:5 dscp:26,\n" in now
    for step, was in reversed(found):
        kind_of(step).undo(host, step, was)
    assert host.run(["mlnx_qos", "-i", NAME]).stdout == shown


def test_an_inbox_driver_leaves_ecn_to_the_firmware() -> None:
    host = open_host("twin:roce-cx6")
    assert isinstance(host, TwinHost)
    no = refused(host, STEPS[2])
    assert "inbox driver" in no.reason
    assert "ROCE_CC_PRIO_MASK_P1" in no.fix


def test_ecn_of_a_priority_that_is_not_there(host: TwinHost) -> None:
    for side in ("roce_np", "roce_rp"):
        host.remove(f"{host.netdevs[NAME].path}/ecn/{side}/enable/3")
    assert "roce_np/3" in refused(host, STEPS[2]).reason


def test_a_tos_behind_a_closed_view_is_found_and_put_back(host: TwinHost) -> None:
    """As cma_roce_tos leaves it: the value stays, the view is gone."""
    host.run(["mkdir", VIEW])
    host.write(f"{VIEW}/ports/1/default_roce_tos", "24")
    host.run(["rmdir", VIEW])
    was = done(host, STEPS[3])
    assert was == {"view": False, "1": 24}
    assert host.text(f"{VIEW}/ports/1/default_roce_tos") == "106"
    kind_of(STEPS[3]).undo(host, STEPS[3], was)
    assert not exists(host, VIEW)
    host.run(["mkdir", VIEW])
    assert host.text(f"{VIEW}/ports/1/default_roce_tos") == "24"


def test_a_view_of_somebody_else_stays(host: TwinHost) -> None:
    host.run(["mkdir", VIEW])
    was = done(host, STEPS[3])
    kind_of(STEPS[3]).undo(host, STEPS[3], was)
    assert host.text(f"{VIEW}/ports/1/default_roce_tos") == "0"


def test_without_rdma_cm_no_tos(host: TwinHost) -> None:
    host.remove("/sys/kernel/config/rdma_cm")
    assert "modprobe rdma_cm" in refused(host, STEPS[3]).fix


def test_without_an_rdma_device_no_tos(host: TwinHost) -> None:
    host.remove(f"{host.functions[PF].path}/infiniband")
    assert "no RDMA device" in refused(host, STEPS[3]).reason
