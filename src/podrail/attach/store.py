"""Which VF is in which pod, and how it was before: written down before anything is moved."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from podrail.attach.result import CniError, Code

_SCHEMA = """
CREATE TABLE IF NOT EXISTS attachments (
  container TEXT NOT NULL, ifname TEXT NOT NULL, pci TEXT NOT NULL UNIQUE, netns TEXT NOT NULL,
  state TEXT NOT NULL, was TEXT NOT NULL, config TEXT NOT NULL, PRIMARY KEY (container, ifname));
"""
ADDING, ATTACHED = "adding", "attached"


@dataclass(frozen=True, slots=True)
class Was:
    """A VF before it went into a pod."""

    name: str
    mac: str
    mtu: int
    up: bool
    pf: str
    index: int
    vf: dict[str, Any]
    """What its PF's administrator had said of it, where that was changed."""


@dataclass(frozen=True, slots=True)
class Attached:
    """One VF in one pod, whole or on its way there."""

    container: str
    ifname: str
    pci: str
    netns: str
    state: str
    was: Was
    config: dict[str, Any]


class Attachments:
    """SQLite with WAL and full synchronisation, shared by the threads of one process."""

    def __init__(self, path: str) -> None:
        self._turn = threading.Lock()
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=FULL")
        self._db.executescript(_SCHEMA)

    def close(self) -> None:
        self._db.close()

    def begin(self, one: Attached) -> None:
        """Before the first change. A VF is in one place only."""
        row = (one.container, one.ifname, one.pci, one.netns, one.state,
               json.dumps(asdict(one.was)), json.dumps(one.config))  # fmt: skip
        try:
            self._write("INSERT INTO attachments VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        except sqlite3.IntegrityError as no:
            holder = self.holding(one.pci)
            who = f"container {holder.container}" if holder else "another attachment"
            raise CniError(
                Code.TRY_AGAIN_LATER, f"{one.pci} is still {who}'s: its DEL has not come yet"
            ) from no

    def done(self, container: str, ifname: str) -> None:
        self._write(
            "UPDATE attachments SET state=? WHERE container=? AND ifname=?",
            (ATTACHED, container, ifname),
        )

    def forget(self, container: str, ifname: str) -> None:
        self._write("DELETE FROM attachments WHERE container=? AND ifname=?", (container, ifname))

    def get(self, container: str, ifname: str) -> Attached | None:
        found = self._read("WHERE container=? AND ifname=?", (container, ifname))
        return found[0] if found else None

    def holding(self, pci: str) -> Attached | None:
        found = self._read("WHERE pci=?", (pci,))
        return found[0] if found else None

    def all(self) -> list[Attached]:
        return self._read("", ())

    def _write(self, query: str, values: Sequence[Any]) -> None:
        with self._turn:
            self._db.execute(query, values)

    def _read(self, where: str, values: Sequence[Any]) -> list[Attached]:
        query = "SELECT container, ifname, pci, netns, state, was, config FROM attachments "
        with self._turn:
            rows = self._db.execute(query + where, values).fetchall()
        return [
            Attached(container, ifname, pci, netns, state, Was(**json.loads(was)), json.loads(said))
            for container, ifname, pci, netns, state, was, said in rows
        ]
