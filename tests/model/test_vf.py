"""A VF table is the list it was made from, in a fraction of the memory."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podrail.model import vf as module
from podrail.model.vf import Vf, VfTable, pci_address, pci_number

_MACS = st.binary(min_size=6, max_size=6).map(lambda b: b.hex(":"))
_GUIDS = st.binary(min_size=8, max_size=8).map(lambda b: b.hex(":"))
_NUMBERS = st.integers(0, 0xFFFF_FFFF)


@st.composite
def _vfs(draw: st.DrawFn) -> list[Vf]:
    indexes = draw(st.lists(st.integers(0, 200), unique=True, max_size=12))
    return [
        Vf(
            index=index,
            pci=pci_address(draw(_NUMBERS)),
            driver=draw(st.sampled_from([None, "mlx5_core", "vfio-pci"])),
            netdev=draw(st.none() | st.text(max_size=4)),
            mac=draw(st.none() | _MACS | st.sampled_from(["", "AA:BB:CC:DD:EE:FF"])),
            guid=draw(st.none() | _GUIDS | st.text(min_size=23, max_size=23)),
            trust=draw(st.none() | st.booleans()),
            vlan=draw(st.none() | st.integers(0, 1)),
            mtu=draw(st.none() | st.integers(0, 9000)),
        )
        for index in indexes
    ]


@given(_vfs())
def test_a_table_is_the_list_it_was_made_from(vfs: list[Vf]) -> None:
    table, wanted = VfTable(vfs), sorted(vfs, key=lambda vf: vf.index)
    assert list(table) == wanted
    assert len(table) == len(wanted)
    assert [table[i] for i in range(len(table))] == wanted
    assert list(table[1:-1]) == wanted[1:-1]
    assert list(reversed(table)) == wanted[::-1]
    assert [vf.to_json() for vf in table] == [vf.to_json() for vf in wanted]


@given(_vfs())
def test_columns_agree_with_rows(vfs: list[Vf]) -> None:
    table = VfTable(vfs)
    for name in ("index", "pci", "mac", "trust", "vlan"):
        values = [getattr(vf, name) for vf in table]
        assert table.column(name) == values
        assert table.any(name) == any(value is not None for value in values)


@given(_vfs())
def test_booleans_do_not_turn_into_numbers(vfs: list[Vf]) -> None:
    kinds = {type(vf.trust) for vf in VfTable(vfs)} | {type(vf.vlan) for vf in VfTable(vfs)}
    wanted = {type(vf.trust) for vf in vfs} | {type(vf.vlan) for vf in vfs}
    assert kinds == wanted


@given(_vfs())
def test_equal_tables_hash_alike(vfs: list[Vf]) -> None:
    assert VfTable(vfs) == VfTable(vfs[::-1])
    assert hash(VfTable(vfs)) == hash(VfTable(vfs[::-1]))


@given(_NUMBERS)
def test_pci_numbers_and_addresses_are_inverse(number: int) -> None:
    assert pci_number(pci_address(number)) == number


@pytest.mark.parametrize("address", ["0000:3c:00.1", "0001:ff:1f.7", "0000:00:00.0"])
def test_pci_addresses_and_numbers_are_inverse(address: str) -> None:
    assert pci_address(pci_number(address)) == address


@pytest.mark.parametrize("text", ["", "3c:00.1", "0000:3c:00", "0000:3c:xx.0"])
def test_what_is_no_pci_address(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        pci_number(text)


def test_places_outside_the_table() -> None:
    table = VfTable([Vf(0, "0000:3c:00.1")])
    assert table[-1] == table[0]
    for place in (1, -2):
        with pytest.raises(IndexError):
            table[place]
    assert VfTable().column("mac") == []
    assert not VfTable().any("mac")
    assert VfTable().uniform("mac")


def _uniform(node: int) -> VfTable:
    first = pci_number("0000:3c:00.1")
    return VfTable(
        Vf(
            index=i, pci=pci_address(first + i), driver="mlx5_core", netdev=f"ens8f0v{i}",
            rdma=f"mlx5_{i}", mac=f"02:00:00:00:{node:02x}:{i:02x}", mtu=9000, vlan=0, trust=True,
            spoofchk=False, link_state="auto", numa=1,
        )
        for i in range(64)
    )  # fmt: skip


def _size(value: Any, seen: set[int]) -> int:
    """Bytes held by a value alone: what the module shares between tables does not count."""
    if id(value) in seen or isinstance(value, type | str | int | None.__class__):
        return 0
    seen.add(id(value))
    below = [getattr(value, slot) for slot in getattr(type(value), "__slots__", ())]
    below += list(value) if type(value) is tuple else []
    return sys.getsizeof(value) + sum(_size(item, seen) for item in below if not callable(item))


def test_sixty_four_vfs_stay_under_two_kilobytes() -> None:
    _uniform(0)
    shared = {id(v) for v in (*module._shared_same.values(), *module._shared_tuples.values())}
    assert _size(_uniform(1), shared) < 2048
