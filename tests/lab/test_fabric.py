"""A real ibsim, a real opensm, the real diags: what the fabric promises, seen from inside it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from podrail.cli.lab_fabric import fabric as cli
from podrail.lab import diags, fabric_programs, fabric_state
from podrail.lab.fabric import Fabric, running, stop
from podrail.lab.topology import FatTree, degrade
from podrail.model.errors import PodrailError, Refused, Unmeasured, UsageError


def _missing() -> str:
    with contextlib.suppress(PodrailError):
        fabric_programs.installed()
        return ""
    return "needs ibsim-utils, opensm and infiniband-diags"


pytestmark = [pytest.mark.lab, pytest.mark.skipif(bool(_missing()), reason=_missing())]

TREE = FatTree(hosts=4, rails=2, leaves=4, spines=2)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        place = tmp_path_factory.mktemp("state")
        patch.setenv("XDG_STATE_HOME", str(place))
        yield place
        assert list(running()) == []


@pytest.fixture(scope="module")
def ib(home: Path) -> Iterator[Fabric]:
    with Fabric.start("shared", TREE, keep=False) as fabric:
        yield fabric


@pytest.fixture
def clean(ib: Fabric) -> Iterator[Fabric]:
    """The shared fabric, mended afterwards."""
    yield ib
    for end in ib.status()["unlinked"]:
        ib.relink(end["node"], end["port"])
    for manager in ib.managers()[1:]:
        ib.sm_stop(manager.host)
    if not ib.managers():
        ib.sm_start()
    ib.settle()


def until(true: Callable[[], object], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it never became true"
        time.sleep(0.02)


def processes(socket: str) -> list[str]:
    """Every process of a fabric carries the name of its socket."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"IBSIM_SOCKNAME={socket}".encode() in (place / "environ").read_bytes():
                found.append((place / "comm").read_text().strip())
    return sorted(found)


def state_of(name: str) -> fabric_state.FabricState:
    state = fabric_state.fabrics.load(name)
    assert state is not None
    return state


# --- discovery --------------------------------------------------------------------------------


def test_what_is_discovered_is_what_was_generated(ib: Fabric) -> None:
    found = diags.ibnetdiscover(ib.run(["ibnetdiscover"]).stdout)
    assert found.wiring() == TREE.net().wiring()
    assert {(n.guid, n.description, n.ports) for n in found.nodes} == {
        (n.guid, n.description, n.ports) for n in ib.net.nodes
    }
    assert {(w.width, w.speed) for n in found.nodes for w in n.wires} == {(4, "HDR")}


def test_each_adapter_sees_itself(ib: Fabric) -> None:
    for host, rail in (("node1", 0), ("node3-rail1", 1)):
        (adapter,) = diags.ibstat(ib.run(["ibstat"], host=host).stdout)
        node = ib.net[ib.adapter(host)]
        assert (adapter.guid, adapter.ports[0].state) == (node.guid, "Active")
        assert node.name.endswith(f"rail{rail}")


def test_hosts_switches_paths_and_counters_are_readable(ib: Fabric) -> None:
    assert len(diags.listed(ib.run(["ibhosts"]).stdout)) == 8
    assert len(diags.listed(ib.run(["ibswitches"]).stdout)) == 6
    assert diags.paths(ib.run(["saquery", "-p"]).stdout)
    lid = diags.ibstat(ib.run(["ibstat"]).stdout)[0].ports[0].lid
    assert diags.perfquery(ib.run(["perfquery", str(lid), "1"]).stdout).lid == lid


def test_a_program_that_does_not_end_is_stopped_and_gives_its_place_back(ib: Fabric) -> None:
    for _ in range(2):
        with pytest.raises(Unmeasured, match=r"ibping at H-node1-rail0 did not end within 0 s"):
            ib.run(["ibping", "-S"], timeout=0.3)
    assert ib.run(["ibstat"]).rc == 0
    assert processes(state_of("shared").socket) == ["ibsim", "opensm"]


def test_unknown_names_are_refused_with_a_hint(ib: Fabric) -> None:
    with pytest.raises(UsageError, match=r"no node 'nod1'; did you mean node1"):
        ib.run(["ibstat"], host="nod1")
    with pytest.raises(UsageError, match="leaf0 is a switch"):
        ib.run(["ibstat"], host="leaf0")
    with pytest.raises(UsageError, match="S-leaf0 port 20 has no cable"):
        ib.unlink("leaf0", 20)
    with pytest.raises(Refused, match="no-such-program is not installed"):
        ib.run(["no-such-program"])


# --- faults -----------------------------------------------------------------------------------


def _link(fabric: Fabric, name: str, port: int) -> diags.LinkInfo:
    end = fabric.net.end(name, port)
    return next(k for k in fabric.links() if (k.guid, k.port) == end)


def test_a_pulled_cable_is_down_until_it_is_put_back(clean: Fabric) -> None:
    assert clean.unlink("leaf0", 1) == [("S-leaf0", 1)]
    assert clean.unlink("node1-rail0") == []
    assert _link(clean, "S-leaf0", 1).state == "Down"
    hosts = diags.listed(clean.run(["ibhosts"], host="node2").stdout)
    assert "node1 mlx5_0" not in {n.description for n in hosts}
    assert clean.relink("node1-rail0") == [("S-leaf0", 1)]
    clean.settle()
    link = _link(clean, "S-leaf0", 1)
    assert (link.state, link.peer) == ("Active", "node1 mlx5_0")
    assert clean.relink("leaf0", 1) == []


def test_a_dead_spine_leaves_the_fabric_in_one_piece(clean: Fabric) -> None:
    assert len(clean.unlink("spine0")) == TREE.leaves
    found = diags.ibnetdiscover(clean.run(["ibnetdiscover"]).stdout)
    assert "spine0" not in {n.description for n in found.nodes}
    assert len(found.nodes) == len(clean.net.nodes) - 1
    assert clean.status()["unlinked"][0] == {"node": "S-spine0", "port": 1}


def test_without_a_subnet_manager_nobody_answers(clean: Fabric) -> None:
    assert clean.sm_stop() == [clean.net.adapters[-1].name]
    ran = clean.run(["sminfo"])
    assert ran.rc
    with pytest.raises(Unmeasured):
        diags.sminfo(ran.stdout)
    assert clean.run(["saquery", "-p"]).rc
    assert clean.sm_start("node2", 5).state == "MASTER"
    assert diags.sminfo(clean.run(["sminfo"]).stdout).priority == 5


def test_two_subnet_managers_are_a_master_and_a_standby(clean: Fabric) -> None:
    (first,) = clean.managers()
    second = clean.sm_double()
    assert (second.state, second.priority) == ("STANDBY", first.priority - 1)
    known = diags.subnet_managers(clean.run(["saquery", "SMIR"]).stdout)
    assert {(m.priority, m.state) for m in known} == {
        (first.priority, "MASTER"),
        (second.priority, "STANDBY"),
    }
    own = diags.sminfo(clean.run(["sminfo", "-D", "0"], host=second.host).stdout)
    assert own.state == "STANDBY"
    with pytest.raises(Refused, match=r"runs at .* already"):
        clean.sm_start(second.host)


def test_the_standby_takes_over_when_the_master_crashes(clean: Fabric) -> None:
    (first,) = clean.managers()
    second = clean.sm_double("node1-rail1")
    clean.sm_stop(first.host, kill=True)
    assert [(m.host, m.state) for m in clean.managers()] == [(second.host, "MASTER")]
    until(lambda: diags.sminfo(clean.run(["sminfo"]).stdout).priority == second.priority)


def test_a_torn_fabric_has_a_master_in_each_part(home: Path) -> None:
    tree = FatTree(hosts=2, rails=1, leaves=2, spines=1, subnet=9)
    with Fabric.start("torn", tree, keep=False) as fabric:
        fabric.unlink("spine0", 1)
        fabric.sm_start("node1", 3)
        assert {m.state for m in fabric.managers()} == {"MASTER"}
        fabric.relink("spine0", 1)
        until(lambda: sorted(m.state for m in fabric.managers()) == ["MASTER", "STANDBY"])


def test_a_slow_cable_shows_in_iblinkinfo(home: Path) -> None:
    tree = FatTree(hosts=2, rails=1, subnet=7)
    net = degrade(tree.net(), "H-node1-rail0", 1, 1, "EDR")
    with Fabric.start("slow", tree, net=net, keep=False) as fabric:
        slow = _link(fabric, "S-leaf0", 1)
        assert (slow.width, slow.lane_gbps) == (1, 25.78125)
        assert _link(fabric, "S-leaf0", 2).width == 4
        gid = fabric.run(["ibaddr"]).stdout
        assert "fe80::7:" in gid


# --- lives and deaths -------------------------------------------------------------------------


def test_two_fabrics_at_once_do_not_meet(ib: Fabric) -> None:
    with Fabric.start("other", FatTree(hosts=1, rails=1, subnet=1), keep=False) as other:
        theirs = diags.ibnetdiscover(other.run(["ibnetdiscover"]).stdout)
        ours = diags.ibnetdiscover(ib.run(["ibnetdiscover"]).stdout)
        assert not {n.guid for n in theirs.nodes} & {n.guid for n in ours.nodes}
        assert (len(theirs.nodes), len(ours.nodes)) == (3, 14)
        with pytest.raises(UsageError, match=r"several fabrics are up.*other, shared"):
            Fabric.find()
    assert ib.run(["sminfo"]).rc == 0


def test_a_name_is_taken_once_and_down_twice_is_fine(ib: Fabric) -> None:
    with pytest.raises(Refused, match="fabric shared is up already"):
        Fabric.start("shared", TREE)
    assert not stop("never-was")
    with pytest.raises(UsageError, match="fabric never-was is not up; start it with"):
        Fabric.find("never-was")


_STARTER = """
import sys
from podrail.lab.fabric import Fabric
from podrail.lab.topology import FatTree
def stand_still(*_):
    print("here", flush=True)
    sys.stdin.read()
if sys.argv[1] == "starting":
    Fabric.settle = stand_still
Fabric.start("held", FatTree(hosts=1, rails=1), keep=sys.argv[1] == "kept")
stand_still()
"""


@contextlib.contextmanager
def starter(how: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-c", _STARTER, how], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"here\n"
        yield process
        process.kill()


@pytest.mark.parametrize("how", ["starting", "bound"])
def test_killing_the_starter_leaves_nothing(home: Path, how: str) -> None:
    with starter(how) as process:
        held = state_of("held")
        assert processes(held.socket) == ["ibsim", "opensm"]
        os.kill(process.pid, signal.SIGKILL)
        until(lambda: not processes(held.socket) and not held.alive)
    assert not held.place.exists()
    assert "held" not in fabric_state.fabrics.names()


def test_a_kept_fabric_outlives_its_starter_until_down(home: Path) -> None:
    with starter("kept") as process:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        held = state_of("held")
        assert Fabric.find("held").run(["sminfo"]).rc == 0
    assert stop("held")
    assert not processes(held.socket)
    assert not held.place.exists()
    assert not stop("held")


def test_killing_the_keeper_takes_ibsim_and_opensm_along(home: Path) -> None:
    fabric = Fabric.start("orphan", FatTree(hosts=1, rails=1))
    held = state_of("orphan")
    os.kill(held.keeper, signal.SIGKILL)
    until(lambda: not processes(held.socket))
    with pytest.raises(UsageError, match="fabric orphan is not up"):
        fabric.managers()
    assert "orphan" not in {state.name for state in running()}
    assert not held.place.exists()
    with Fabric.start("orphan", FatTree(hosts=1, rails=1), keep=False) as again:
        assert again.managers()[0].state == "MASTER"


def test_a_speed_this_ibsim_does_not_know_is_refused_and_nothing_stays(home: Path) -> None:
    said = []
    try:
        Fabric.start("fast", FatTree(speed="NDR"), keep=False).stop()
    except Refused as refused:
        said.append(str(refused))
    assert all("does not know the link speed" in why for why in said)  # ibsim 0.12 knows NDR
    assert "fast" not in fabric_state.fabrics.names()


def test_missing_programs_are_named_with_the_one_command(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fabric_programs, "which", lambda _: None)
    with pytest.raises(Refused, match=r"needs ibsim, opensm, sminfo, not .*apt-get"):
        Fabric.start("nothing", TREE)


# --- the command line -------------------------------------------------------------------------


def call(*words: str) -> Result:
    return CliRunner().invoke(cli, list(words))


def test_the_whole_story_on_the_command_line(ib: Fabric) -> None:
    made = call("up", "--hosts", "2", "--name", "cli", "--degrade", "leaf0:1=1xEDR", "-o", "json")
    try:
        (listed,) = json.loads(made.stdout)["fabrics"]
        assert listed["tree"]["subnet"] == 1  # 0 is the shared fabric's
        assert listed["managers"][0]["state"] == "MASTER"
        ran = call("run", "--name", "cli", "node2", "--", "ibnetdiscover")
        assert len(diags.ibnetdiscover(ran.stdout).nodes) == 7
        assert "unlinked S-leaf0 port 1 -" in call("unlink", "--name", "cli", "leaf0", "1").stdout
        assert "unlinked S-leaf0 port 1" in call("list").stdout
        mended = json.loads(call("relink", "--name", "cli", "leaf0", "1", "-o", "json").stdout)
        assert mended["relinked"] == [{"node": "S-leaf0", "port": 1}]
        assert "STANDBY" in call("sm", "double", "--name", "cli").stdout
        assert "no subnet manager runs" in call("sm", "stop", "--name", "cli").stdout
        assert call("run", "--name", "cli", "node1", "--", "sminfo").exit_code == 255
        assert "MASTER" in call("sm", "start", "--name", "cli").stdout
    finally:
        assert "down: cli" in call("down", "--name", "cli").stdout
    assert "no fabric was up" in call("down", "--name", "cli").stdout


@pytest.mark.parametrize(
    "words",
    [["up"], ["run"], ["unlink"], ["relink"], ["sm"], ["sm", "start"], ["sm", "stop"],
     ["sm", "double"], ["list"], ["down"]],
    ids=" ".join,
)  # fmt: skip
def test_help_has_an_example(words: list[str]) -> None:
    shown = call(*words, "--help")
    assert shown.exit_code == 0
    assert f"podrail lab fabric {' '.join(words)}" in shown.stdout
