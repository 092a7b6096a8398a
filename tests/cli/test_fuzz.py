"""Thousands of broken manifests: always exit 0, 1 or 3 with a message, never a traceback."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from podrail.cli import cli
from podrail.cli.shared import lint_exit
from podrail.host.open import open_host
from podrail.inventory import discover
from podrail.model.bundle import read
from podrail.model.inventory import Inventory
from podrail.planning.lint import lint
from podrail.planning.planner import Planner
from podrail.planning.show import show
from tests.conftest import ROOT

CASES = sorted((ROOT / "tests" / "lint" / "cases").glob("*.yaml"))
SEEDS = [*sorted((ROOT / "examples").rglob("*.yaml")), *CASES]
ROUNDS = 40
PER_ROUND = 75
JUNK: list[object] = [
    None, True, 0, -1, 1 << 70, 1.5, "", "on", "0000:3c:00.0", [], {}, [None], {"a": []},
    "{", "[]", "10.0.0.0/8", "::/0", "\u0000", "é" * 300, {"": ""}, [[[]]], "ens8f0#9-1",
]  # fmt: skip


def mangle_text(text: str, dice: random.Random) -> str:
    """A slip of the hand in an editor."""
    lines = text.split("\n")
    at = dice.randrange(len(lines))
    match dice.randrange(7):
        case 0:
            del lines[at]
        case 1:
            lines.insert(at, lines[dice.randrange(len(lines))])
        case 2:
            lines[at] = " " * dice.randrange(9) + lines[at].lstrip()
        case 3:
            lines[at] = lines[at].replace(":", dice.choice(["", "::", ": {", ": [", ": *x", ": |"]))
        case 4:
            return text[: dice.randrange(len(text) + 1)]
        case 5:
            place = dice.randrange(len(text) + 1)
            return text[:place] + dice.choice("{}[]:#&*!|>'\"%@`\t\r\x00\x85\ufeff") + text[place:]
        case _:
            dice.shuffle(lines)
    return "\n".join(lines)


def mangle_data(data: object, dice: random.Random) -> object:
    """Junk where a value was, a key renamed or gone."""
    if isinstance(data, dict) and data and dice.random() < 0.85:
        key = dice.choice(list(data))
        out = {k: v for k, v in data.items() if k != key or dice.random() < 0.85}
        if key in out:
            out[key] = mangle_data(out[key], dice)
            if dice.random() < 0.1:
                out[str(key).swapcase()] = out.pop(key)
        return out
    if isinstance(data, list) and data and dice.random() < 0.85:
        at = dice.randrange(len(data))
        return [mangle_data(v, dice) if i == at else v for i, v in enumerate(data)]
    return dice.choice(JUNK)


def broken(dice: random.Random) -> str:
    text = dice.choice(SEEDS).read_text(encoding="utf-8")
    if dice.random() < 0.5:
        for _ in range(dice.randrange(1, 4)):
            text = mangle_text(text, dice)
        return text
    try:
        documents = [mangle_data(d, dice) for d in yaml.safe_load_all(text)]
    except yaml.YAMLError:
        return mangle_text(text, dice)
    return yaml.safe_dump_all(documents, allow_unicode=True)


@pytest.fixture(scope="module")
def machine() -> Inventory:
    return discover(open_host("twin:roce-cx6"), {"node-role.kubernetes.io/gpu-worker": ""})


@pytest.mark.parametrize("round_", range(ROUNDS))
def test_lint_and_plan_survive(round_: int, machine: Inventory) -> None:
    dice = random.Random(round_)
    for _ in range(PER_ROUND):
        text = broken(dice)
        bundle = read([("fuzz.yaml", text)])
        findings = lint(bundle)
        assert lint_exit(findings) in (0, 1, 3)
        assert all(f.actual and f.expected and f.fix and f.why for f in findings), text
        plan = Planner.of(bundle).plan([machine])
        assert list(show(plan))
        plan.to_json()


@pytest.mark.parametrize("round_", range(25))
def test_the_command_line_survives(round_: int, tmp_path: Path) -> None:
    dice = random.Random(1000 + round_)
    file = tmp_path / "fuzz.yaml"
    file.write_bytes(broken(dice).encode("utf-8", "surrogatepass"))
    for argv in (["lint"], ["lint", "-o", "json"], ["plan", "--host", "twin:igb"]):
        result = CliRunner().invoke(cli, [*argv, "-f", str(file)])
        assert result.exit_code in (0, 1, 3), result.output
        assert result.output.strip()
        assert result.exception is None or isinstance(result.exception, SystemExit)


@pytest.mark.parametrize("raw", [b"", b"\xff\xfe\x00a", b"\x00" * 64, b"---\n---\n", b"[" * 5000])
def test_what_is_no_manifest_at_all(raw: bytes, tmp_path: Path) -> None:
    file = tmp_path / "junk.yaml"
    file.write_bytes(raw)
    for verb in (["lint"], ["plan", "--host", "twin:igb"]):
        result = CliRunner().invoke(cli, [*verb, "-f", str(file)])
        assert result.exit_code in (0, 1, 3), result.output
        assert result.output.strip()
