"""Virtual functions, packed: five million of them across a fleet must fit in memory.

A `VfTable` reads as a sequence of `Vf`, but keeps columns: one value where all VFs agree, an
arithmetic run for PCI addresses, eight bytes for a MAC or GUID, and tuples shared between nodes
for the rest (VF names repeat on every node of a pool).
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any, overload


@dataclass(frozen=True, slots=True)
class Vf:
    """One virtual function as the kernel shows it."""

    index: int
    pci: str
    driver: str | None = None
    netdev: str | None = None
    rdma: str | None = None
    mac: str | None = None
    guid: str | None = None
    mtu: int | None = None
    vlan: int | None = None
    qos: int | None = None
    vlan_proto: str | None = None
    trust: bool | None = None
    spoofchk: bool | None = None
    link_state: str | None = None
    min_tx_rate: int | None = None
    max_tx_rate: int | None = None
    numa: int | None = None
    iommu_group: int | None = None
    holder: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _COLUMNS}


_COLUMNS = tuple(f.name for f in fields(Vf))
_OCTETS = re.compile(r"[0-9a-f]{2}(?::[0-9a-f]{2}){5}(?:(?::[0-9a-f]{2}){2})?")


def pci_number(address: str) -> int:
    """`0000:3c:00.1` as the routing id with its domain above it; ValueError if it is none."""
    domain, bus, rest = address.split(":")
    device, function = rest.split(".")
    return int(domain, 16) << 16 | int(bus, 16) << 8 | int(device, 16) << 3 | int(function, 16)


def pci_address(number: int) -> str:
    """The inverse of `pci_number`."""
    return f"{number >> 16:04x}:{number >> 8 & 0xFF:02x}:{number >> 3 & 0x1F:02x}.{number & 7}"


class _Run(Sequence[Any]):
    """An arithmetic run: indexes, or PCI addresses at a VF offset and stride."""

    __slots__ = ("_count", "_first", "_of", "_step")

    def __init__(self, first: int, step: int, count: int, of: Any) -> None:
        self._first, self._step, self._count, self._of = first, step, count, of

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, at: Any) -> Any:
        return self._of(self._first + self._step * at)


class _Hex(Sequence[Any]):
    """MACs or GUIDs as eight-byte integers."""

    __slots__ = ("_octets", "numbers")

    def __init__(self, values: Sequence[str]) -> None:
        self._octets = len(values[0].split(":"))
        self.numbers = array("Q", (int(v.replace(":", ""), 16) for v in values))

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, at: Any) -> str:
        number: int = self.numbers[at]
        return number.to_bytes(self._octets, "big").hex(":")


class _Same(Sequence[Any]):
    """One value for all."""

    __slots__ = ("_value",)

    def __init__(self, value: Any) -> None:
        self._value = value

    def __len__(self) -> int:
        return 0

    def __getitem__(self, at: Any) -> Any:
        return self._value


_shared_same: dict[tuple[type, Any], _Same] = {}
_shared_tuples: dict[tuple[str, tuple[Any, ...]], tuple[Any, ...]] = {}
_SHARED_LIMIT = 65536


def _same(value: Any) -> _Same:
    key = (type(value), value)
    found = _shared_same.get(key)
    if found is None:
        found = _Same(value)
        if len(_shared_same) < _SHARED_LIMIT:
            _shared_same[key] = found
    return found


def _run_of(numbers: Sequence[int], of: Any) -> Sequence[Any] | None:
    step = numbers[1] - numbers[0]
    linear = all(b - a == step for a, b in pairwise(numbers))
    return _Run(numbers[0], step, len(numbers), of) if linear else None


def _hex_of(values: Sequence[Any]) -> Sequence[Any] | None:
    """Packs `aa:bb:…` of six or eight octets; anything else stays text."""
    alike = all(isinstance(v, str) and len(v) == len(values[0]) for v in values)
    return _Hex(values) if alike and all(map(_OCTETS.fullmatch, values)) else None


def _pack(name: str, values: Sequence[Any]) -> Sequence[Any]:
    if values.count(values[0]) == len(values):
        return _same(values[0])
    packed: Sequence[Any] | None = None
    if name == "index":
        packed = _run_of(values, int)
    elif name == "pci":
        packed = _run_of([pci_number(v) for v in values], pci_address)
    elif name in ("mac", "guid"):
        packed = _hex_of(values)
    if packed is not None:
        return packed
    column = tuple(values)
    if len(_shared_tuples) < _SHARED_LIMIT:
        # by name too: (True, False) and (1, 0) are equal, and yet not the same column
        return _shared_tuples.setdefault((name, column), column)
    return column


def _is_many(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


class VfTable(Sequence[Vf]):
    """The VFs of one PF, in order of index."""

    __slots__ = ("_columns", "_count")

    def __init__(self, vfs: Iterable[Vf] = ()) -> None:
        rows = sorted(vfs, key=lambda vf: vf.index)
        self._count = len(rows)
        self._columns: tuple[Sequence[Any], ...] = (
            tuple(_pack(name, [getattr(vf, name) for vf in rows]) for name in _COLUMNS)
            if rows
            else ()
        )

    def column(self, name: str) -> list[Any]:
        """One field of every VF, without building the VFs."""
        if not self._count:
            return []
        packed = self._columns[_COLUMNS.index(name)]
        return [packed[i] for i in range(self._count)]

    def columns(self, *names: str) -> Iterator[tuple[Any, ...]]:
        """Some fields of every VF, row by row."""
        return zip(*(self.column(name) for name in names), strict=True)

    def any(self, name: str) -> bool:
        """Whether any VF has a value in this field; constant time where all agree."""
        if not self._count:
            return False
        packed = self._columns[_COLUMNS.index(name)]
        if isinstance(packed, _Same):
            return packed[0] is not None
        return any(packed[i] is not None for i in range(self._count))

    def uniform(self, name: str) -> bool:
        """Whether all VFs agree on this field."""
        return not self._count or isinstance(self._columns[_COLUMNS.index(name)], _Same)

    def shape(self, *names: str) -> tuple[Any, ...] | None:
        """A key that equal columns share; None where a column is this table's alone."""
        if not self._count:
            return ()
        columns = tuple(self._columns[_COLUMNS.index(name)] for name in names)
        if any(isinstance(c, _Hex | _Run) for c in columns):
            return None
        return (self._count, *columns)

    def has_zero_guid(self) -> bool:
        """Whether any VF still has the all-zero GUID it is born with."""
        if not self._count:
            return False
        packed = self._columns[_COLUMNS.index("guid")]
        if isinstance(packed, _Hex):
            return 0 in packed.numbers
        found = {packed[0]} if isinstance(packed, _Same) else set(packed)
        return any(g is not None and not g.replace(":", "").strip("0") for g in found)

    @classmethod
    def from_columns(cls, count: int, **columns: Any) -> VfTable:
        """A table from ready columns: a sequence of `count` values, or one value for all."""
        table = cls()
        table._count = count
        columns.setdefault("index", range(count))
        table._columns = tuple(
            _pack(name, list(columns[name]))
            if _is_many(columns.get(name))
            else _same(columns.get(name))
            for name in _COLUMNS
        )
        return table

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, at: int) -> Vf: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Vf]: ...
    def __getitem__(self, at: int | slice) -> Vf | Sequence[Vf]:
        if isinstance(at, slice):
            return [self[i] for i in range(*at.indices(self._count))]
        place = at + self._count if at < 0 else at
        if not 0 <= place < self._count:
            raise IndexError(at)
        return Vf(*(column[place] for column in self._columns))

    def __iter__(self) -> Iterator[Vf]:
        return (self[i] for i in range(self._count))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, VfTable):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash((self._count, *(self[0:1])))

    def __repr__(self) -> str:
        return f"VfTable({list(self)!r})"
