"""Host profiles: nothing tells an event when one is undone, so the slow pass finds it."""

from __future__ import annotations

from pathlib import Path

from podrail.host.twins import twin
from podrail.realise.state import State
from tests.agent.rig import Rig, policy

PF = "0000:9c:00.0"
PROFILE = """\
apiVersion: podrail.io/v1alpha1
kind: HostProfile
metadata: {name: fast}
spec:
  nodeSelector: {}
  nicSelector: {vendor: "15b3", pfNames: [ens8f0]}
  rings: {rx: 8192}
  governor: performance
"""
BOTH = PROFILE + "---\n" + policy(pfs="ens8f0", extra="deviceType: netdevice")


def rings(rig: Rig) -> str:
    return rig.host.run(("ethtool", "-g", "ens8f0")).stdout.split("Current")[1]


def test_a_profile_is_kept(tmp_path: Path) -> None:
    rig = Rig(twin("roce-cx6"), tmp_path, BOTH).begin()
    assert "8192" in rings(rig)
    assert rig.host.run(("ethtool", "-G", "ens8f0", "rx", "1024")).rc == 0
    assert "8192" not in rings(rig)
    assert not any("rings" in line for line in rig.turn(1.0))
    said = rig.turn(300.0)
    assert said[0] == "ens8f0: rings is rx 1024, wanted rx 8192 (profile fast)"
    assert "8192" in rings(rig)


def test_a_profile_nobody_wants_any_more_is_given_back(tmp_path: Path) -> None:
    rig = Rig(twin("roce-cx6"), tmp_path, BOTH).begin()
    with State(str(tmp_path)) as other:
        other.journal.want([("p.yaml", policy(pfs="ens8f0", extra="deviceType: netdevice"))])
    said = rig.turn(2.0)
    assert "ens8f0: given back as it was found" in said
    assert "8192" not in rings(rig)
    assert rig.read("sriov_numvfs", PF) == "4"
    assert list(rig.keeper.kept) == [PF]


def test_a_nic_that_went_away_takes_its_profile_along_silently(tmp_path: Path) -> None:
    rig = Rig(twin("roce-cx6"), tmp_path, BOTH).begin()
    nic = rig.unplug(PF)
    assert [line for line in rig.turn() if "rings" in line] == []
    rig.plug(nic)
    rig.turn()
    assert "8192" in rings(rig)
    assert rig.read("sriov_numvfs", PF) == "4"
