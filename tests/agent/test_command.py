"""`podrail agent` as a contract: exit codes, messages, what may not be combined."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from podrail.cli.agent import command
from podrail.model.errors import UsageError
from tests.agent.rig import policy


def run(*argv: str) -> Result:
    return CliRunner().invoke(command, argv)


@pytest.fixture
def file(tmp_path: Path) -> str:
    place = tmp_path / "p.yaml"
    place.write_text(policy())
    return str(place)


def test_once_on_a_twin(file: str) -> None:
    result = run("-f", file, "--host", "twin:igb", "--once")
    assert result.exit_code == 0, result.output
    assert "ens2: numVfs was 0, wanted 4 (policy rail-a); mended in" in result.stderr


def test_once_as_json_lines(file: str) -> None:
    result = run("-f", file, "--host", "twin:igb", "--once", "-o", "json")
    told = [json.loads(line) for line in result.stdout.splitlines()]
    assert {one["event"] for one in told} == {"wanted", "drift", "mended"}
    keys = {"at", "event", "node", "pf", "name", "what", "actual", "wanted", "set_by", "seconds",
            "reason", "fix"}  # fmt: skip
    assert all(set(one) == keys for one in told)


def test_once_with_a_pf_refused_is_1(tmp_path: Path) -> None:
    place = tmp_path / "p.yaml"
    place.write_text(policy(vfs=8))  # igb makes seven at most
    result = run("-f", str(place), "--host", "twin:igb", "--once")
    assert (result.exit_code, "ens2: refused" in result.stderr) == (1, True)


def test_once_with_a_pf_that_failed_is_5(file: str, tmp_path: Path) -> None:
    fault = tmp_path / "fault.yaml"
    path = "write:/sys/bus/pci/devices/0000:81:00.0/sriov_numvfs"
    fault.write_text(f'id: dead\nset: [{{path: "{path}", value: EIO}}]\n')
    result = run("-f", file, "--host", "twin:igb", "--once", "--fault", str(fault))
    assert (result.exit_code, "ens2: failed: the card does not" in result.stderr) == (5, True)


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        pytest.param(["--host", "twin:igb"], "--once", id="twin-for-long"),
        pytest.param(["-f", "-"], "name a file", id="stdin"),
        pytest.param(["--host", "lab:node1"], "lab run node1", id="lab"),
        pytest.param(["--host", "twin:igb", "--once", "--root", "/host"], "--root", id="root"),
    ],
)
def test_wrong_use_says_so(argv: list[str], says: str) -> None:
    error = run(*argv).exception
    assert isinstance(error, UsageError)
    assert says in str(error)


def test_a_broken_manifest_at_once_is_3(tmp_path: Path) -> None:
    place = tmp_path / "p.yaml"
    place.write_text("kind: [")
    result = run("-f", str(place), "--host", "twin:igb", "--once")
    assert (result.exit_code, "nothing is done" in result.stderr) == (3, True)
