"""Each way a machine drifts: noticed by its event, said with actual and wanted, mended."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from podrail.host.seam import LOST, Event
from podrail.host.twins import consequences, twin
from podrail.host.twins.scale import scaled
from tests.agent.rig import ENP67, ENS2, Rig, policy

VF1 = "0000:81:10.2"


def test_the_first_pass_makes_it_so(tmp_path: Path) -> None:
    rig = Rig(twin("igb"), tmp_path, policy())
    rig.loop.full()
    assert (rig.read("sriov_numvfs"), rig.read("net/ens2/mtu")) == ("4", "9000")
    assert rig.told.lines()[0] == "ens2: numVfs is 0, wanted 4 (policy rail-a)"


def test_nothing_happened_nothing_is_done(rig: Rig) -> None:
    run = rig.run()
    assert [rig.turn(100.0) for _ in range(9)] == [[]] * 9
    assert rig.run() == run


def test_numvfs_written_by_somebody(rig: Rig) -> None:
    rig.write("sriov_numvfs", "0")
    rig.write("sriov_numvfs", "2")
    said = rig.turn()
    assert said[0] == "ens2: numVfs is 2, wanted 4 (policy rail-a)"
    assert said[-1] == "ens2: numVfs was 2, wanted 4 (policy rail-a); mended in 0.0 s"
    assert (rig.read("sriov_numvfs"), rig.read("net/ens2v3/mtu", "0000:81:10.6")) == ("4", "9000")


def test_a_vf_unbound(rig: Rig) -> None:
    rig.host.write("/sys/bus/pci/drivers/igbvf/unbind", VF1)
    said = rig.turn()
    assert said[0] == "ens2: driver of vf 1 is none, wanted netdevice (policy rail-a)"
    assert rig.host.readlink(f"/sys/bus/pci/devices/{VF1}/driver").endswith("/igbvf")
    assert rig.read("net/ens2v1/mtu", VF1) == "9000"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        pytest.param(("ens2", "mtu", "1500"), "mtu is 1500, wanted 9000", id="pf-mtu"),
        pytest.param(("ens2v2", "mtu", "1400"), "MTU of vf 2 is 1400, wanted 9000", id="vf-mtu"),
        pytest.param(("ens2", "down"), "link is down, wanted up", id="pf-down"),
    ],
)
def test_a_link_changed(rig: Rig, words: tuple[str, ...], says: str) -> None:
    rig.ip("link", "set", "dev", *words)
    said = rig.turn()
    assert said[0] == f"ens2: {says} (policy rail-a)"
    assert "mended" in said[-1]
    assert (rig.read("net/ens2/mtu"), rig.read("net/ens2v2/mtu", "0000:81:10.4")) == ("9000",) * 2
    assert int(rig.read("net/ens2/flags"), 16) & 1


def test_a_larger_pf_mtu_harms_nobody(rig: Rig) -> None:
    rig.ip("link", "set", "dev", "ens2", "mtu", "9100")
    assert rig.turn() == []
    assert rig.read("net/ens2/mtu") == "9100"


def test_a_nic_pulled_out_and_put_back(rig: Rig) -> None:
    nic = rig.unplug()
    assert rig.turn() == ["ens2: PF is gone, wanted on the PCI bus (policy rail-a)"]
    assert rig.turn(60.0) == []
    assert rig.state.journal.seen(ENS2)  # what was found at first sight is not lost with the NIC
    rig.plug(nic)
    said = rig.turn()
    assert "ens2: PF was gone, wanted on the PCI bus (policy rail-a); mended in 60.0 s" in said
    assert "ens2: numVfs is 0, wanted 4 (policy rail-a)" in said
    assert (rig.read("sriov_numvfs"), rig.read("net/ens2/mtu")) == ("4", "9000")


def test_a_pf_that_lost_its_driver_and_got_it_back(rig: Rig) -> None:
    rig.host.write("/sys/bus/pci/drivers/igb/unbind", ENS2)
    said = rig.turn()
    assert any("ens2: numVfs is 0, wanted 4" in line for line in said)
    assert "ens2: PF driver is none, wanted its own (policy rail-a)" in said
    assert not any("given back" in line for line in said)
    rig.host.write("/sys/bus/pci/drivers/igb/bind", ENS2)
    rig.turn()
    assert (rig.read("sriov_numvfs"), rig.read("net/ens2/mtu")) == ("4", "9000")


def test_a_renamed_pf_keeps_its_vfs(rig: Rig) -> None:
    rig.ip("link", "set", "dev", "ens2", "name", "mine0")
    rig.ip("link", "set", "dev", "mine0", "mtu", "1500")
    said = rig.turn()
    assert said[-1] == "ens2: PF name is mine0, wanted ens2 (policy rail-a)"
    assert rig.read("sriov_numvfs") == "4"
    rig.ip("link", "set", "dev", "mine0", "name", "ens2")
    rig.turn()
    assert rig.read("net/ens2/mtu") == "9000"


def test_a_hot_plugged_nic_joins(tmp_path: Path) -> None:
    host = twin("igb")
    rig = Rig(host, tmp_path, policy(pfs="ens2, enp67s0"))
    nic = rig.unplug(ENP67)
    rig.begin()
    assert set(rig.keeper.kept) == {ENS2}
    rig.plug(nic)
    said = rig.turn()
    assert said[0] == "enp67s0: numVfs is 0, wanted 4 (policy rail-a)"
    assert rig.read("sriov_numvfs", ENP67) == "4"


def test_a_nic_nobody_wants_is_left_alone(tmp_path: Path) -> None:
    rig = Rig(twin("igb"), tmp_path, policy()).begin()
    rig.plug(rig.unplug(ENP67))
    rig.write("sriov_numvfs", "3", ENP67)
    assert rig.turn() == []
    assert rig.read("sriov_numvfs", ENP67) == "3"


def test_lost_events_make_it_look_at_everything(rig: Rig) -> None:
    rig.host.put(f"{rig.host.functions[ENS2].path}/net/ens2/mtu", "1500\n")  # nobody told
    assert rig.turn() == []
    rig.host.emit(LOST)
    assert rig.turn()[0] == "ens2: mtu is 1500, wanted 9000 (policy rail-a)"


def test_the_slow_pass_finds_what_no_event_told(rig: Rig) -> None:
    rig.host.put(f"{rig.host.functions[ENS2].path}/net/ens2/mtu", "1500\n")
    assert rig.turn(299.0) == []
    assert rig.turn(1.0)[0] == "ens2: mtu is 1500, wanted 9000 (policy rail-a)"
    assert rig.read("net/ens2/mtu") == "9000"


def test_a_hangup_asks_for_a_pass(rig: Rig) -> None:
    rig.host.put(f"{rig.host.functions[ENS2].path}/net/ens2/mtu", "1500\n")
    rig.signals._on_hangup(1, None)
    assert len(rig.turn()) == 2


# --- held VFs -----------------------------------------------------------------------------------


def test_a_held_vf_is_reported_once_and_left_alone(rig: Rig) -> None:
    rig.hold(VF1)
    rig.host.write("/sys/bus/pci/drivers/igbvf/unbind", VF1)
    said = rig.turn()
    assert said[0] == "ens2: driver of vf 1 is none, wanted netdevice (policy rail-a)"
    assert said[1].startswith("ens2: refused:")
    assert "pod p1" in said[1]
    for _ in range(6):
        rig.ip("link", "set", "dev", "ens2v0", "up")
        rig.ip("link", "set", "dev", "ens2v0", "down")
        assert rig.turn(7.0) == []
    with pytest.raises(FileNotFoundError):
        rig.host.readlink(f"/sys/bus/pci/devices/{VF1}/driver")


def test_a_vf_let_go_is_mended(rig: Rig) -> None:
    rig.hold(VF1)
    rig.host.write("/sys/bus/pci/drivers/igbvf/unbind", VF1)
    rig.turn()
    for _ in range(4):
        rig.turn(100.0)
    rig.let_go()
    rig.ip("link", "set", "dev", "ens2v0", "up")  # whatever event the end of a pod brings
    assert "mended" in rig.turn()[-1]
    assert rig.host.readlink(f"/sys/bus/pci/devices/{VF1}/driver").endswith("/igbvf")


def test_a_vf_let_go_without_any_event_is_mended(rig: Rig) -> None:
    rig.hold(VF1)
    rig.host.write("/sys/bus/pci/drivers/igbvf/unbind", VF1)
    rig.turn()
    rig.let_go()
    assert "mended" in rig.turn(1.0)[-1]


def test_a_pf_held_from_the_start_says_what_differs(tmp_path: Path) -> None:
    host = twin("igb")
    host.write(f"/sys/bus/pci/devices/{ENS2}/sriov_numvfs", "2")
    rig = Rig(host, tmp_path, policy())
    rig.hold("0000:81:10.0")
    rig.loop.full()
    said = rig.told.lines()
    assert "ens2: numVfs is 2, wanted 4 (policy rail-a)" in said
    assert said[-1].startswith("ens2: refused: ")
    assert host.read(f"/sys/bus/pci/devices/{ENS2}/sriov_numvfs") == "2\n"


def test_one_held_pf_holds_no_other(tmp_path: Path) -> None:
    rig = Rig(twin("igb"), tmp_path, policy(pfs="ens2, enp67s0")).begin()
    rig.hold(VF1)
    rig.host.write("/sys/bus/pci/drivers/igbvf/unbind", VF1)
    rig.write("sriov_numvfs", "0", ENP67)
    said = rig.turn()
    assert any(line.startswith("ens2: refused") for line in said)
    assert rig.read("sriov_numvfs", ENP67) == "4"


# --- many ---------------------------------------------------------------------------------------


def test_one_of_many_drifts_and_only_it_is_touched(tmp_path: Path) -> None:
    pfs = ", ".join(f"ens{n}f0" for n in range(1, 5))
    rig = Rig(scaled(4, 8), tmp_path, policy(vfs=8, pfs=pfs, extra="mtu: 1500")).begin()
    rig.host.write("/sys/class/net/ens3f0/device/sriov_numvfs", "0")
    said = rig.turn()
    assert {line.split(":")[0] for line in said} == {"ens3f0"}
    assert rig.host.read("/sys/class/net/ens3f0/device/sriov_numvfs") == "8\n"


def test_a_storm_of_veths_costs_no_look(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[set[str]] = []
    monkeypatch.setattr(rig.keeper, "touched", looks.append)
    for n in range(2000):
        rig.host.emit(Event("link", "new", name=f"veth{n}", subsystem="net"))
        path = f"/sys/devices/virtual/net/veth{n}"
        rig.host.emit(Event("uevent", "add", path, f"veth{n}", "net"))
    assert (rig.turn(), looks) == ([], [])


def test_history_is_in_the_journal(rig: Rig) -> None:
    rig.ip("link", "set", "dev", "ens2", "down")
    rig.turn()
    notes = [note for note in rig.state.journal.notes() if note.subject == ENS2]
    assert notes[-2].text == "ens2: link is down, wanted up (policy rail-a)"


def test_json_lines(rig: Rig) -> None:
    rig.told._json = True
    rig.ip("link", "set", "dev", "ens2", "down")
    rig.turn()
    out = rig.told._to
    assert out is not None
    out.seek(0)
    drift, mended = [json.loads(line) for line in out.read().splitlines() if line[0] == "{"]
    assert (drift["event"], drift["node"], drift["pf"], drift["name"]) == (
        "drift", "node1", ENS2, "ens2",
    )  # fmt: skip
    assert (drift["what"], drift["actual"], drift["wanted"]) == ("link", "down", "up")
    assert (mended["event"], mended["seconds"]) == ("mended", 0.0)


def test_a_driver_taken_for_good_is_said_once(rig: Rig) -> None:
    consequences.change(rig.host, f"/sys/bus/pci/devices/{ENS2}/driver", None)
    assert rig.turn()
    assert [rig.turn(400.0) for _ in range(3)] == [[]] * 3


def test_a_netdev_that_comes_while_the_pass_still_runs_is_not_missed(rig: Rig) -> None:
    """A NIC that is back on the bus has no name yet; udev gives it one a moment later."""
    rig.unplug()
    rig.turn()
    path = f"/sys/devices/pci0000:80/{ENS2}/net/ens2"
    rig.host.emit(Event("uevent", "add", path, "ens2", "net"))
    rig.keeper._settle()
    assert rig.keeper.due()
