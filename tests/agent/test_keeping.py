"""What an agent must not do: run in circles, fight, change things by starting or stopping."""

from __future__ import annotations

import errno
import os
import signal
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from podrail.agent.loop import Agent
from podrail.agent.notify import Notifier
from podrail.agent.reports import Report
from podrail.agent.signals import Signals
from podrail.agent.wanted import FromJournal
from podrail.host.twin import TwinHost
from podrail.host.twins import consequences, twin
from podrail.model.errors import Refused
from podrail.realise.apply import Intent, Refusal, intend
from podrail.realise.asked import Asked
from podrail.realise.state import State
from tests.agent.rig import ENP67, ENS2, Rig, Told, policy, tree

NUMVFS = f"/sys/bus/pci/devices/{ENS2}/sriov_numvfs"


def passes(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """When full passes ran from here on."""
    found: list[float] = []
    real = rig.keeper.full

    def full() -> None:
        found.append(rig.clock.now)
        real()

    monkeypatch.setattr(rig.keeper, "full", full)
    return found


def broken(rig: Rig) -> None:
    """The card answers no write of sriov_numvfs any more, and has lost its VFs."""
    rig.write("sriov_numvfs", "0")
    consequences.refuse(rig.host, NUMVFS, errno.EIO)


# --- circles ------------------------------------------------------------------------------------


def test_its_own_events_are_no_news(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = passes(rig, monkeypatch)
    rig.write("sriov_numvfs", "0")
    rig.turn()
    assert len(ran) == 1
    assert rig.watch.wait(0) == ()
    assert [rig.turn(0.3) for _ in range(20)] == [[]] * 20
    assert len(ran) == 1


def test_late_events_of_its_own_work_cost_a_glance_only(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = passes(rig, monkeypatch)
    for vf in rig.host.functions[ENS2].vfs:
        rig.host.uevent("move", f"{vf.path}/net/{vf.netdev}", "net", str(vf.netdev))
    assert (rig.turn(), ran) == ([], [])


def test_a_nic_plugged_in_while_a_pass_runs_is_not_missed(tmp_path: Path) -> None:
    rig = Rig(twin("igb"), tmp_path, policy(pfs="ens2, enp67s0"))
    nic = rig.unplug(ENP67)
    rig.begin()
    rig.write("sriov_numvfs", "0")
    real = rig.keeper._learn

    def learn(*given: object) -> None:
        real(*given)  # type: ignore[arg-type]
        if nic.address not in rig.host.functions:
            rig.plug(nic)

    rig.keeper._learn = learn  # type: ignore[method-assign, assignment]
    rig.turn()
    rig.turn()
    assert rig.read("sriov_numvfs", ENP67) == "4"


def test_a_fight_is_said_and_slows_down(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    ran, said = passes(rig, monkeypatch), []
    for _ in range(600):
        rig.ip("link", "set", "dev", "ens2", "mtu", "1500")
        said += rig.turn(0.5)
    assert any("somebody else sets it" in line for line in said)
    gaps = [after - before for before, after in pairwise(ran)]
    assert gaps[0] <= 0.5
    assert gaps == sorted(gaps)
    assert len(ran) < 15


# --- what fails ---------------------------------------------------------------------------------


def test_a_failing_pf_is_tried_later_and_later(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = passes(rig, monkeypatch)
    broken(rig)
    said = rig.turn()
    assert said[0] == "ens2: numVfs is 0, wanted 4 (policy rail-a)"
    assert said[1].startswith("ens2: failed: the card does not answer")
    tries = [rig.run()]
    for _ in range(4000):
        assert rig.turn(0.5) == []
        if rig.run() != tries[-1]:
            tries.append(rig.run())
    assert 10 < len(tries) < 17  # 1, 2, 4 … 256 s, then every 300 s: 2000 s in all
    assert len(ran) < 25


def test_it_is_mended_when_the_card_answers_again(rig: Rig) -> None:
    broken(rig)
    rig.turn()
    for _ in range(5):
        rig.turn(40.0)
    consequences.refuse(rig.host, NUMVFS, None)
    for _ in range(10):
        if said := rig.turn(40.0):
            break
    assert said[-1].startswith("ens2: numVfs was 0, wanted 4 (policy rail-a); mended in ")
    assert rig.read("sriov_numvfs") == "4"


def test_a_change_of_its_own_state_is_tried_at_once(rig: Rig) -> None:
    broken(rig)
    rig.turn()
    rig.turn(1.0)
    before = rig.run()
    consequences.refuse(rig.host, NUMVFS, None)
    rig.ip("link", "set", "dev", "ens2", "down")
    rig.turn(1.0)
    assert rig.run() > before
    assert rig.read("sriov_numvfs") == "4"


def test_events_alone_do_not_hurry_what_fails(rig: Rig) -> None:
    broken(rig)
    rig.turn()
    first = rig.run()
    for n in range(40):
        rig.ip("link", "set", "dev", "ens2", "mtu", str(9001 + n))
        rig.turn(0.01)
    assert rig.run() == first


def test_one_failing_pf_holds_no_other(tmp_path: Path) -> None:
    rig = Rig(twin("igb"), tmp_path, policy(pfs="ens2, enp67s0")).begin()
    broken(rig)
    rig.write("sriov_numvfs", "0", ENP67)
    rig.turn()
    assert (rig.read("sriov_numvfs"), rig.read("sriov_numvfs", ENP67)) == ("0", "4")


def test_work_on_another_pf_does_not_hurry_it(tmp_path: Path) -> None:
    rig = Rig(twin("igb"), tmp_path, policy(pfs="ens2, enp67s0")).begin()
    broken(rig)
    rig.turn()
    for _ in range(8):
        rig.turn(64.0)
    before = rig.run()
    rig.write("sriov_numvfs", "0", ENP67)
    rig.turn(1.0)
    assert rig.read("sriov_numvfs", ENP67) == "4"
    assert rig.run() == before


def test_other_manifests_are_tried_at_once(rig: Rig) -> None:
    broken(rig)
    rig.turn()
    for _ in range(8):
        rig.turn(64.0)
    before = rig.run()
    while rig.run() == before:  # the next attempt is far away now
        rig.turn(1.0)
    before = rig.run()
    rig.want(policy(vfs=3))
    rig.keeper.source._version = -1  # another process wrote it
    rig.turn(2.0)
    assert rig.run() > before


def test_what_can_never_be_is_not_tried_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig(twin("igb"), tmp_path, policy(vfs=8)).begin()  # igb makes seven at most
    ran = passes(rig, monkeypatch)
    assert [rig.turn(2.0) for _ in range(300)] == [[]] * 300
    assert len(ran) == 2  # every 300 s


def test_what_waits_for_a_reboot_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def waiting(*given: object) -> Intent:
        found = intend(*given)  # type: ignore[arg-type]
        return replace(found, jobs=(), waiting=(Refusal(ENS2, "ens2", "no IOMMU", "reboot"),))

    monkeypatch.setattr("podrail.agent.keeper.intend", waiting)
    rig = Rig(twin("igb"), tmp_path, policy())
    rig.loop.full()
    assert rig.told.lines()[-1] == "ens2: refused: no IOMMU; next: reboot"
    assert [rig.turn(300.0) for _ in range(3)] == [[]] * 3
    assert rig.read("sriov_numvfs") == "0"


def test_a_machine_that_lets_nobody_write_is_said_once(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = passes(rig, monkeypatch)
    rig.write("sriov_numvfs", "0")
    consequences.refuse(rig.host, "/sys", errno.EROFS)
    said = rig.turn()
    assert "refused: nothing was changed" in said[-1]
    assert [rig.turn(0.1) for _ in range(640)] == [[]] * 640
    assert len(ran) == 7  # at once, then after 1, 2, 4, 8, 16 and 32 s
    consequences.refuse(rig.host, "/sys", None)
    rig.turn(300.0)
    assert rig.read("sriov_numvfs") == "4"


def test_it_does_nothing_beside_the_upstream_daemon(rig: Rig) -> None:
    rig.host.put("/proc/77/comm", "sriov-network-c\n")
    rig.write("sriov_numvfs", "0")
    assert "its config daemon runs (pid 77)" in rig.turn()[-1]
    assert rig.read("sriov_numvfs") == "0"
    rig.host.remove("/proc/77")
    rig.turn(300.0)
    assert rig.read("sriov_numvfs") == "4"


def test_a_full_disk_is_said_and_outlived(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise Refused("the journal cannot be written (database or disk is full): make room")

    rig.write("sriov_numvfs", "0")
    with monkeypatch.context() as patch:
        patch.setattr(type(rig.state.journal), "open_run", full)
        assert "disk is full" in rig.turn()[-1]
    rig.turn(2.0)
    assert rig.read("sriov_numvfs") == "4"


# --- starting and stopping ----------------------------------------------------------------------


class Turns(Notifier):
    """Stops an agent after two turns."""

    def __init__(self, signals: Signals) -> None:
        super().__init__({})
        self.signals, self.turns = signals, 0

    def alive(self) -> None:
        self.turns += 1
        self.signals.stop = self.turns >= 2


def run_around(host: TwinHost, state: State) -> list[Report]:
    """A whole agent: starts, turns twice, is told to stop."""
    told, signals = Told(state), Signals()
    source = FromJournal(state.journal, Asked())
    assert Agent(host, state, source, told, signals, notifier=Turns(signals)).run() == 0
    return told.reports


def test_a_restart_changes_nothing(rig: Rig) -> None:
    rig.watch.close()
    before = tree(rig.host)
    said = [run_around(rig.host, rig.state) for _ in range(2)]
    assert [[r.event for r in reports] for reports in said] == [["ready", "stopping"]] * 2
    assert tree(rig.host) == before


def test_a_restart_with_a_held_vf_changes_nothing(rig: Rig) -> None:
    rig.hold("0000:81:10.0")
    rig.watch.close()
    before = tree(rig.host)
    run_around(rig.host, rig.state)
    assert tree(rig.host) == before


def test_an_agent_that_was_killed_is_finished_by_the_next(tmp_path: Path) -> None:
    class Killed(BaseException):
        pass

    points: list[str] = []

    def die(point: str) -> None:
        points.append(point)
        if point == f"after {ENS2} step 2":
            raise Killed

    host, state = twin("igb"), State(str(tmp_path), at_point=die)
    state.journal.want([("p.yaml", policy())])
    told = Told(state)
    agent = Agent(host, state, FromJournal(state.journal, Asked()), told, Signals())
    with pytest.raises(Killed):
        agent.run()
    state.close()
    rig = Rig(host, tmp_path)
    rig.loop.full()
    assert "an earlier podrail was interrupted" in rig.told.lines()[0]
    assert (rig.read("sriov_numvfs"), rig.read("net/ens2/mtu")) == ("4", "9000")


def test_a_stop_in_the_middle_of_work(tmp_path: Path) -> None:
    """On a twin the work is done by the agent itself; the next one finishes it."""

    def stop(point: str) -> None:
        if point == f"after {ENS2} step 2" and not stopped:
            stopped.append(point)
            os.kill(os.getpid(), signal.SIGTERM)

    stopped: list[str] = []
    host, state = twin("igb"), State(str(tmp_path), at_point=stop)
    state.journal.want([("p.yaml", policy())])
    told = Told(state)
    with Signals() as signals:
        source = FromJournal(state.journal, Asked())
        agent = Agent(host, state, source, told, signals, notifier=Turns(signals))
        assert agent.run() == 0
    assert stopped
    assert [report.event for report in told.reports][-1] == "stopping"
    assert state.journal.unfinished()
    state.close()
    rig = Rig(host, tmp_path)
    rig.loop.full()
    assert not rig.state.journal.unfinished()
    assert (rig.read("sriov_numvfs"), rig.read("net/ens2/mtu")) == ("4", "9000")


def stopped_twice(signals: Signals) -> None:
    with signals.working():
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        except KeyboardInterrupt:
            os.kill(os.getpid(), signal.SIGTERM)  # raises nothing
            raise


def test_a_second_signal_does_not_cut_short_the_way_back() -> None:
    with Signals() as signals:
        with pytest.raises(KeyboardInterrupt):
            stopped_twice(signals)
        assert signals.stop
        with pytest.raises(KeyboardInterrupt), signals.working():
            raise AssertionError("no work begins after a stop")


def test_two_agents_are_one_too_many(rig: Rig, tmp_path: Path) -> None:
    with State(str(tmp_path)) as other, rig.state.agent():
        agent = Agent(rig.host, other, FromJournal(other.journal, Asked()), Told(other), Signals())
        with pytest.raises(Refused, match=r"another agent \(pid [0-9]+\)"):
            agent.run()
