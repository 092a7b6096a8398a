"""What an operator at night must be able to rely on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from podrail.host.twins import twin
from podrail.host.twins.consequences import change
from podrail.model.errors import Refused
from podrail.realise.state import State
from tests.realise.support import Cli, policy, tree

ENS2, ENP67 = "0000:81:00.0", "0000:43:00.0"
CHECKPOINT = "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"


def test_a_refused_reset_does_not_even_take_the_link_down(tmp_path: Path) -> None:
    host = twin("igb")
    cli = Cli(host, tmp_path)
    assert cli("apply", "-f", "-", stdin=policy("p", "ens2", 2)).exit_code == 0
    held = {"PodUID": "u", "ContainerName": "c", "DeviceIDs": {"0": ["0000:81:10.0"]}}
    host.put(CHECKPOINT, json.dumps({"Data": {"PodDeviceEntries": [held]}}))
    before = tree(host)
    result = cli("reset")
    assert result.exit_code == 5
    assert "vf 0 (held by pod u" in result.output
    assert tree(host) == before


def test_first_sight_of_a_run_that_was_undone_is_no_first_sight(tmp_path: Path) -> None:
    host = twin("igb")
    cli = Cli(host, tmp_path)
    host.remove_program(("modprobe",))
    failed = cli("apply", "-f", "-", stdin=policy("p", "ens2", 2, deviceType="vfio-pci"))
    assert failed.exit_code == 5, failed.output
    host.write(f"/sys/bus/pci/devices/{ENS2}/sriov_numvfs", "3")  # somebody else's
    assert cli("apply", "-f", "-", stdin=policy("q", "enp67s0", 2)).exit_code == 0
    assert cli("reset").exit_code == 0
    assert host.read(f"/sys/bus/pci/devices/{ENS2}/sriov_numvfs") == "3\n"


def test_manifests_that_select_nothing_do_not_take_everything_away(tmp_path: Path) -> None:
    host = twin("igb")
    cli = Cli(host, tmp_path)
    assert cli("apply", "-f", "-", stdin=policy("p", "ens2", 2)).exit_code == 0
    before = tree(host)
    result = cli("apply", "-f", "-", stdin=policy("p", "ens22", 2))
    assert (result.exit_code, tree(host) == before) == (5, True)
    assert "If that is meant: podrail reset" in result.output


def test_a_pf_that_is_gone_is_not_as_wanted(tmp_path: Path) -> None:
    host = twin("igb")
    cli = Cli(host, tmp_path)
    assert cli("apply", "-f", "-", stdin=policy("p", "ens2", 2)).exit_code == 0
    change(host, f"/sys/bus/pci/devices/{ENS2}", None)
    told = cli("status")
    assert (told.exit_code, "ens2  0000:81:00.0  gone" in told.output) == (1, True)
    again = cli("apply", "-f", "-", stdin=policy("p", "ens2", 2))
    assert again.exit_code == 1
    assert "gone from the PCI bus" in again.output


def test_a_place_that_is_there_is_left_as_it_is(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    State(str(tmp_path)).close()
    assert tmp_path.stat().st_mode & 0o777 == 0o755
    tmp_path.chmod(0o777)
    with pytest.raises(Refused, match="others may write in"):
        State(str(tmp_path))


def test_status_makes_nothing(tmp_path: Path) -> None:
    cli = Cli(twin("igb"), tmp_path / "none")
    assert cli("status").exit_code == 0
    assert not (tmp_path / "none").exists()


def test_settings_a_machine_does_not_have_stop_it_before_anything_is_touched(
    tmp_path: Path,
) -> None:
    host = twin("igb")
    before = tree(host)
    profile = json.dumps(
        {
            "apiVersion": "podrail.io/v1alpha1", "kind": "HostProfile",
            "metadata": {"name": "t"},
            "spec": {"nicSelector": {"pfNames": ["ens2"]}, "roce": {"trust": "dscp", "dscp": 26,
                                                                  "priority": 3}},
        }
    )  # fmt: skip
    text = "\n---\n".join((policy("p", "ens2", 2), profile))
    result = Cli(host, tmp_path)("apply", "-f", "-", stdin=text)
    assert (result.exit_code, tree(host) == before) == (5, True), result.output
    assert "profile t on ens2 refused" in result.output
