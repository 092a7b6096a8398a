"""`podrail apply`: what it says, what it answers, what it leaves alone."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from podrail.cli import cli
from podrail.host.twin import TwinHost
from podrail.host.twins import twin
from tests.conftest import ROOT
from tests.realise.support import Bench, Cli, Died, numvfs, policy, same, tree

PF = "0000:81:00.0"
OUTCOME = {"pci", "name", "state", "changed", "reason", "fix", "pending", "seconds"}


@pytest.fixture
def host() -> TwinHost:
    return twin("igb")


@pytest.fixture
def igb(host: TwinHost, tmp_path: Path) -> Cli:
    return Cli(host, tmp_path)


def examples(verb: str) -> list[list[str]]:
    """The command lines of the help text that name a twin."""
    said = CliRunner().invoke(cli, [verb, "--help"]).output
    lines = re.findall(r"^\s+(?:sudo )?podrail (.*)$", said.partition("Example:")[2], re.MULTILINE)
    assert lines
    return [shlex.split(line) for line in lines if "twin:" in line]


def test_the_examples_of_the_help_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "policy.yaml").write_text(policy("p", "ens8f0", 4))
    monkeypatch.chdir(tmp_path)
    ran = [CliRunner().invoke(cli, words) for words in examples("apply")]
    assert [result.exit_code for result in ran] == [0] * len(ran)
    assert "dry run: nothing was touched" in ran[0].output


@pytest.mark.parametrize("seed", ["seed-002", "seed-003"])
def test_the_seeds_apply_to_their_twins(tmp_path: Path, seed: str) -> None:
    name = {"seed-002": "roce-cx6", "seed-003": "ib-cx7"}[seed]
    one = Cli(host := twin(name), tmp_path)
    before = tree(host)
    result = one("apply", "-f", str(ROOT / "examples" / seed))
    assert result.exit_code == 0, result.output
    assert any(function.vfs for function in host.functions.values())
    assert one("status").exit_code == 0
    assert one("reset").exit_code == 0
    same(before, tree(host))


def test_text_says_what_changed_and_the_way_back(igb: Cli) -> None:
    result = igb.apply(policy("p", "ens2", 4, mtu=9000))
    assert result.exit_code == 0
    for words in ("ens2", PF, "done in", "0 → 4", "1500 → 9000", "`podrail reset` gives it back"):
        assert words in result.output, words
    again = igb.apply(policy("p", "ens2", 4, mtu=9000))
    assert (again.exit_code, "as wanted already: nothing was touched" in again.output) == (0, True)


def test_json_has_the_keys_of_its_schema(igb: Cli) -> None:
    result = igb.apply(policy("p", "ens2", 4), options=["-o", "json"])
    told = json.loads(result.stdout)
    assert told["schema"] == "podrail/apply/1"
    assert {"schema", "plan", "refused", "resumed", "outcomes"} <= told.keys()
    (outcome,) = told["outcomes"]
    assert outcome.keys() >= OUTCOME
    assert (outcome["pci"], outcome["name"], outcome["state"]) == (PF, "ens2", "done")
    assert (told["refused"], told["resumed"]) == ([], [])


def test_json_of_a_refusal(igb: Cli) -> None:
    result = igb.apply(policy("p", "ens2", 99), options=["-o", "json"])
    told = json.loads(result.stdout)
    assert (result.exit_code, told["outcomes"]) == (5, [])
    (refused,) = told["refused"]
    assert refused.keys() == {"pci", "name", "reason", "fix"}
    assert (refused["name"], "over sriov_totalvfs" in refused["reason"]) == ("ens2", True)


def test_a_dry_run_touches_nothing(igb: Cli, host: TwinHost) -> None:
    before = tree(host)
    result = igb.apply(policy("p", "ens2", 4), options=["--dry-run"])
    assert result.exit_code == 0
    assert "numVfs" in result.output
    assert "dry run: nothing was touched" in result.output
    same(before, tree(host))
    assert "nothing applied" in igb("status").output


def test_a_dry_run_of_what_would_be_refused(igb: Cli) -> None:
    result = igb.apply(policy("p", "ens2", 99), options=["--dry-run"])
    assert (result.exit_code, "over sriov_totalvfs" in result.output) == (5, True)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param(policy("p", "ens2#0-9", 4), "nothing was touched", id="range"),
        pytest.param(policy("p", "ens2", 4).replace(": 4", ': "x"'), "numVfs", id="type"),
        pytest.param("kind: [", "nothing was touched", id="yaml"),
        pytest.param("", "nothing to apply", id="empty"),
        pytest.param("apiVersion: v1\nkind: Pod\nmetadata: {name: x}\n", "podrail reset", id="pod"),
    ],
)
def test_what_lint_finds_wrong_stops_it_before_it_touches(
    igb: Cli, host: TwinHost, text: str, says: str
) -> None:
    before = tree(host)
    result = igb("apply", "-f", "-", stdin=text)
    assert result.exit_code == 3, result.output
    assert says in result.output
    same(before, tree(host))


def test_one_that_cannot_be_stops_all_unless_partial(igb: Cli, host: TwinHost) -> None:
    both = policy("p", "ens2", 4), policy("q", "enp67s0", 99)
    before = tree(host)
    stopped = igb.apply(*both)
    assert stopped.exit_code == 5
    assert "nothing was touched: 1 refused; --partial does the others" in stopped.output
    same(before, tree(host))
    partial = igb.apply(*both, options=["--partial"])
    assert partial.exit_code == 5
    assert "over sriov_totalvfs" in partial.output
    assert (numvfs(host, PF), numvfs(host, "0000:43:00.0")) == (4, 0)


def test_one_that_fails_holds_no_other(igb: Cli, host: TwinHost) -> None:
    host.refusals[f"{host.functions[PF].path}/sriov_numvfs"] = 12
    result = igb.apply(policy("p", "ens2", 4), policy("q", "enp67s0", 3))
    assert result.exit_code == 5
    assert "1 of 2 done" in result.output
    assert "pci=realloc" in result.output
    assert (numvfs(host, PF), numvfs(host, "0000:43:00.0")) == (0, 3)


def test_what_nobody_wants_any_more_is_given_back(igb: Cli, host: TwinHost) -> None:
    assert igb.apply(policy("p", "ens2", 4), policy("q", "enp67s0", 3)).exit_code == 0
    result = igb.apply(policy("p", "ens2", 4))
    assert result.exit_code == 0
    assert "enp67s0 is wanted by nobody: given back as found" in result.output
    assert (numvfs(host, PF), numvfs(host, "0000:43:00.0")) == (4, 0)


def test_an_interrupted_one_is_finished_first(igb: Cli, host: TwinHost) -> None:
    def die(point: str) -> None:
        if point == f"after {PF} step 0":
            raise Died

    with pytest.raises(Died):
        Bench(host, igb.place, die).apply(policy("p", "ens2", 4))
    result = igb.apply(policy("p", "ens2", 4))
    assert result.exit_code == 0
    assert "an earlier podrail was interrupted" in result.output
    assert numvfs(host, PF) == 4


def test_the_same_manifest_twice_and_from_a_pipe(igb: Cli, tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(policy("p", "ens2", 2))
    words = ("-f", str(file), "-f", str(file), "-f", "-", "-f", "-")
    result = igb("apply", *words, stdin=policy("q", "enp67s0", 2))
    assert result.exit_code == 0, result.output


def test_a_record_cannot_be_changed(tmp_path: Path) -> None:
    record = tmp_path / "node.json"
    dumped = CliRunner().invoke(cli, ["discover", "--host", "twin:igb", "--dump", str(record)])
    assert dumped.exit_code == 0
    words = ["apply", "-f", "-", "--host", str(record)]
    result = CliRunner().invoke(cli, words, input=policy("p", "ens2", 2))
    assert (result.exit_code, "is a record" in result.output) == (5, True)


def test_a_fault_file_shows_the_bad_case(tmp_path: Path) -> None:
    fault = tmp_path / "fault.yaml"
    fault.write_text(
        "id: no-memory\nset:\n"
        f"  - {{path: 'write:/sys/bus/pci/devices/{PF}/sriov_numvfs', value: ENOMEM}}\n"
    )
    words = ["apply", "-f", "-", "--host", "twin:igb", "--fault", str(fault)]
    result = CliRunner().invoke(cli, words, input=policy("p", "ens2", 2))
    assert result.exit_code == 5
    assert "pci=realloc" in result.output
