"""One podrail at a time: who holds the machine, and who waits."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from podrail.model.errors import Refused
from podrail.realise import locks
from podrail.realise import state as module
from podrail.realise.state import State
from tests.realise.support import Cli, policy, same, tree
from tests.realise.test_crew import running, until


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_WORK_SECONDS", 0.2)


def test_the_place_is_roots_alone(tmp_path: Path) -> None:
    with State(str(tmp_path / "a" / "b")) as state, state.working(), state.agent():
        state.journal.note("pf", "x")
        assert stat.S_IMODE(state.place.stat().st_mode) == 0o700
        for file in state.place.iterdir():
            assert stat.S_IMODE(file.stat().st_mode) & 0o077 == 0, file


def test_a_place_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Refused, match=r"cannot be made.*run as root, or name another place"):
        State(str(tmp_path / "file" / "below"))


@pytest.mark.usefixtures("impatient")
def test_two_at_once_are_one_too_many(tmp_path: Path) -> None:
    with State(str(tmp_path)) as one, State(str(tmp_path)) as two:
        busy = rf"another podrail \(pid {os.getpid()}\) is at work"
        with one.working(), pytest.raises(Refused, match=busy):
            two.working().__enter__()
        with two.working():
            pass


@pytest.mark.usefixtures("impatient")
def test_apply_beside_another_podrail_is_refused(tmp_path: Path) -> None:
    from podrail.host.twins import twin

    cli = Cli(host := twin("igb"), tmp_path)
    before = tree(host)
    for verb in ("apply", "reset"):
        with State(str(tmp_path)) as other, other.working():
            options = ("-f", "-") if verb == "apply" else ()
            result = cli(verb, *options, stdin=policy("p", "ens2", 2))
        assert result.exit_code == 5
        assert f"(pid {os.getpid()}) is at work on this machine" in result.output
        assert "stop it with: kill" in result.output
    same(before, tree(host))
    assert cli("apply", "-f", "-", stdin=policy("p", "ens2", 2)).exit_code == 0


def test_an_agent_is_one_and_does_not_hold_the_work(tmp_path: Path) -> None:
    with State(str(tmp_path)) as one, State(str(tmp_path)) as two:
        assert two.agent_pid() is None
        with one.agent():
            assert two.agent_pid() == os.getpid()
            with pytest.raises(Refused, match="another agent"):
                two.agent().__enter__()
            with two.working():
                pass
        assert two.agent_pid() is None


ORPHAN = """
import os, sys
from pathlib import Path
from podrail.realise.locks import alone, let_go
from podrail.realise.state import State
with State(sys.argv[1]).working():
    if os.fork() == 0:
        let_go()
        with alone(Path(sys.argv[1]), "0000:81:00.0"):
            print(os.getpid(), flush=True)
            sys.stdin.read()
        os._exit(0)
    os._exit(0)
"""


def test_a_worker_the_kernel_holds_keeps_its_pf_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its parent is dead and it may be inside one write for minutes."""
    monkeypatch.setattr(locks, "_WORKER_SECONDS", 0.1)
    process = subprocess.Popen(
        [sys.executable, "-c", ORPHAN, str(tmp_path)], stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout
    assert process.stdin
    worker = int(process.stdout.readline())
    process.wait()
    with State(str(tmp_path)) as state, state.working():
        with pytest.raises(Refused, match=rf"worker on 0000:81:00.0 \(pid {worker}\)"):
            locks.alone(tmp_path, "0000:81:00.0").__enter__()
        with locks.alone(tmp_path, "0000:43:00.0"):
            pass
    process.stdin.close()
    until(lambda: not running(worker), "the orphan's end")
    with locks.alone(tmp_path, "0000:81:00.0"):
        pass
    process.stdout.close()
