"""The addresses of one machine, in SQLite.

Requests that wait together are written in one transaction, so the disk is flushed once for many
of them (`commit`). What is free is kept in memory and is only a reading of the database: where
another process has written, or a commit failed, it is dropped and read again.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from ipaddress import ip_address, ip_interface
from typing import Any, Self

from podrail.attach.ipam.addresses import AddressRequest, Lease, Owner
from podrail.attach.ipam.commit import GroupCommit, Ticket
from podrail.attach.ipam.pool import Address, Free, Range
from podrail.attach.ipam.store import Leases, Row, explained, open_store, read_store, scope_of
from podrail.attach.result import CniError, Code, short

_KEPT_RANGES = 256
_NAMED = 5
"""Owners a message names."""


class PoolFull(CniError):
    """No address left. It says who has them."""

    def __init__(self, ranges: tuple[Range, ...], msg: str = "") -> None:
        super().__init__(Code.TRY_AGAIN_LATER, msg or f"{ranges[0].name} is full")
        self.ranges = ranges

    def __reduce__(self) -> Any:
        return type(self), (self.ranges, self.msg)


class LocalAddresses:
    """Leases in a file; any number of threads, and other processes beside. See `Addresses`."""

    def __init__(
        self, path: str, *, alive: Callable[[Owner], bool] | None = None,
        at_point: Callable[[str], None] | None = None,
    ) -> None:  # fmt: skip
        """`alive` lets a full pool say whose addresses could be reclaimed; `at_point` is told of
        every moment at which the process may die."""
        self.path, self._alive = path, alive
        self._point = at_point or (lambda _: None)
        self._db = open_store(path)
        self._table = Leases(self._db)
        self._free: OrderedDict[Range, Free] = OrderedDict()
        self._seen = -1
        self._group = GroupCommit(self._turn)

    def close(self) -> None:
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- what is asked ------------------------------------------------------------------------

    def allocate(self, request: AddressRequest) -> Lease:
        return self.allocate_all((request,))[0]

    def allocate_all(self, requests: Sequence[AddressRequest]) -> list[Lease]:
        for request in requests:
            _check(request)
        try:
            return self._group.do(partial(self._give_all, requests))
        except PoolFull as full:
            raise self._who_has(full.ranges) from None

    def release(self, owner: Owner) -> list[Lease]:
        if not _storable(owner):
            return []
        return self._group.do(lambda: self._drop(self._table.of(owner)))

    def held(self, owner: Owner) -> list[Lease]:
        return [row.lease for row in self._read(lambda table: table.of(owner))]

    def leases(self) -> list[Lease]:
        return stored(self.path)

    def reclaim(self, alive: Callable[[Owner], bool]) -> list[Lease]:
        rows = self._read(Leases.all)
        living = {owner: alive(owner) for owner in {row.lease.owner for row in rows}}
        gone = [row for row in rows if not living[row.lease.owner]]
        return self._group.do(lambda: self._drop(gone)) if gone else []

    def _read(self, ask: Callable[[Leases], list[Row]]) -> list[Row]:
        """Readers have a connection of their own, and wait for no writer."""
        with explained(self.path), contextlib.closing(read_store(self.path)) as db:
            return ask(Leases(db))

    # --- one transaction ----------------------------------------------------------------------

    def _turn(self, batch: Sequence[Ticket[Any]]) -> None:
        try:
            with explained(self.path):
                self._commit(batch)
        except BaseException:
            self._free.clear()
            with contextlib.suppress(sqlite3.Error):
                self._db.rollback()
            raise

    def _commit(self, batch: Sequence[Ticket[Any]]) -> None:
        self._db.execute("BEGIN IMMEDIATE")
        version = self._table.version()
        if version != self._seen:
            self._free.clear()
            self._seen = version
        for ticket in batch:
            self._one(ticket)
        self._point("written")
        self._db.execute("COMMIT")
        self._point("committed")

    def _one(self, ticket: Ticket[Any]) -> None:
        """What one request cannot have is no matter of the others in its batch."""
        self._db.execute("SAVEPOINT one")
        before = self._db.total_changes
        try:
            ticket.answer = ticket.work()
        except (CniError, ValueError, TypeError) as no:
            if self._db.total_changes != before:
                self._db.execute("ROLLBACK TO one")
                self._free.clear()
            ticket.failure = no
        self._db.execute("RELEASE one")

    def _give_all(self, requests: Sequence[AddressRequest]) -> list[Lease]:
        return [self._give(request) for request in requests]

    def _give(self, request: AddressRequest) -> Lease:
        for range_, address in _asked(request):
            return self._give_static(request.owner, range_, address)
        for range_ in request.pools:
            for row in self._table.mine(request.owner, range_.name):
                if not row.asked and ip_address(row.packed) in range_.network:
                    return self._table.renew(row, request.owner, range_)
        for range_ in request.pools:
            number = self._free_of(range_).next()
            if number is not None:
                return self._give_next(request.owner, range_, range_.address(number))
        raise PoolFull(request.pools)

    def _give_next(self, owner: Owner, range_: Range, address: Address) -> Lease:
        lease = self._table.insert(owner, range_, address, asked=False)
        self._table.advance(range_.name, address)
        for free in self._around(range_.name, scope_of(range_), address):
            free.take(int(address))
            if free.range.name == range_.name:
                free.last = int(address)
        return lease

    def _give_static(self, owner: Owner, range_: Range, address: Address) -> Lease:
        row = self._table.holder(address, range_)
        if row is None:
            lease = self._table.insert(owner, range_, address, asked=True)
            for free in self._around(range_.name, scope_of(range_), address):
                free.take(int(address))
            return lease
        had = row.lease.owner
        if (had.identity, had.ifname) == (owner.identity, owner.ifname):
            return self._table.renew(row, owner, range_)
        raise CniError(
            Code.TRY_AGAIN_LATER,
            f"{address} was asked for, but {had.shown} has it (pool {row.lease.pool}): ask for "
            "another address, or end that pod first",
        )

    def _drop(self, rows: Sequence[Row]) -> list[Lease]:
        return [row.lease for row in rows if self._drop_one(row)]

    def _drop_one(self, row: Row) -> bool:
        if not self._table.delete(row):
            return False
        address = ip_address(row.packed)
        for free in self._around(row.lease.pool, row.scope, address):
            if self._table.holder(address, free.range) is None:
                free.give_back(int(address))
        return True

    # --- what is free -------------------------------------------------------------------------

    def _free_of(self, range_: Range) -> Free:
        free = self._free.get(range_)
        if free is None:
            taken, last = self._table.taken(range_), self._table.cursor(range_.name)
            free = self._free[range_] = Free(range_, taken, last)
            if len(self._free) > _KEPT_RANGES:
                self._free.popitem(last=False)
        self._free.move_to_end(range_)
        return free

    def _around(self, pool: str, scope: str, address: Address) -> Iterator[Free]:
        """The ranges in memory that an address of this pool and scope concerns."""
        for range_, free in self._free.items():
            if (pool == range_.name or scope == scope_of(range_)) and address in range_.network:
                yield free

    def _who_has(self, ranges: tuple[Range, ...]) -> PoolFull:
        names = {range_.name for range_ in ranges}
        leases = [row.lease for row in self._read(Leases.all) if row.lease.pool in names]
        return PoolFull(ranges, _full(ranges, leases, self._alive))


def stored(path: str) -> list[Lease]:
    """The leases in a file, for whoever only looks; the oldest first."""
    with explained(path), contextlib.closing(read_store(path)) as db:
        return [row.lease for row in Leases(db).all()]


def _check(request: AddressRequest) -> None:
    owner = request.owner
    if not owner.container_id or not owner.ifname or not _storable(owner):
        raise CniError(
            Code.INVALID_ENVIRONMENT,
            f"an address belongs to a container and an interface, and got {short(owner.shown)}: "
            "set CNI_CONTAINERID and CNI_IFNAME, and write CNI_ARGS in UTF-8",
        )
    if not request.pools or any(not range_.name for range_ in request.pools):
        raise CniError(Code.INVALID_CONFIG, "no pool to take an address from: name one in `ipam`")
    _asked(request)


def _storable(owner: Owner) -> bool:
    """Whether it is text; bytes of the environment that are none come as lone surrogates."""
    try:
        "".join((owner.container_id, owner.ifname, owner.pod_uid, owner.pod)).encode()
    except UnicodeEncodeError:
        return False
    return True


def _asked(request: AddressRequest) -> list[tuple[Range, Address]]:
    """The addresses named, each with the range whose network it is in."""
    found = [(range_, at) for range_ in request.pools for at in _parsed(request.static)
             if range_.hosts(at)]  # fmt: skip
    if request.static and not found:
        nets = ", ".join(str(range_.network) for range_ in request.pools)
        raise CniError(
            Code.INVALID_CONFIG,
            f"{', '.join(request.static)} was asked for, which is no host address of {nets}: ask "
            "for one of the pool, or for none",
        )
    return found


def _parsed(texts: Sequence[str]) -> list[Address]:
    try:
        return [ip_interface(text).ip for text in texts]
    except ValueError as no:
        raise CniError(
            Code.INVALID_CONFIG, f"an address was asked for that is none ({no}): write 10.0.0.5"
        ) from None


def _full(
    ranges: tuple[Range, ...], leases: Sequence[Lease], alive: Callable[[Owner], bool] | None
) -> str:
    size = sum(range_.size for range_ in ranges)
    where = ", ".join(range_.shown for range_ in ranges)
    told = f"pool {ranges[0].name} is full: all {size} addresses ({where}) are given out"
    if alive is None:
        return f"{told}. Longest held by {_named(leases)}. {_WIDEN}"
    gone = [lease for lease in leases if not alive(lease.owner)]
    if not gone:
        return f"{told}, and every owner is alive. {_WIDEN}"
    return f"{told}. {len(gone)} can be reclaimed, their pods are gone: {_named(gone)}"


_WIDEN = "Reclaim what belongs to pods that are gone, or give the network a wider range"


def _named(leases: Sequence[Lease]) -> str:
    named = [f"{lease.owner.shown} ({lease.address})" for lease in leases[:_NAMED]]
    more = len(leases) - _NAMED
    return ", ".join([*named, f"{more} more"] if more > 0 else named) or "nobody in this pool"
