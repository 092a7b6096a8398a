from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podrail.attach.deviceplugin.candidates import NET, Candidate
from podrail.attach.deviceplugin.health import HOLD, Mark, Port, damped, due, judge, ports
from podrail.attach.deviceplugin.resources import KERNEL, Slot, Traits
from podrail.host.twins import consequences
from podrail.inventory.collect import discover
from tests.attach.deviceplugin.machines import IB60, Machine

VF = Candidate(
    "0000:9c:00.2", NET, "15b3", "101e", pf="pf", index=0, rdma="mlx5_2", has_rdma=True,
    driver="mlx5_core", driver_now="mlx5_core", rdma_now="mlx5_2",
)  # fmt: skip
GOOD = {"pf": Port(rdma=True)}


@pytest.mark.parametrize(
    ("now", "traits", "port", "fault"),
    [
        pytest.param({}, Traits(True, driver=KERNEL), Port(True), None, id="good"),
        pytest.param({"driver_now": None}, Traits(), Port(True), "no driver", id="no-driver"),
        pytest.param(
            {"driver_now": "vfio-pci"}, Traits(driver=KERNEL), Port(), "kernel's own", id="vfio"
        ),
        pytest.param({}, Traits(driver="vfio-pci"), Port(), "not to vfio-pci", id="not-vfio"),
        pytest.param(
            {"driver_now": "vfio-pci"}, Traits(driver="vfio-pci"), Port(), None, id="is-vfio"
        ),
        pytest.param({"rdma_now": None}, Traits(True), Port(True), "no RDMA", id="no-rdma"),
        pytest.param({"rdma_now": None}, Traits(False), Port(True), None, id="rdma-not-wanted"),
        pytest.param(
            {"rdma_now": None, "held": "netns"}, Traits(True), Port(True), None, id="in-a-pod"
        ),
        pytest.param({"rdma_now": None}, Traits(True), Port(False), None, id="soft-roce-in-pods"),
        pytest.param({}, Traits(), Port(True, "no carrier"), "no carrier", id="link"),
        pytest.param({}, Traits(), None, None, id="pf-not-known"),
    ],
)
def test_faults(
    now: dict[str, str | None], traits: Traits, port: Port | None, fault: str | None
) -> None:
    one = replace(VF, **now)  # type: ignore[arg-type]
    found = judge(Slot(one.id, (one,), traits), {"pf": port} if port else {})
    assert found is None if fault is None else fault in (found or "")


def test_one_good_hca_of_several_suffices() -> None:
    other = replace(VF, id="0000:9c:01.2", driver_now=None)
    assert judge(Slot("0", (other, VF)), GOOD) is None
    assert judge(Slot("0", (other, other)), GOOD) == "0000:9c:01.2 has no driver"


@pytest.mark.parametrize(
    ("name", "path", "value", "pf", "fault"),
    [
        ("roce-cx6", "/sys/class/net/ens8f0/carrier", "0", "0000:9c:00.0", "ens8f0 has no carrier"),
        (
            "ib-cx7", "/sys/class/infiniband/mlx5_0/ports/1/state", "1: DOWN", IB60,
            "the port of mlx5_0 is DOWN",
        ),
        (
            "ib-cx7", "/sys/class/infiniband/mlx5_0/ports/1/state", "2: INIT", IB60,
            "the port of mlx5_0 is INIT",
        ),
    ],
)  # fmt: skip
def test_ports_of_machines(name: str, path: str, value: str, pf: str, fault: str) -> None:
    twin = Machine(name).twin
    assert ports(discover(twin))[pf] == Port(rdma=True)
    consequences.change(twin, path, value)
    assert ports(discover(twin))[pf].fault == fault


def test_a_pf_that_is_down() -> None:
    twin = Machine("igb").twin
    assert ports(discover(twin))["0000:81:00.0"].fault == "ens2 is down"


# --- damping ----------------------------------------------------------------------------------


def test_a_fault_counts_at_once_and_the_all_clear_later() -> None:
    marks = damped({}, {"a": None}, 0.0)
    assert marks == {"a": Mark()}
    marks = damped(marks, {"a": "no carrier"}, 1.0)
    assert marks["a"].fault == "no carrier"
    marks = damped(marks, {"a": None}, 2.0)
    assert marks["a"].fault == "no carrier"
    assert due(marks) == 2.0 + HOLD
    assert damped(marks, {"a": None}, 2.0 + HOLD - 0.1)["a"].fault == "no carrier"
    marks = damped(marks, {"a": None}, 2.0 + HOLD)
    assert marks["a"] == Mark()
    assert due(marks) is None


def test_a_device_that_went_is_forgotten() -> None:
    marks = damped({}, {"a": "dead"}, 0.0)
    assert damped(damped(marks, {}, 1.0), {"a": None}, 2.0) == {"a": Mark()}


LOOKS = st.lists(st.tuples(st.floats(0.01, 4.0), st.booleans()), min_size=1, max_size=40)


@given(LOOKS)
def test_whatever_a_link_does(looks: list[tuple[float, bool]]) -> None:
    """Never healthy with a fault, nor within HOLD of one; healthy once it was good that long."""
    marks: dict[str, Mark] = {}
    now, last_fault = 0.0, None
    for step, good in looks:
        now += step
        last_fault = last_fault if good else now
        since_good = None if last_fault is None else now - last_fault
        marks = damped(marks, {"a": None if good else "down"}, now)
        healthy = marks["a"].fault is None
        if not good:
            assert not healthy
        if healthy and since_good is not None:
            assert since_good >= HOLD
        assert (due(marks) is not None) == (good and not healthy)


@given(LOOKS)
def test_a_fast_flapping_link_stays_out(looks: list[tuple[float, bool]]) -> None:
    marks, now = damped({}, {"a": "down"}, 0.0), 0.0
    for step, _ in looks:
        now += step
        marks = damped(marks, {"a": None}, now)
        now += 0.01
        marks = damped(marks, {"a": "down"}, now)
        assert marks["a"].fault == "down"
