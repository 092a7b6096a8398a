"""The journal: what podrail is about to do on a machine, written down before it is done.

SQLite in WAL mode with full synchronisation: a commit that returned survives a power cut. Every
commit is a point at which the process may be killed; `at_point` is told of each, so that a test can
list them all and die at every one.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from podrail.model.errors import Refused
from podrail.realise.step import Step, Value

_SCHEMA = """
CREATE TABLE IF NOT EXISTS runs (
  id INTEGER PRIMARY KEY, verb TEXT NOT NULL, boot TEXT NOT NULL, at REAL NOT NULL);
CREATE TABLE IF NOT EXISTS jobs (
  run INTEGER NOT NULL REFERENCES runs, subject TEXT NOT NULL, name TEXT NOT NULL,
  force INTEGER NOT NULL,
  state TEXT NOT NULL, reason TEXT NOT NULL DEFAULT '', fix TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (run, subject));
CREATE TABLE IF NOT EXISTS steps (
  run INTEGER NOT NULL, subject TEXT NOT NULL, seq INTEGER NOT NULL, kind TEXT NOT NULL,
  target TEXT NOT NULL, value TEXT NOT NULL, set_by TEXT NOT NULL, state TEXT NOT NULL,
  was TEXT, PRIMARY KEY (run, subject, seq));
CREATE TABLE IF NOT EXISTS seen (
  id INTEGER PRIMARY KEY, run INTEGER NOT NULL, kind TEXT NOT NULL, target TEXT NOT NULL,
  subject TEXT NOT NULL, was TEXT NOT NULL, UNIQUE (kind, target));
CREATE TABLE IF NOT EXISTS manifests (name TEXT NOT NULL, text TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS notes (
  id INTEGER PRIMARY KEY, at REAL NOT NULL, subject TEXT NOT NULL, text TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS settings (key TEXT PRIMARY KEY, value TEXT NOT NULL);
"""
_VERSION = 1
_KEPT_RUNS, _KEPT_NOTES = 50, 1000
_PATIENCE = 30.0

OPEN, DONE, UNDOING, UNDONE, FAILED, OVERTAKEN = (
    "open", "done", "undoing", "undone", "failed", "overtaken",
)  # fmt: skip
UNFINISHED = (OPEN, UNDOING)


@dataclass(frozen=True, slots=True)
class Job:
    """The steps of one subject (a PF, or the machine), in order. No job depends on another."""

    subject: str
    steps: tuple[Step, ...]
    force: bool = False
    """Held VFs may be touched: somebody said so."""
    name: str = ""
    """What the PF is called now; people rename them."""


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a step got, and what its undo needs."""

    step: Step
    state: str
    was: Value


@dataclass(frozen=True, slots=True)
class Begun:
    """A job as the journal has it."""

    run: int
    verb: str
    boot: str
    at: float
    subject: str
    force: bool
    state: str
    reason: str
    fix: str
    marks: tuple[Mark, ...]

    @property
    def unfinished(self) -> bool:
        return self.state in UNFINISHED


@dataclass(frozen=True, slots=True)
class Seen:
    """A thing as it was found before podrail first changed it."""

    id: int
    kind: str
    target: str
    subject: str
    was: Value


@dataclass(frozen=True, slots=True)
class Note:
    """Something that happened, for people to read."""

    at: float
    subject: str
    text: str


class Journal:
    """One machine's journal; every process has its own connection to it."""

    def __init__(self, path: str, *, at_point: Callable[[str], None] | None = None) -> None:
        self.path = path
        self._at_point = at_point or (lambda _: None)
        self._open()

    def _open(self) -> None:
        with _explained(self.path):
            self._db = sqlite3.connect(self.path, isolation_level=None, timeout=_PATIENCE)
            try:
                self._prepare()
            except BaseException:
                self._db.close()
                raise

    def _prepare(self) -> None:
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=FULL")
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        if version > _VERSION:
            raise Refused(
                f"{self.path} was written by a newer podrail (format {version}, known {_VERSION}): "
                "use that version, or its `podrail reset` first"
            )
        if version < _VERSION:
            self._db.executescript(
                f"BEGIN IMMEDIATE;{_SCHEMA}PRAGMA user_version={_VERSION};COMMIT;"
            )

    def close(self) -> None:
        self._db.close()

    @contextlib.contextmanager
    def away(self) -> Iterator[None]:
        """Closed meanwhile: https://sqlite.org/howtocorrupt.html#_carrying_an_open_database_connection_across_a_fork_"""
        self.close()
        try:
            yield
        finally:
            self._open()

    def _rows(self, query: str, key: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with _explained(self.path):
            return self._db.execute(query, key).fetchall()

    def reopen(self) -> Journal:
        """The same journal, in a process that was forked while it was away."""
        return Journal(self.path, at_point=self._at_point)

    @contextlib.contextmanager
    def _commit(self, point: str) -> Iterator[sqlite3.Connection]:
        self._at_point(f"before {point}")
        with _explained(self.path):
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    self._db.execute("ROLLBACK")
                raise
        self._at_point(f"after {point}")

    # --- what is being done -------------------------------------------------------------------

    def open_run(self, verb: str, boot: str, jobs: Sequence[Job]) -> int:
        """Write down everything that is about to be done."""
        with self._commit(f"open {verb}") as db:
            cursor = db.execute(
                "INSERT INTO runs (verb, boot, at) VALUES (?, ?, ?)", (verb, boot, time.time())
            )
            run = int(cursor.lastrowid or 0)
            for job in jobs:
                _insert(db, run, job)
            self._forget_old(db, run)
        return run

    def _forget_old(self, db: sqlite3.Connection, run: int) -> None:
        busy = "SELECT run FROM jobs WHERE state IN ('open', 'undoing')"
        for table, key in (("steps", "run"), ("jobs", "run"), ("runs", "id")):
            db.execute(
                f"DELETE FROM {table} WHERE {key} <= ? AND {key} NOT IN ({busy})",  # noqa: S608
                (run - _KEPT_RUNS,),
            )

    def begin(self, run: int, subject: str, seq: int, was: Value, *, remember: bool) -> None:
        """Step `seq` is about to be done; those before it are."""
        with self._commit(f"{subject} step {seq}") as db:
            key = (run, subject, seq)
            step = _one(
                db, "SELECT kind, target FROM steps WHERE run=? AND subject=? AND seq=?", key
            )
            _finish_steps(db, run, subject)
            db.execute(
                "UPDATE steps SET state='doing', was=? WHERE run=? AND subject=? AND seq=?",
                (json.dumps(was), *key),
            )
            if remember:
                _remember(db, run, step[0], step[1], subject, was)

    def turn(self, run: int, subject: str, reason: str, fix: str) -> None:
        """The job could not go on: from here it goes back."""
        with self._commit(f"{subject} turn") as db:
            _set_job(db, run, subject, UNDOING, reason, fix)

    def undone(self, run: int, subject: str, seq: int) -> None:
        with self._commit(f"{subject} undone {seq}") as db:
            db.execute(
                "UPDATE steps SET state='undone' WHERE run=? AND subject=? AND seq=?",
                (run, subject, seq),
            )

    def finish(
        self, run: int, subject: str, state: str, reason: str = "", fix: str = "",
        *, forget: bool = False,
    ) -> None:  # fmt: skip
        """The end of a job. Where it was given back, what comes next is a new first sight."""
        with self._commit(f"{subject} {state}") as db:
            if state == DONE:
                _finish_steps(db, run, subject)
            _set_job(db, run, subject, state, reason, fix)
            if forget:
                db.execute("DELETE FROM seen WHERE subject=?", (subject,))
            elif state == UNDONE:  # nothing of this run is left: it changed nothing first
                db.execute("DELETE FROM seen WHERE subject=? AND run=?", (subject, run))

    def unfinished(self) -> list[Begun]:
        """What a process that died left behind, oldest first."""
        return [job for job in self._jobs() if job.unfinished]

    def names(self) -> dict[str, str]:
        """What each PF was called when it was last worked on."""
        rows = self._db.execute("SELECT subject, name FROM jobs WHERE name != '' ORDER BY run")
        return dict(rows.fetchall())

    def latest(self) -> dict[str, Begun]:
        """The last job of every subject."""
        return {job.subject: job for job in self._jobs()}

    def _jobs(self) -> list[Begun]:
        rows = self._rows(
            "SELECT j.run, r.verb, r.boot, r.at, j.subject, j.force, j.state, j.reason, j.fix "
            "FROM jobs j JOIN runs r ON r.id = j.run ORDER BY j.run, j.rowid"
        )
        return [
            Begun(run, verb, boot, at, to, bool(force), state, why, fix, self._marks(run, to))
            for run, verb, boot, at, to, force, state, why, fix in rows
        ]

    def _marks(self, run: int, subject: str) -> tuple[Mark, ...]:
        rows = self._rows(
            "SELECT kind, target, value, set_by, state, was FROM steps "
            "WHERE run=? AND subject=? ORDER BY seq",
            (run, subject),
        )
        return tuple(
            Mark(Step(kind, target, json.loads(value), by), state, json.loads(was or "null"))
            for kind, target, value, by, state, was in rows
        )

    # --- what was found -----------------------------------------------------------------------

    def seen(self, subject: str | None = None) -> list[Seen]:
        """Everything as it was at first sight, in the order in which it was first changed."""
        rows = self._rows("SELECT id, kind, target, subject, was FROM seen ORDER BY id")
        found = [Seen(id, kind, target, at, json.loads(was)) for id, kind, target, at, was in rows]
        return [s for s in found if subject in (None, s.subject)]

    def has_seen(self, kind: str, target: str) -> bool:
        query = "SELECT 1 FROM seen WHERE kind=? AND target=?"
        return bool(self._rows(query, (kind, target)))

    # --- what is wanted -----------------------------------------------------------------------

    def want(self, manifests: Sequence[tuple[str, str]], **settings: str) -> None:
        """Keep the manifests, so that a boot or an agent finds them."""
        with self._commit("want") as db:
            db.execute("DELETE FROM manifests")
            db.executemany("INSERT INTO manifests VALUES (?, ?)", manifests)
            db.execute("DELETE FROM settings")
            db.executemany("INSERT INTO settings VALUES (?, ?)", settings.items())

    def wanted(self) -> list[tuple[str, str]]:
        return [(n, t) for n, t in self._rows("SELECT name, text FROM manifests ORDER BY rowid")]

    def settings(self) -> Mapping[str, str]:
        return {str(k): str(v) for k, v in self._rows("SELECT key, value FROM settings")}

    def version(self) -> int:
        """A number that changes when another process has written."""
        return int(self._rows("PRAGMA data_version")[0][0])

    # --- what happened ------------------------------------------------------------------------

    def note(self, subject: str, text: str) -> None:
        with self._commit("note") as db:
            last = db.execute(
                "INSERT INTO notes (at, subject, text) VALUES (?, ?, ?)",
                (time.time(), subject, text),
            ).lastrowid
            db.execute("DELETE FROM notes WHERE id <= ?", (int(last or 0) - _KEPT_NOTES,))

    def notes(self, limit: int = 20) -> list[Note]:
        """The last of them, oldest first."""
        query = "SELECT at, subject, text FROM notes ORDER BY id DESC LIMIT ?"
        return [Note(*row) for row in self._rows(query, (limit,))][::-1]


def _one(db: sqlite3.Connection, query: str, key: Sequence[Any]) -> tuple[Any, ...]:
    row = db.execute(query, key).fetchone()
    assert row is not None, key
    return tuple(row)


def _insert(db: sqlite3.Connection, run: int, job: Job) -> None:
    db.execute(
        "INSERT INTO jobs (run, subject, name, force, state) VALUES (?, ?, ?, ?, ?)",
        (run, job.subject, job.name, int(job.force), OPEN),
    )
    db.executemany(
        "INSERT INTO steps VALUES (?, ?, ?, ?, ?, ?, ?, 'pending', NULL)",
        [
            (run, job.subject, seq, s.kind, s.target, json.dumps(s.to), s.set_by)
            for seq, s in enumerate(job.steps)
        ],
    )


def _finish_steps(db: sqlite3.Connection, run: int, subject: str) -> None:
    db.execute(
        "UPDATE steps SET state='done' WHERE run=? AND subject=? AND state='doing'",
        (run, subject),
    )


def _set_job(
    db: sqlite3.Connection, run: int, subject: str, state: str, reason: str, fix: str
) -> None:
    db.execute(
        "UPDATE jobs SET state=?, reason=?, fix=? WHERE run=? AND subject=?",
        (state, reason, fix, run, subject),
    )


def _remember(
    db: sqlite3.Connection, run: int, kind: str, target: str, subject: str, was: Value
) -> None:
    """What was seen first stays; of a mapping, keys never seen before are added."""
    row = db.execute("SELECT was FROM seen WHERE kind=? AND target=?", (kind, target)).fetchone()
    if row is None:
        db.execute(
            "INSERT INTO seen (run, kind, target, subject, was) VALUES (?, ?, ?, ?, ?)",
            (run, kind, target, subject, json.dumps(was)),
        )
        return
    first = json.loads(row[0])
    if isinstance(first, dict) and isinstance(was, dict) and not was.keys() <= first.keys():
        db.execute(
            "UPDATE seen SET was=? WHERE kind=? AND target=?",
            (json.dumps({**was, **first}), kind, target),
        )


@contextlib.contextmanager
def _explained(path: str) -> Iterator[None]:
    """SQLite's refusals in the words of somebody who must act on them."""
    try:
        yield
    except sqlite3.OperationalError as no:
        advice = _advice(str(no), path)
        raise Refused(f"the journal {path} cannot be written ({no}): {advice}") from no
    except sqlite3.DatabaseError as no:
        raise Refused(
            f"the journal {path} is damaged ({no}): move it away and look at the machine with "
            "`podrail discover`; what was found at first sight is lost with it"
        ) from no


def _advice(message: str, path: str) -> str:
    if "full" in message or _no_room(path):
        return "make room on that disk; no step runs that is not written down first"
    if "locked" in message:
        return "another podrail is writing; try again when it has ended"
    if "readonly" in message or "unable to open" in message:
        return "podrail needs root and a disk that can be written"
    return "look at the disk it is on"


def _no_room(path: str) -> bool:
    """SQLite calls it an I/O error where its shared memory finds no room (SQLITE_IOERR_SHMSIZE)."""
    try:
        return os.statvfs(os.path.dirname(path)).f_bavail == 0
    except OSError:
        return False
