"""The CPU's governor and the runtime's locked memory."""

from __future__ import annotations

import pytest

from podrail.host.open import open_host
from podrail.host.seam import Ran, exists
from podrail.host.twin import TwinHost
from podrail.realise.kinds.memlock import TEXT, drop_in
from podrail.realise.step import MACHINE, Step, kind_of
from tests.realise.tuned import (
    GOVERNOR,
    STEPS,
    done,
    refused,
    roce_cx6,
)


@pytest.fixture
def host() -> TwinHost:
    return roce_cx6()


def test_governors_that_differed_differ_again(host: TwinHost) -> None:
    host.write(GOVERNOR.format(1), "powersave")
    step = Step("governor", MACHINE, "performance")
    was = done(host, step)
    assert kind_of(step).says(was) == "performance (1 of 2), powersave (1 of 2)"
    kind_of(step).undo(host, step, was)
    assert [host.text(GOVERNOR.format(p)) for p in (0, 1)] == ["performance", "powersave"]


def test_a_policy_that_went_offline_is_no_obstacle(host: TwinHost) -> None:
    step = STEPS[7]
    was = done(host, step)
    host.remove("/sys/devices/system/cpu/cpufreq/policy1")
    kind_of(step).undo(host, step, was)
    assert host.text(GOVERNOR.format(0)) == "performance"


def test_a_governor_the_driver_lacks(host: TwinHost) -> None:
    no = refused(host, Step("governor", MACHINE, "schedutil"))
    assert "performance, powersave" in no.reason


def test_a_virtual_machine_has_no_governor() -> None:
    host = open_host("twin:igb")
    assert isinstance(host, TwinHost)
    assert "cpufreq" in refused(host, STEPS[7]).reason


def test_only_runtimes_with_a_limit_get_a_drop_in(host: TwinHost) -> None:
    was = done(host, STEPS[8])
    assert was == {"kubelet": None}
    assert host.read(drop_in("kubelet")) == TEXT
    assert not exists(host, drop_in("crio"))


def test_a_restart_is_told_and_never_done(host: TwinHost) -> None:
    kind = kind_of(STEPS[8])
    assert kind.pending(host, STEPS[8]) is None
    done(host, STEPS[8])
    told_ = kind.pending(host, STEPS[8])
    assert told_ is not None
    assert "systemctl restart kubelet" in told_
    pid = next(p.pid for p in host.machine.processes if p.comm == "kubelet") if host.machine else 0
    host.put(f"/proc/{pid}/limits", "Max locked memory         unlimited  unlimited  bytes\n")
    assert kind.pending(host, STEPS[8]) is None


def test_a_drop_in_that_comes_later_wins_and_is_told(host: TwinHost) -> None:
    host.place("/etc/systemd/system/kubelet.service.d/90-x.conf", "[Service]\nLimitMEMLOCK=64\n")
    no = refused(host, STEPS[8])
    assert "kubelet" in no.reason
    assert "systemctl cat kubelet" in no.fix


def test_a_machine_without_a_runtime() -> None:
    host = open_host("twin:igb")
    assert isinstance(host, TwinHost)
    assert "containerd" in refused(host, STEPS[8]).reason


def test_a_machine_that_systemd_does_not_run(host: TwinHost) -> None:
    said = "System has not been booted with systemd as init system (PID 1). Can't operate.\n"
    host.put_program(["systemctl"], lambda argv: Ran(tuple(argv), 1, "", said))
    assert "systemd" in refused(host, STEPS[8]).reason


def test_what_lasts() -> None:
    assert [s.kind for s in STEPS if kind_of(s).lasting] == ["memlock"]
