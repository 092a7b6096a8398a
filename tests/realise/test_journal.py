"""The journal: what is in it survives, and what was seen first is never lost."""

from __future__ import annotations

import errno
import itertools
import os
import sqlite3
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from podrail.model.errors import Refused
from podrail.realise import journal as journals
from podrail.realise.journal import DONE, FAILED, OPEN, Job, Journal
from podrail.realise.step import Step
from tests.realise.support import Bench, Died, bench, policy, same, tree


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    opened = Journal(str(tmp_path / "journal.db"))
    yield opened
    opened.close()


def job(subject: str = "pf", *steps: Step) -> Job:
    return Job(subject, steps or (Step("vfs", subject, 4, "p"), Step("mtu", subject, 9000, "p")))


def pragma(journal: Journal, name: str) -> object:
    return journal._db.execute(f"PRAGMA {name}").fetchone()[0]


# --- on the disk ------------------------------------------------------------------------------


def test_every_connection_syncs_each_commit(journal: Journal) -> None:
    """https://sqlite.org/pragma.html#pragma_synchronous: 2 is FULL, and is not kept in the file."""
    again = journal.reopen()
    for one in (journal, again):
        assert (pragma(one, "journal_mode"), pragma(one, "synchronous")) == ("wal", 2)
    again.close()
    with journal.away():
        pass
    assert pragma(journal, "synchronous") == 2


def test_what_was_committed_is_there_without_a_goodbye(tmp_path: Path, journal: Journal) -> None:
    """A process that is killed closes nothing: the file and its log are copied as they lie."""
    run = journal.open_run("apply", "boot", [job()])
    journal.begin(run, "pf", 0, {"count": 0}, remember=True)
    (tmp_path / "after").mkdir()
    for name in ("journal.db", "journal.db-wal"):
        (tmp_path / "after" / name).write_bytes((tmp_path / name).read_bytes())
    later = Journal(str(tmp_path / "after" / "journal.db"))
    (begun,) = later.unfinished()
    assert [(m.step.kind, m.state, m.was) for m in begun.marks] == [
        ("vfs", "doing", {"count": 0}),
        ("mtu", "pending", None),
    ]
    assert (begun.verb, begun.boot, begun.subject) == ("apply", "boot", "pf")
    later.close()


def test_a_commit_that_did_not_end_never_was(tmp_path: Path) -> None:
    def die(point: str) -> None:
        if point == "after pf step 1":
            raise Died

    journal = Journal(str(tmp_path / "j.db"), at_point=die)
    run = journal.open_run("apply", "boot", [job()])
    journal.begin(run, "pf", 0, 0, remember=True)
    with pytest.raises(Died):
        journal.begin(run, "pf", 1, 1500, remember=True)
    with pytest.raises(Refused, match="syntax error"):
        _half(journal)
    assert [m.state for m in journal.unfinished()[0].marks] == ["done", "doing"]
    journal.close()


def _half(journal: Journal) -> None:
    with journal._commit("half") as db:
        db.execute("UPDATE steps SET state='lost'")
        db.execute("no such statement")


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "journal.db")
    Journal(path).close()
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version=9")
    db.close()
    with pytest.raises(Refused, match=r"newer podrail \(format 9, known \d+\).*use that version"):
        Journal(path)


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda raw: b"not a database, but long enough to be one" * 99, id="text"),
        pytest.param(lambda raw: raw[:4096] + b"\xff" * (len(raw) - 4096), id="pages"),
        pytest.param(lambda raw: raw[: len(raw) // 2], id="cut"),
    ],
)  # fmt: skip
def test_a_damaged_file_is_said_whoever_finds_it(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / "journal.db"
    whole = Journal(str(path))
    whole.open_run("apply", "boot", [job()])
    whole.close()
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(Refused, match=r"is damaged.*move it away"):
        _read_all(str(path))


def _read_all(path: str) -> None:
    journal = Journal(path)
    try:
        for look in (journal.unfinished, journal.seen, journal.wanted, journal.notes):
            look()
        journal.open_run("apply", "boot", [job()])
    finally:
        journal.close()


def test_a_place_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="needs root and a disk that can be written"):
        Journal(str(tmp_path / "nowhere" / "journal.db"))


# --- a full disk ------------------------------------------------------------------------------


class Full:
    """A connection whose commits find no room from the nth on."""

    def __init__(self, db: sqlite3.Connection, room: Callable[[], bool]) -> None:
        self._db, self._room = db, room

    def execute(self, query: str, *more: Any) -> Any:
        if query == "COMMIT" and not self._room():
            raise sqlite3.OperationalError("database or disk is full")
        return self._db.execute(query, *more)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._db, name)


def _filling(monkeypatch: pytest.MonkeyPatch, commits: int) -> Callable[[], None]:
    """The disk has room for so many commits; the answer makes room again."""
    left, real = itertools.count(), sqlite3.connect

    def connect(*words: Any, **options: Any) -> Full:
        return Full(real(*words, **options), lambda: next(left) < commits)

    monkeypatch.setattr(sqlite3, "connect", connect)
    return lambda: monkeypatch.setattr(sqlite3, "connect", real)


POLICIES = (
    policy("rail", "ens8f0#0-1", 4, mtu=9000, isRdma=True),
    policy("user", "ens8f0#2-3", 4, deviceType="vfio-pci"),
)


def _commits(one: Bench) -> list[str]:
    """Every commit of an apply."""
    points: list[str] = []
    one.at_point = points.append
    one.apply(*POLICIES)
    return [point for point in points if point.startswith("before")]


def test_a_full_disk_leaves_the_machine_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whenever it fills up: refused before the first step, or put back from the middle."""
    commits, refused = len(_commits(bench("roce-cx6", tmp_path / "whole"))), 0
    for number in range(commits):
        one = bench("roce-cx6", tmp_path / str(number))
        before = tree(one.host)
        room_again = _filling(monkeypatch, number)
        try:
            outcomes = one.apply(*POLICIES)
            assert [o.state for o in outcomes] == ["undone"], number
            reason = outcomes[0].reason
        except Refused as no:
            reason, refused = str(no), refused + 1
        assert "make room on that disk" in reason
        same(before, tree(one.host))
        room_again()
        _recovers(one)
    assert 0 < refused < commits


def _recovers(one: Bench) -> None:
    """What was put back without a word in the journal is done again, all of it."""
    one.apply(*POLICIES)
    drivers = [one.host.driver(vf) for vf in one.host.functions["0000:9c:00.0"].vfs]
    assert drivers == ["mlx5_core"] * 2 + ["vfio-pci"] * 2
    assert one.host.text("/sys/class/net/ens8f0/mtu") == "9000"
    with one.state() as state:
        assert state.journal.unfinished() == []


def test_a_full_disk_while_going_back_holds_nothing_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel refuses a step, and then the journal cannot take that down."""
    one, two = bench("roce-cx6", tmp_path / "1"), bench("roce-cx6", tmp_path / "2")
    before = tree(two.host)
    for each in (one, two):
        each.host.refusals["/sys/bus/pci/drivers_probe"] = errno.EIO
    turn = next(i for i, point in enumerate(_commits(one)) if point.endswith("turn"))
    _filling(monkeypatch, turn)
    (outcome,) = two.apply(*POLICIES)
    assert (outcome.state, "Input/output error" in outcome.reason) == ("undone", True)
    same(before, tree(two.host))


TMPFS = """
    import subprocess, sys
    from pathlib import Path
    place = Path(sys.argv[1])
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=160k", "none", place]).returncode:
        sys.exit(77)
    from podrail.model.errors import Refused
    from podrail.realise.journal import Journal
    journal = Journal(str(place / "journal.db"))
    (place / "ballast").write_bytes(b"x" * 4096)
    try:
        for _ in range(100):
            journal.note("pf", "x" * 2000)
    except Refused as no:
        print(no)
    (place / "ballast").unlink()
    print(len(journal.notes(1000)) > 0, journal.unfinished())
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_a_disk_that_is_really_full(tmp_path: Path) -> None:
    ran = subprocess.run(
        ["unshare", "-m", sys.executable, "-c", textwrap.dedent(TMPFS), str(tmp_path)],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    if ran.returncode == 77 or "unshare" in ran.stderr:
        pytest.skip(f"no mounts here: {ran.stderr.strip()}")
    refused, alive = ran.stdout.splitlines()
    assert "cannot be written" in refused
    assert alive == "True []"


# --- what was found ---------------------------------------------------------------------------

_keys = st.sampled_from("0123")
_founds = st.one_of(
    st.integers(0, 3), st.none(), st.dictionaries(_keys, st.integers(0, 9), max_size=4)
)
_NUMBER = itertools.count()


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    begins=st.lists(
        st.tuples(st.sampled_from(["vf-mtu", "vf-driver"]), st.sampled_from("ab"), _founds),
        max_size=12,
    )
)
def test_first_sight_is_never_overwritten(
    begins: list[tuple[str, str, Any]], tmp_path: Path
) -> None:
    journal = Journal(str(tmp_path / f"{next(_NUMBER)}.db"))
    first: dict[tuple[str, str], Any] = {}
    for kind, target, was in begins:
        run = journal.open_run("apply", "b", [job(target, Step(kind, target, 1))])
        journal.begin(run, target, 0, was, remember=True)
        journal.finish(run, target, DONE)
        known = first.setdefault((kind, target), was)
        if isinstance(known, dict) and isinstance(was, dict):
            first[kind, target] = {**was, **known}
    assert {(s.kind, s.target): s.was for s in journal.seen()} == first
    assert [(s.kind, s.target) for s in journal.seen()] == list(first)
    journal.close()


def test_what_is_not_to_be_remembered_is_not(journal: Journal) -> None:
    run = journal.open_run("apply", "b", [job()])
    journal.begin(run, "pf", 0, 0, remember=False)
    assert journal.seen() == []
    assert not journal.has_seen("vfs", "pf")


def test_a_subject_given_back_is_seen_anew(journal: Journal) -> None:
    for subject in ("a", "b"):
        run = journal.open_run("apply", "b", [job(subject)])
        journal.begin(run, subject, 0, 0, remember=True)
        journal.finish(run, subject, DONE)
    journal.finish(journal.open_run("reset", "b", [job("a")]), "a", DONE, forget=True)
    assert [s.subject for s in journal.seen()] == ["b"]
    assert [s.subject for s in journal.seen("b")] == ["b"]


# --- what is kept -----------------------------------------------------------------------------


def test_old_runs_are_forgotten_and_unfinished_ones_never(journal: Journal) -> None:
    unfinished = journal.open_run("apply", "b", [job("stuck")])
    for _ in range(120):
        run = journal.open_run("apply", "b", [job("pf")])
        journal.finish(run, "pf", DONE)
    for table in ("runs", "jobs", "steps"):
        key = "id" if table == "runs" else "run"
        found = {row[0] for row in journal._rows(f"SELECT {key} FROM {table}")}
        assert unfinished in found
        assert len(found) <= 51, table
    assert [(b.run, b.subject, b.state) for b in journal.unfinished()] == [
        (unfinished, "stuck", OPEN)
    ]


def test_the_latest_job_of_each_subject(journal: Journal) -> None:
    for state in (DONE, FAILED):
        run = journal.open_run("apply", "b", [job("a"), job("b")])
        journal.finish(run, "a", state, "why", "what next")
        journal.finish(run, "b", DONE)
    found = journal.latest()
    assert (found["a"].state, found["a"].reason, found["b"].state) == (FAILED, "why", DONE)


def test_notes_are_the_last_ones_in_order(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journals, "_KEPT_NOTES", 5)
    for number in range(9):
        journal.note("pf", str(number))
    assert [n.text for n in journal.notes()] == ["4", "5", "6", "7", "8"]
    assert [n.text for n in journal.notes(2)] == ["7", "8"]


def test_manifests_are_kept_with_how_they_were_given(journal: Journal) -> None:
    given = [("b.yaml", "1"), ("a.yaml", "2"), ("<stdin>", "3"), ("<stdin>", "")]
    journal.want(given, labels="x=y")
    assert journal.wanted() == given
    assert journal.settings() == {"labels": "x=y"}
    journal.want(())
    assert (journal.wanted(), journal.settings()) == ([], {})


def test_another_process_writing_changes_the_version(journal: Journal) -> None:
    version, other = journal.version(), journal.reopen()
    journal.note("pf", "our own")
    assert journal.version() == version
    other.note("pf", "theirs")
    other.close()
    assert journal.version() != version


def test_the_order_of_runs_is_not_the_clock(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    for year in (2030, 1999, 2017):
        monkeypatch.setattr(time, "time", lambda year=year: (year - 1970) * 31_556_952.0)
        journal.note("pf", str(year))
        run = journal.open_run("apply", "b", [job(str(year))])
    assert [n.text for n in journal.notes()] == ["2030", "1999", "2017"]
    assert [b.subject for b in journal.unfinished()] == ["2030", "1999", "2017"]
    assert journal.unfinished()[-1].run == run
