"""The SQLite file with the leases.

WAL mode with full synchronisation: a commit that returned survives a power cut. The key is the
address, so the database itself refuses to give one twice in a scope.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import quote

from podrail.attach.ipam.addresses import Lease, Owner
from podrail.attach.ipam.pool import Address, Range
from podrail.attach.result import CniError, Code

_SCHEMA = """
CREATE TABLE IF NOT EXISTS leases (
  address BLOB NOT NULL, scope TEXT NOT NULL, pool TEXT NOT NULL, prefix INTEGER NOT NULL,
  gateway TEXT NOT NULL, asked INTEGER NOT NULL, identity TEXT NOT NULL,
  container_id TEXT NOT NULL, ifname TEXT NOT NULL, pod_uid TEXT NOT NULL, pod TEXT NOT NULL,
  at REAL NOT NULL, given INTEGER NOT NULL DEFAULT 1, PRIMARY KEY (address, scope)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS by_identity ON leases (identity, ifname);
CREATE INDEX IF NOT EXISTS by_container ON leases (container_id, ifname);
CREATE TABLE IF NOT EXISTS cursors (pool TEXT PRIMARY KEY, last BLOB NOT NULL) WITHOUT ROWID;
"""
_VERSION = 1
_PATIENCE = 30.0
_LEAST = 512
"""Bytes of the smallest page."""
_COLUMNS = "container_id, ifname, pod_uid, pod, address, prefix, gateway, pool, scope, asked, given"


@dataclass(frozen=True, slots=True)
class Row:
    """A lease as it is stored."""

    lease: Lease
    packed: bytes
    scope: str
    asked: bool
    """Somebody named this very address."""
    given: int
    """How often it was given: whoever read the row before the last time knows nothing of it."""


class Leases:
    """The table, seen through one connection."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def of(self, owner: Owner) -> list[Row]:
        """What one sandbox has on one interface."""
        return self._rows("container_id=? AND ifname=?", owner.container_id, owner.ifname)

    def mine(self, owner: Owner, pool: str) -> list[Row]:
        """What a pod has on one interface from one pool, from whichever sandbox."""
        return self._rows(
            "identity=? AND ifname=? AND pool=?", owner.identity, owner.ifname, pool
        )  # fmt: skip

    def holder(self, address: Address, range_: Range) -> Row | None:
        """Who has an address where it may be given only once."""
        found = self._rows(
            "address=? AND (scope=? OR pool=?)", address.packed, scope_of(range_), range_.name
        )
        return found[0] if found else None

    def all(self) -> list[Row]:
        return self._rows("1 ORDER BY at, length(address), address")

    def taken(self, range_: Range) -> list[int]:
        """The addresses of a range that are out, in its own pool and its scope."""
        first, last = range_.first.packed, range_.last.packed
        rows = self._db.execute(
            "SELECT address FROM leases WHERE address BETWEEN ? AND ? AND length(address)=? "
            "AND (scope=? OR pool=?)",
            (first, last, len(first), scope_of(range_), range_.name),
        )
        return [int.from_bytes(row[0], "big") for row in rows]

    def cursor(self, pool: str) -> int | None:
        row = self._db.execute("SELECT last FROM cursors WHERE pool=?", (pool,)).fetchone()
        return int.from_bytes(row[0], "big") if row else None

    def _rows(self, where: str, *values: object) -> list[Row]:
        # `where` is one of the few above, never from outside
        query = f"SELECT {_COLUMNS} FROM leases WHERE {where}"  # noqa: S608
        return [_row(*row) for row in self._db.execute(query, values)]

    def insert(self, owner: Owner, range_: Range, address: Address, *, asked: bool) -> Lease:
        lease = lease_of(owner, range_, address)
        self._db.execute(
            "INSERT INTO leases (address, scope, pool, prefix, gateway, asked, identity, "
            "container_id, ifname, pod_uid, pod, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (address.packed, scope_of(range_), range_.name, range_.network.prefixlen,
             lease.gateway, asked, owner.identity, owner.container_id, owner.ifname,
             owner.pod_uid, owner.pod, time.time()),
        )  # fmt: skip
        return lease

    def renew(self, row: Row, owner: Owner, range_: Range) -> Lease:
        """The same address for the same pod: its sandbox, and the pool around it, may be new."""
        lease = lease_of(owner, range_, ip_address(row.packed))
        self._db.execute(
            "UPDATE leases SET container_id=?, pod_uid=?, pod=?, prefix=?, gateway=?, "
            "given=given+1 WHERE address=? AND scope=?",
            (owner.container_id, owner.pod_uid, owner.pod, range_.network.prefixlen,
             lease.gateway, row.packed, row.scope),
        )  # fmt: skip
        return lease

    def delete(self, row: Row) -> bool:
        """Take a lease away, unless it was given again since it was read."""
        found = self._db.execute(
            "DELETE FROM leases WHERE address=? AND scope=? AND given=? AND container_id=?",
            (row.packed, row.scope, row.given, row.lease.owner.container_id),
        )
        return found.rowcount == 1

    def advance(self, pool: str, address: Address) -> None:
        self._db.execute("INSERT OR REPLACE INTO cursors VALUES (?, ?)", (pool, address.packed))

    def version(self) -> int:
        """A number that changes when another connection has written."""
        return int(self._db.execute("PRAGMA data_version").fetchone()[0])


def scope_of(range_: Range) -> str:
    return range_.scope or range_.name


def lease_of(owner: Owner, range_: Range, address: Address) -> Lease:
    gateway = "" if range_.gateway is None else str(range_.gateway)
    return Lease(owner, f"{address}/{range_.network.prefixlen}", gateway, range_.name)


def _row(
    container_id: str, ifname: str, pod_uid: str, pod: str, packed: bytes, prefix: int,
    gateway: str, pool: str, scope: str, asked: int, given: int,
) -> Row:  # fmt: skip
    owner = Owner(container_id, ifname, pod_uid, pod)
    lease = Lease(owner, f"{ip_address(packed)}/{prefix}", gateway, pool)
    return Row(lease, packed, scope, bool(asked), given)


# --- the file ---------------------------------------------------------------------------------


def open_store(path: str) -> sqlite3.Connection:
    """The database for writing, made if there is none; root's alone, as are its WAL files, which
    SQLite makes with the mode of the database."""
    with explained(path):
        _private(path)
        db = sqlite3.connect(
            path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False
        )  # fmt: skip
        try:
            _prepare(db, path)
        except BaseException:
            db.close()
            raise
    return db


def read_store(path: str) -> sqlite3.Connection:
    """The database for reading, beside whoever writes."""
    with explained(path):
        uri = f"file:{quote(str(Path(path).absolute()))}?mode=ro"
        return sqlite3.connect(uri, uri=True, timeout=_PATIENCE, check_same_thread=False)


def _private(path: str) -> None:
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    fd = os.open(path, flags, 0o600)
    try:
        os.fchmod(fd, 0o600)
        size = os.fstat(fd).st_size
    finally:
        os.close(fd)
    # SQLite takes so small a file for a new one (pager.c:pagerPagecount) and would forget all
    # leases. Only while the first page is being written is it that small, with a journal beside.
    if 0 < size < _LEAST and not os.path.exists(f"{path}-journal"):
        raise sqlite3.DatabaseError(f"it has only {size} bytes")


def _prepare(db: sqlite3.Connection, path: str) -> None:
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA synchronous=FULL")
    version = int(db.execute("PRAGMA user_version").fetchone()[0])
    if version > _VERSION:
        raise CniError(
            Code.IO_FAILURE, f"{path} was written by a newer podrail (format {version}, this one "
            f"knows {_VERSION}): install that version again, or move the file away",
        )  # fmt: skip
    damage = db.execute("PRAGMA quick_check(1)").fetchone()[0]
    if damage != "ok":
        raise sqlite3.DatabaseError(" ".join(damage.split()))
    db.execute("BEGIN IMMEDIATE")
    for statement in _SCHEMA.split(";"):
        db.execute(statement)
    db.execute(f"PRAGMA user_version={_VERSION}")
    db.execute("COMMIT")


@contextlib.contextmanager
def explained(path: str) -> Iterator[None]:
    """SQLite's refusals in the words of somebody who must act on them."""
    try:
        yield
    except sqlite3.OperationalError as no:
        raise CniError(
            Code.IO_FAILURE, f"the address leases {path} cannot be used ({no}): {_advice(str(no))}"
        ) from no
    except sqlite3.ProgrammingError as no:
        raise CniError(
            Code.TRY_AGAIN_LATER, "podrail is ending and gives no more addresses: try again"
        ) from no
    except sqlite3.DatabaseError as no:
        raise CniError(
            Code.IO_FAILURE,
            f"the address leases {path} are damaged ({no}): move the file away; before the next "
            "pod starts, see with `ip -4 addr` in the running pods which addresses are in use, "
            "and exclude those",
        ) from no
    except OSError as no:
        raise CniError(
            Code.IO_FAILURE,
            f"the address leases {path} cannot be opened ({no.strerror}): podrail needs root, a "
            "directory that is there, and a plain file in it",
        ) from no


def _advice(message: str) -> str:
    if "full" in message:
        return "make room on that disk; no address is given that is not written down first"
    if "locked" in message:
        return "another podrail keeps writing; try again when it has ended"
    if "readonly" in message or "unable to open" in message:
        return "podrail needs root and a disk that can be written"
    return "look at the disk it is on"
