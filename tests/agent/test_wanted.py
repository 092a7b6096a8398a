"""What is wanted: files that change or break, and other podrails beside the agent."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from podrail.agent.wanted import FromFiles, files, signature
from podrail.cli.shared import read_manifests
from podrail.host.twins import twin
from podrail.model.bundle import read
from podrail.realise.apply import Consent, give_back, intend, realise
from podrail.realise.asked import Asked, kept
from podrail.realise.state import State
from tests.agent.rig import ENP67, ENS2, Rig, policy


def from_files(*paths: Path, **said: object) -> Callable[[State], FromFiles]:
    given = Asked(**said)  # type: ignore[arg-type]
    return lambda state: FromFiles(state.journal, [str(p) for p in paths], given, read_manifests)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    place = tmp_path / "policy.yaml"
    place.write_text(policy())
    return place


def rewrite(file: Path, text: str) -> None:
    """As editors and `kubectl` do it: a new file in its place."""
    new = file.with_suffix(".new")
    new.write_text(text)
    new.rename(file)


def made(tmp_path: Path, *paths: Path, **said: object) -> Rig:
    return Rig(twin("igb"), tmp_path / "state", source=from_files(*paths, **said)).begin()


# --- files --------------------------------------------------------------------------------------


def test_a_changed_manifest_is_followed(tmp_path: Path, file: Path) -> None:
    rig = made(tmp_path, file)
    assert rig.turn(2.0) == []
    rewrite(file, policy(vfs=6))
    said = rig.turn(2.0)
    assert said[0] == f"now wanted: {file}"
    assert rig.read("sriov_numvfs") == "6"


def test_a_pf_that_left_the_manifest_is_given_back(tmp_path: Path, file: Path) -> None:
    rig = made(tmp_path, file)
    rewrite(file, policy(pfs="enp67s0"))
    said = rig.turn(2.0)
    assert "ens2: given back as it was found" in said
    assert (rig.read("sriov_numvfs"), rig.read("net/ens2/mtu")) == ("0", "1500")
    assert rig.read("sriov_numvfs", ENP67) == "4"
    assert not rig.state.journal.seen(ENS2)


def test_a_pf_without_driver_is_given_back_when_it_has_one(tmp_path: Path, file: Path) -> None:
    rig = made(tmp_path, file)
    rig.host.write("/sys/bus/pci/drivers/igb/unbind", ENS2)
    rewrite(file, policy(pfs="enp67s0"))
    assert not any("given back" in line or "failed" in line for line in rig.turn(2.0))
    assert rig.state.journal.seen(ENS2)
    rig.host.write("/sys/bus/pci/drivers/igb/bind", ENS2)
    assert "ens2: given back as it was found" in rig.turn(2.0)
    assert not rig.state.journal.seen(ENS2)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param("kind: [", "policy.yaml", id="no-yaml"),
        pytest.param(policy().replace("numVfs: 4", "numVfs: many"), "numVfs", id="bad-value"),
        pytest.param("", "no object", id="empty"),
    ],
)
def test_a_broken_manifest_keeps_the_last_good_one(
    tmp_path: Path, file: Path, text: str, says: str
) -> None:
    rig = made(tmp_path, file)
    rewrite(file, text)
    said = rig.turn(2.0)
    assert len(said) == 1
    assert says in said[0]
    assert "stays in force" in said[0]
    rig.write("sriov_numvfs", "0")
    assert "mended" in rig.turn()[-1]
    assert rig.turn(300.0) == []
    rewrite(file, policy(vfs=3))
    rig.turn(2.0)
    assert rig.read("sriov_numvfs") == "3"


def test_a_manifest_that_is_gone_keeps_the_last_good_one(tmp_path: Path, file: Path) -> None:
    rig = made(tmp_path, file)
    file.unlink()
    assert "cannot read" in rig.turn(2.0)[0]
    assert rig.turn(300.0) == []
    assert rig.read("sriov_numvfs") == "4"


def test_an_emptied_directory_keeps_the_last_good_manifests(tmp_path: Path) -> None:
    folder = tmp_path / "wanted"
    folder.mkdir()
    (folder / "a.yaml").write_text(policy())
    rig = made(tmp_path, folder)
    (folder / "b.yaml").write_text(policy("rail-b", pfs="enp67s0"))
    rig.turn(2.0)
    assert rig.read("sriov_numvfs", ENP67) == "4"
    for name in ("a.yaml", "b.yaml"):
        (folder / name).unlink()
    assert "no manifest in" in rig.turn(2.0)[0]
    assert (rig.read("sriov_numvfs"), rig.read("sriov_numvfs", ENP67)) == ("4", "4")


def test_an_empty_list_wants_nothing(tmp_path: Path, file: Path) -> None:
    rig = made(tmp_path, file)
    rewrite(file, "apiVersion: v1\nkind: List\nitems: []\n")
    assert "ens2: given back as it was found" in rig.turn(2.0)
    assert rig.read("sriov_numvfs") == "0"


def test_a_broken_manifest_at_the_start_means_what_was_good_before(
    tmp_path: Path, file: Path
) -> None:
    rig = made(tmp_path, file)
    rig.close()
    rewrite(file, "kind: [")
    again = Rig(rig.host, tmp_path / "state", source=from_files(file)).begin()
    again.write("sriov_numvfs", "0")
    again.turn()
    assert again.read("sriov_numvfs") == "4"


def test_a_broken_manifest_and_nothing_before_does_nothing(tmp_path: Path, file: Path) -> None:
    rewrite(file, "kind: [")
    rig = Rig(twin("igb"), tmp_path / "state", source=from_files(file))
    rig.loop.full()
    assert rig.told.lines()[0].endswith("until then nothing is done")
    assert rig.read("sriov_numvfs") == "0"
    rewrite(file, policy())
    rig.turn(2.0)
    assert rig.read("sriov_numvfs") == "4"


def test_status_knows_what_the_files_want(tmp_path: Path, file: Path) -> None:
    rig = made(tmp_path, file, labels=(("pool", "gpu"),), management=frozenset({"ens2"}))
    found = kept(rig.state.journal)
    assert found.manifests == ((str(file), policy()),)
    assert (found.labels, found.management) == ((("pool", "gpu"),), frozenset({"ens2"}))


def test_a_mounted_config_map_is_read_once(tmp_path: Path) -> None:
    """kubelet writes `..2026_x/`, the link `..data` to it, and links to the files in there."""
    real = tmp_path / "..2026_x"
    real.mkdir()
    (real / "policy.yaml").write_text(policy())
    (tmp_path / "..data").symlink_to("..2026_x")
    (tmp_path / "policy.yaml").symlink_to("..data/policy.yaml")
    assert files([str(tmp_path)]) == [str(tmp_path / "policy.yaml")]
    before = signature(files([str(tmp_path)]))
    new = tmp_path / "..2026_y"
    new.mkdir()
    (new / "policy.yaml").write_text(policy())
    (tmp_path / "..tmp").symlink_to("..2026_y")
    os.replace(tmp_path / "..tmp", tmp_path / "..data")
    assert signature(files([str(tmp_path)])) != before


# --- another podrail ----------------------------------------------------------------------------


def apply(rig: Rig, place: Path, text: str) -> None:
    """What `podrail apply` does, in another process."""
    with State(str(place)) as other, other.working():
        intent = intend(rig.host, read([("p", text)]), other.journal, {}, Consent())
        other.journal.want([("p.yaml", text)], labels="", prefix="", management="")
        realise(rig.host, other, intent)


def reset(rig: Rig, place: Path) -> None:
    """What `podrail reset` does."""
    with State(str(place)) as other, other.working():
        other.journal.want(())
        give_back(rig.host, other)


def test_apply_beside_it_is_seen_and_no_drift(rig: Rig, tmp_path: Path) -> None:
    apply(rig, tmp_path, policy(vfs=2))
    assert rig.turn(2.0) == ["now wanted: p.yaml"]
    rig.write("sriov_numvfs", "0")
    assert rig.turn()[0] == "ens2: numVfs is 0, wanted 2 (policy rail-a)"


def test_apply_is_seen_without_any_event(rig: Rig, tmp_path: Path) -> None:
    with State(str(tmp_path)) as other:
        other.journal.want([("q.yaml", policy(vfs=5))])
    assert rig.turn(2.0)[0] == "now wanted: q.yaml"
    assert rig.read("sriov_numvfs") == "5"


def test_reset_beside_it_is_not_mended(rig: Rig, tmp_path: Path) -> None:
    reset(rig, tmp_path)
    assert rig.turn(2.0) == ["now wanted: nothing"]
    assert (rig.read("sriov_numvfs"), rig.read("net/ens2/mtu")) == ("0", "1500")
    assert rig.turn(300.0) == []
    assert rig.keeper.kept == {}


def test_files_rule_over_another_podrail(tmp_path: Path, file: Path) -> None:
    rig = made(tmp_path, file)
    reset(rig, tmp_path / "state")
    assert "as -f says; another podrail wanted something else" in rig.turn(2.0)[0]
    assert rig.read("sriov_numvfs") == "4"


def test_what_could_not_be_reset_is_given_back_when_it_can(rig: Rig, tmp_path: Path) -> None:
    rig.hold("0000:81:10.0")
    reset(rig, tmp_path)
    assert rig.read("sriov_numvfs") == "4"
    assert any("failed" in line for line in rig.turn(2.0))
    rig.let_go()
    assert "ens2: given back as it was found" in rig.turn(300.0)
    assert rig.read("sriov_numvfs") == "0"


def test_a_node_label_decides(tmp_path: Path) -> None:
    text = policy().replace("nodeSelector: {}", "nodeSelector: {pool: gpu}")
    rig = Rig(twin("igb"), tmp_path)
    rig.state.journal.want([("p.yaml", text)], labels="pool=gpu")
    rig.loop.full()
    assert rig.read("sriov_numvfs") == "4"
