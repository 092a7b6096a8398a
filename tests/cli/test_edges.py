"""The edges of the program: pipes, signals, odd names, odd terminals. Run as a shell runs it."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.test_verbs import POLICY, run
from tests.conftest import ROOT

PODRAIL = str(Path(sys.executable).parent / "podrail")
MISTAKES = str(ROOT / "examples" / "mistakes")


def test_a_reader_that_went_away_is_no_finding() -> None:
    writer = subprocess.Popen(
        [PODRAIL, "lint", "-f", MISTAKES], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert writer.stdout
    assert writer.stderr
    writer.stdout.readline()
    writer.stdout.close()
    assert writer.wait(30) == 141
    assert writer.stderr.read() == b""
    writer.stderr.close()


def test_ctrl_c_is_no_finding() -> None:
    waiting = subprocess.Popen(
        [PODRAIL, "lint", "-f", "-"], stdin=subprocess.PIPE, stderr=subprocess.PIPE
    )
    _until_reading(waiting.pid)
    waiting.send_signal(signal.SIGINT)
    _, said = waiting.communicate(timeout=30)
    assert (waiting.returncode, said) == (130, b"podrail: interrupted\n")


def _until_reading(pid: int) -> None:
    """The kernel says what it sleeps on: the pipe of its standard input."""
    while "pipe" not in Path(f"/proc/{pid}/wchan").read_text(encoding="ascii"):
        if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
            raise AssertionError("it ended before it read")


def test_a_full_disk_is_said() -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [PODRAIL, "discover", "--host", "twin:igb"], stdout=full, stderr=subprocess.PIPE,
            check=False,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (5, b"podrail: No space left on device\n")


@pytest.mark.parametrize(("environment", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_colour_only_where_it_is_wanted(environment: dict[str, str], coloured: bool) -> None:
    ours, theirs = pty.openpty()
    done = subprocess.Popen(
        [PODRAIL, "lint", "-f", f"{MISTAKES}/seed-003"], stdout=theirs,
        env={**os.environ, "TERM": "xterm", **environment},
    )  # fmt: skip
    os.close(theirs)
    seen = os.read(ours, 4096)
    os.close(ours)
    done.wait(30)
    assert (b"\x1b[" in seen) == coloured


def test_what_a_manifest_says_is_not_obeyed_by_the_terminal() -> None:
    text = (POLICY % "{}").replace("name: p,", 'name: "a\\e[31mb",')
    result = run("lint", "-f", "-", stdin=text)
    assert "\x1b" not in result.output
    assert "a\\x1b[31mb" in result.output


def test_names_that_are_no_utf8_give_valid_json(tmp_path: Path) -> None:
    file = os.fsencode(tmp_path) + b"/we\xffird.yaml"
    with open(file, "w", encoding="utf-8") as stream:
        stream.write(POLICY % "{}")
    argv = [PODRAIL, "lint", "-o", "json", "-f", str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, check=False)
    assert json.loads(done.stdout.decode("utf-8"))["verdict"] == "fail"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_directory_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o000)
    result = run("lint", "-f", str(tmp_path))
    assert (result.exit_code, "cannot read" in result.output) == (2, True)


def test_a_dangling_link_is_said(tmp_path: Path) -> None:
    (tmp_path / "gone.yaml").symlink_to("nowhere")
    result = run("lint", "-f", str(tmp_path))
    assert (result.exit_code, "cannot read" in result.output) == (2, True)


@pytest.mark.parametrize("text", ["", "---\n", "# only a comment\n"])
def test_nothing_at_all_is_not_clean(text: str) -> None:
    result = run("lint", "-f", "-", stdin=text)
    assert (result.exit_code, "no object in -" in result.output) == (3, True)


@pytest.mark.parametrize(
    ("nic", "more", "reason"),
    [
        pytest.param('{vendor: "15b3", pfNames: ["ens8f0#0"]}', "", "no NAME or NAME#", id="range"),
        pytest.param('{vendor: "15b3", pfNames: ens8f0}', "", "the API server refuses", id="text"),
        pytest.param('{vendor: "15b3"}', "  mtu: big\n", "the API server refuses", id="value"),
    ],
)
def test_a_policy_that_is_half_read_selects_nothing(nic: str, more: str, reason: str) -> None:
    result = run("plan", "-f", "-", "--host", "twin:roce-cx6", stdin=POLICY % nic + more)
    assert result.exit_code == 3
    assert reason in result.output
    assert "nothing to change" in result.output


def test_a_policy_called_default_is_ignored_as_upstream_does() -> None:
    text = (POLICY % '{vendor: "15b3"}').replace("name: p,", "name: default,")
    result = run("plan", "-f", "-", "--host", "twin:roce-cx6", stdin=text)
    assert "the operator ignores a policy called default" in result.output
    assert "nothing to change" in result.output


@pytest.mark.parametrize(
    ("argv", "code", "says"),
    [
        pytest.param(["--pfs", "2"], 2, "needs --totalvfs", id="pfs-alone"),
        pytest.param(["--totalvfs", "8", "--host", "twin:igb"], 2, "leave one out", id="both"),
        pytest.param(["-f", MISTAKES], 3, "podrail lint says more", id="broken-manifests"),
    ],
)
def test_size_does_not_guess(argv: list[str], code: int, says: str) -> None:
    result = run("size", "--pods-per-node", "8", *argv)
    assert (result.exit_code, says in result.output) == (code, True), result.output
