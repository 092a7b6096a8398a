"""The lab itself: what a node is, how it is reached, how it ends."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from podrail.cli import cli
from podrail.lab import lifecycle, process
from podrail.lab.client import Connection
from podrail.lab.host import LabHost
from podrail.lab.qemu import Image
from podrail.lab.state import LabState, labs, logs
from podrail.model.errors import Refused, UsageError

PODRAIL = str(Path(sys.executable).parent / "podrail")
BEHIND_SWITCH, OTHER_NODE, ACCELERATOR = "0000:43:00.0", "0000:81:00.0", "0000:44:00.0"


def until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition never came true"


def on(lab: LabState, *argv: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """`podrail lab run` of node1, as a shell would call it."""
    return subprocess.run(
        [PODRAIL, "lab", "run", f"{lab.name}/node1", "--", *argv],
        input=stdin, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def test_a_node_has_what_the_lab_promises(node1: LabHost) -> None:
    at = "/sys/bus/pci/devices"
    numa = {pci: node1.read(f"{at}/{pci}/numa_node").strip() for pci in (BEHIND_SWITCH, OTHER_NODE)}
    assert numa == {BEHIND_SWITCH: "0", OTHER_NODE: "1"}
    switch = [node1.resolve(f"{at}/{pci}").split("/")[-3] for pci in (BEHIND_SWITCH, ACCELERATOR)]
    assert switch[0] == switch[1], "the NIC and the accelerator hang on one switch"
    assert node1.entries("/sys/class/iommu") == ("dmar0",)
    assert any(name.startswith("enp") for name in node1.entries("/sys/class/net"))
    wanted = "containerd runc ib_write_bw ibstat rdma rping mount.nfs ip python3"
    for program in wanted.split():
        assert node1.run(["sh", "-c", f"command -v {program}"]).rc == 0, program
    assert "host-local" in node1.entries("/usr/lib/cni")


def test_podrail_runs_in_the_node_without_a_network(node1: LabHost) -> None:
    ran = node1.run(["podrail", "discover", "-o", "json"])
    assert ran.rc == 0, ran.stderr
    names = {pf["pci"] for pf in json.loads(ran.stdout)["pfs"]}
    assert {BEHIND_SWITCH, OTHER_NODE} <= names


def test_run_joins_streams_and_status(lab: LabState) -> None:
    ran = on(lab, "sh", "-c", "cat; echo err >&2; exit 7", stdin="in\n")
    assert (ran.returncode, ran.stdout, ran.stderr) == (7, "in\n", "err\n")


def test_run_says_what_it_cannot_find(lab: LabState) -> None:
    result = CliRunner().invoke(cli, ["lab", "run", f"{lab.name}/node9", "--", "true"])
    assert (result.exit_code, "it has node1, node2" in result.output) == (2, True)


def test_files_go_in_and_out(lab: LabState, tmp_path: Path) -> None:
    here, back = tmp_path / "in", tmp_path / "out"
    here.write_bytes(os.urandom(100_000))
    there = f"{lab.name}/node1:/root/it"
    for argv in ([str(here), there], [there, str(back)]):
        assert CliRunner().invoke(cli, ["lab", "copy", *argv]).exit_code == 0
    assert here.read_bytes() == back.read_bytes()


def test_list_is_the_designs_shape(lab: LabState) -> None:
    listed = json.loads(CliRunner().invoke(cli, ["lab", "list", "-o", "json"]).output)
    mine = [node for node in listed["nodes"] if node["lab"] == lab.name]
    assert [(n["name"], n["state"], n["pfs"]) for n in mine] == [
        (name, "ready", [BEHIND_SWITCH, OTHER_NODE]) for name in ("node1", "node2")
    ]


def test_every_verb_acts_inside_a_node(lab: LabState) -> None:
    policy = """\
apiVersion: sriovnetwork.openshift.io/v1
kind: SriovNetworkNodePolicy
metadata: {name: lab, namespace: sriov-network-operator}
spec:
  resourceName: lab_vf
  nodeSelector: {kubernetes.io/os: linux}
  numVfs: 4
  nicSelector: {vendor: "8086", deviceID: "10c9", rootDevices: ["0000:43:00.0"]}
"""
    argv = ["plan", "-f", "-", "--host", f"lab:{lab.name}/node1", "-o", "json"]
    (node,) = json.loads(CliRunner().invoke(cli, argv, input=policy).output)["nodes"]
    assert [(pf["pci"], pf["action"]) for pf in node["pfs"]] == [(BEHIND_SWITCH, "create")]


def test_a_second_up_of_the_same_lab_is_refused(lab: LabState) -> None:
    image = Image(Path("/k"), Path("/i"), Path("/r"))
    with pytest.raises(Refused, match="is up already"):
        lifecycle.up(lifecycle.Wanted(lab.name, 2, image, None), lambda _: None)


def test_a_machine_that_cannot_start_shows_why_and_leaves_nothing(tmp_path: Path) -> None:
    nothing = Image(tmp_path / "k", tmp_path / "i", tmp_path / "r")
    with pytest.raises(Refused, match=r"did not start: (?s:.)*(?:No such file|could not open)"):
        lifecycle.up(lifecycle.Wanted("test-broken", 2, nothing, None), lambda _: None)
    assert labs.load("test-broken") is None


def test_a_guest_that_hangs_shows_its_console_and_leaves_nothing(lab: LabState) -> None:
    from podrail.lab import build

    image = build.ensure_image(lambda _: None)
    wanted = lifecycle.Wanted("test-hang", 2, image, build.build_podrail())
    with pytest.raises(Refused, match="does not answer after 1 s; its console ends with"):
        lifecycle.up(wanted, lambda _: None, boot_seconds=1.0)
    assert labs.load("test-hang") is None
    assert {file.name for file in logs("test-hang").iterdir()} >= {"log"}


def test_a_port_that_was_taken_meanwhile_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tried: list[int] = []
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        def always_taken() -> int:
            tried.append(port)
            return int(port)

        monkeypatch.setattr(lifecycle, "_free_port", always_taken)
        for name in ("k", "i", "r"):
            (tmp_path / name).touch()
        wanted = lifecycle.Wanted(
            "test-port", 2, Image(*(tmp_path / name for name in ("k", "i", "r"))), None
        )
        with pytest.raises(Refused, match="host forwarding"):
            lifecycle.up(wanted, lambda _: None)
    assert len(tried) == 2 * 3


def test_wrong_numbers_of_nodes_are_refused() -> None:
    image = Image(Path("/k"), Path("/i"), Path("/r"))
    with pytest.raises(UsageError, match="2 to 8"):
        lifecycle.up(lifecycle.Wanted("test-one", 1, image, None), lambda _: None)


def _machines(keeper: int) -> list[int]:
    children = Path(f"/proc/{keeper}/task/{keeper}/children")
    return [int(pid) for pid in children.read_text().split()] if children.exists() else []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=["kill-9", "ctrl-c"])
def test_an_interrupted_up_leaves_no_machine_behind(number: int) -> None:
    name = f"test-cut-{number}"
    starting = subprocess.Popen(
        [PODRAIL, "lab", "up", "--name", name],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    until(lambda: (found := labs.load(name)) is not None and len(_machines(found.keeper)) == 2)
    written = labs.load(name)
    assert written is not None
    watched = {pid: process.started(pid) for pid in (written.keeper, *_machines(written.keeper))}
    starting.send_signal(number)
    starting.wait(20)
    until(lambda: all(process.started(pid) != since for pid, since in watched.items()), 20)
    assert CliRunner().invoke(cli, ["lab", "down", "--name", name]).exit_code == 0
    assert labs.load(name) is None
    assert not Path(written.run).exists()


def test_down_twice_is_fine() -> None:
    for _ in range(2):
        result = CliRunner().invoke(cli, ["lab", "down", "--name", "test-never"])
        assert (result.exit_code, "no lab test-never was up" in result.output) == (0, True)


def test_another_labs_secret_opens_nothing(lab: LabState) -> None:
    address = lab.address("node1")
    with pytest.raises(Refused, match="secret"):
        Connection(type(address)(address.port, b"x" * 32))
    assert (Path(lab.run) / "secret").stat().st_mode & 0o077 == 0
    assert Path(lab.run).stat().st_mode & 0o077 == 0
