"""Jobs in processes of their own: none holds another, none is lost, none is left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from podrail.realise.journal import Journal
from podrail.realise.state import State

PATIENCE = 30.0

PROGRAM = """
import json, os, signal, sys
from podrail.host.linux import LinuxHost
from podrail.realise import crew
from podrail.realise.engine import recover
from podrail.realise.journal import Job
from podrail.realise.state import State
from podrail.realise.step import Failed, Kind, Step, kind


@kind
class Act(Kind):
    name = "act"

    def read(self, host, target):
        return host.read(target)

    def write(self, host, target, value):
        way, _, text = value.partition(" ")
        if way == "wait":  # for a line in a FIFO
            host.place(target + ".pid", str(os.getpid()))
            with open(host._at(text)) as fifo:
                fifo.read()
        elif way == "signalled":
            ours, theirs = os.pipe()
            os.set_blocking(theirs, False)
            signal.set_wakeup_fd(theirs)
            host.place(target + ".pid", str(os.getpid()))
            os.read(ours, 1)
        elif way == "die":
            os.kill(os.getpid(), getattr(signal, text))
        elif way == "exit":
            os._exit(int(text))
        elif way == "fail":
            raise Failed("it will not", "do without")
        host.place(target, value)


root, place, limit = sys.argv[1], sys.argv[2], float(sys.argv[3])
jobs = [
    Job(subject, tuple(Step("act", target, to) for target, to in steps))
    for subject, steps in json.loads(sys.argv[4]).items()
]
host = LinuxHost(root)
with State(place) as state, state.working():
    run = state.journal.open_run("apply", "boot", jobs)
    outcomes = crew.work(host, state.journal, run, "apply", jobs, limit=limit)
    unfinished = [b.subject for b in state.journal.unfinished()]
    print(json.dumps([{o.subject: [o.state, o.reason] for o in outcomes}, unfinished]), flush=True)
    sys.stdin.read()
"""

Jobs = dict[str, list[tuple[str, str]]]


def until(true: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, f"{what}: not within {PATIENCE:g} s"
        time.sleep(0.01)


def running(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] not in "ZX"


class Crew:
    """A podrail with its workers on a directory that stands for a machine."""

    def __init__(self, place: Path, jobs: Jobs, limit: float = 60.0) -> None:
        self.root, self.state = place / "root", place / "state"
        self.workers: list[int] = []
        self.root.mkdir()
        for target in {target for steps in jobs.values() for target, _ in steps}:
            (self.root / target[1:]).write_text("found")
        os.mkfifo(self.root / "fifo")
        words = [str(self.root), str(self.state), str(limit), json.dumps(jobs)]
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *words], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip

    def text(self, name: str) -> str:
        try:
            return (self.root / name).read_text()
        except FileNotFoundError:
            return ""

    def worker(self, target: str) -> int:
        until(lambda: self.text(f"{target}.pid") != "", f"{target} at work")
        self.workers.append(int(self.text(f"{target}.pid")))
        return self.workers[-1]

    def release(self) -> None:
        with open(self.root / "fifo", "w") as fifo:
            fifo.write("go on\n")

    def end(self) -> tuple[dict[str, list[str]], list[str]]:
        out, err = self.process.communicate(timeout=PATIENCE)
        assert self.process.returncode == 0, err
        found: list[Any] = json.loads(out)
        return found[0], found[1]

    def unfinished(self) -> list[str]:
        journal = Journal(str(self.state / "journal.db"))
        try:
            return [begun.subject for begun in journal.unfinished()]
        finally:
            journal.close()


@pytest.fixture
def crews(tmp_path: Path) -> Iterator[Callable[..., Crew]]:
    started: list[Crew] = []

    def start(jobs: Jobs, limit: float = 60.0) -> Crew:
        started.append(Crew(tmp_path, jobs, limit))
        return started[-1]

    yield start
    for crew in started:
        if crew.process.poll() is None:
            crew.process.kill()
        for pid in filter(running, crew.workers):
            os.kill(pid, signal.SIGKILL)
        for pipe in (crew.process.stdin, crew.process.stdout, crew.process.stderr):
            if pipe:
                pipe.close()
        crew.process.wait()


def test_a_slow_job_holds_nobody(crews: Callable[..., Crew]) -> None:
    crew = crews(
        {"slow": [("/a", "wait /fifo")], "quick": [("/b", "done")], "bad": [("/c", "fail")]}
    )
    until(lambda: crew.text("b") == "done", "the quick job")
    crew.worker("a")
    assert crew.text("a") == "found"
    crew.release()
    outcomes, unfinished = crew.end()
    assert outcomes == {
        "quick": ["done", ""],
        "bad": ["undone", "it will not"],
        "slow": ["done", ""],
    }
    assert unfinished == []


@pytest.mark.parametrize(
    ("to", "says"),
    [
        ("die SIGKILL", "signal 9"),
        ("die SIGSEGV", "signal 11"),
        ("exit 3", "exit code 3"),
        ("exit 0", "exit code 0"),
    ],
)
def test_a_worker_that_ends_early_is_reported(
    crews: Callable[..., Crew], to: str, says: str
) -> None:
    crew = crews({"lost": [("/a", "first"), ("/b", to)], "well": [("/c", "done")]})
    outcomes, unfinished = crew.end()
    assert outcomes["well"] == ["done", ""]
    state, reason = outcomes["lost"]
    assert state in ("open", "failed")
    assert f"its worker ended early ({says})" in reason
    assert unfinished == ["lost"]


def test_more_jobs_than_workers(crews: Callable[..., Crew]) -> None:
    jobs = {f"j{i}": [(f"/f{i}", "done")] for i in range(50)}
    crew = crews(jobs)
    outcomes, unfinished = crew.end()
    assert outcomes == {name: ["done", ""] for name in jobs}
    assert unfinished == []


def test_ctrl_c_takes_back_and_leaves_no_process(crews: Callable[..., Crew]) -> None:
    """The terminal sends it to all of them; the workers go back in order."""
    crew = crews({
        "one": [("/a", "first"), ("/b", "signalled"), ("/c", "last")],
        "two": [("/d", "first"), ("/e", "signalled"), ("/f", "last")],
    })  # fmt: skip
    workers = [crew.worker("b"), crew.worker("e")]
    os.killpg(crew.process.pid, signal.SIGINT)
    _, err = crew.process.communicate(timeout=PATIENCE)
    assert "KeyboardInterrupt" in err
    assert not any(running(pid) for pid in workers)
    assert {crew.text(name) for name in "abcdef"} == {"found"}
    assert crew.unfinished() == []


def test_a_parent_that_is_killed_takes_its_workers_along(crews: Callable[..., Crew]) -> None:
    crew = crews({"one": [("/a", "first"), ("/b", "wait /fifo")]})
    worker = crew.worker("b")
    crew.process.kill()
    crew.process.wait()
    until(lambda: not running(worker), "the worker's end")
    assert crew.unfinished() == ["one"]
    with State(str(crew.state)) as state, state.working():
        assert crew.text("a") == "first"


def test_a_worker_the_kernel_holds_is_left_behind_and_ends_with_us(
    crews: Callable[..., Crew],
) -> None:
    """Stopped, it answers no signal, as one that waits inside a write to sysfs."""
    crew = crews({"stuck": [("/a", "die SIGSTOP")], "well": [("/b", "done")]}, limit=1.0)
    outcomes, unfinished = crew.end()
    assert outcomes["well"] == ["done", ""]
    state, reason = outcomes["stuck"]
    assert (state, "has not answered for 1 s" in reason) == ("open", True)
    assert unfinished == ["stuck"]
    with State(str(crew.state)) as after, after.working():
        assert crew.text("a") == "found"


def test_a_worker_given_up_goes_on_and_says_it_to_nobody(crews: Callable[..., Crew]) -> None:
    """An agent lives on: what comes late is done, and the journal has it."""
    crew = crews({"late": [("/a", "wait /fifo"), ("/b", "done")]}, limit=0.5)
    assert crew.process.stdout
    said = json.loads(crew.process.stdout.readline())
    assert said[1] == ["late"]
    crew.release()
    until(lambda: crew.text("b") == "done", "the late job")
    until(lambda: crew.unfinished() == [], "its end in the journal")
    crew.process.communicate(timeout=PATIENCE)
    assert crew.process.returncode == 0
