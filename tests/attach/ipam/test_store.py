from __future__ import annotations

import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from podrail.attach.ipam.leases import LocalAddresses, stored
from podrail.attach.result import CniError, Code
from tests.attach.ipam.made import ask, pool


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "leases.db"


def _filled(path: Path, leases: int = 400) -> None:
    with LocalAddresses(str(path)) as addresses:
        addresses.allocate_all([ask(n, pool("10.0.0.0/16")) for n in range(leases)])


def test_the_files_are_the_owners_alone(path: Path) -> None:
    path.touch(0o644)
    with LocalAddresses(str(path)) as addresses:
        addresses.allocate(ask())
        made = sorted(path.parent.iterdir())
        assert [one.name for one in made] == ["leases.db", "leases.db-shm", "leases.db-wal"]
        assert [stat.S_IMODE(one.stat().st_mode) for one in made] == [0o600] * 3


def test_it_is_as_durable_as_it_says(path: Path) -> None:
    with LocalAddresses(str(path)) as addresses:
        said = [
            addresses._db.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("journal_mode", "synchronous")
        ]
    assert said == ["wal", 2]


def test_a_link_in_its_place_is_not_followed(path: Path, tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("mine")
    path.symlink_to(tmp_path / "victim")
    with pytest.raises(CniError, match="plain file"):
        LocalAddresses(str(path))
    assert (tmp_path / "victim").read_text() == "mine"


def test_no_directory(tmp_path: Path) -> None:
    with pytest.raises(CniError, match="cannot be opened") as no:
        LocalAddresses(str(tmp_path / "none" / "leases.db"))
    assert no.value.code == Code.IO_FAILURE


def _scribbled(path: Path) -> None:
    path.write_bytes(b"this is no database" * 300)


def _torn(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _holed(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[4096 : len(data)] = b"\xff" * (len(data) - 4096)
    path.write_bytes(bytes(data))


@pytest.mark.parametrize("damage", [_scribbled, _torn, _holed])
def test_a_damaged_file_is_named_and_left_alone(path: Path, damage: Callable[[Path], None]) -> None:
    _filled(path)
    damage(path)
    before = path.read_bytes()
    with pytest.raises(CniError, match=r"leases\.db are damaged.*move the file away") as no:
        LocalAddresses(str(path))
    assert no.value.code == Code.IO_FAILURE
    assert path.read_bytes() == before


@settings(max_examples=25)
@example(0)
@example(511)
@example(4094)
@example(4095)
@given(st.integers(0, 2**16))
def test_property_a_torn_file_is_noticed_or_whole(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    """Cut anywhere, it never opens with leases missing."""
    path = tmp_path_factory.mktemp("torn") / "leases.db"
    _filled(path, 60)
    whole, leases = path.read_bytes(), stored(str(path))
    path.write_bytes(whole[: 1 + cut % (len(whole) - 1)])
    try:
        addresses = LocalAddresses(str(path))
    except CniError:
        return
    with addresses:
        assert addresses.leases() == leases


def test_a_file_of_a_newer_podrail(path: Path) -> None:
    _filled(path, 1)
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version=99")
    db.commit()
    db.close()
    with pytest.raises(CniError, match="newer podrail"):
        LocalAddresses(str(path))


def test_a_full_disk_gives_no_address_and_forgets_none(path: Path) -> None:
    with LocalAddresses(str(path)) as addresses:
        addresses.allocate(ask(1))
        pages = addresses._db.execute("PRAGMA page_count").fetchone()[0]
        addresses._db.execute(f"PRAGMA max_page_count={pages}")
        with pytest.raises(CniError, match="make room") as no:
            addresses.allocate_all([ask(f"big{n}") for n in range(250)])
        assert no.value.code == Code.IO_FAILURE
        addresses._db.execute("PRAGMA max_page_count=1000000")
        assert addresses.allocate(ask(2)).address == "10.0.0.2/24"
        assert len(addresses.leases()) == 2


def test_after_the_end_nothing_is_given(path: Path) -> None:
    addresses = LocalAddresses(str(path))
    addresses.close()
    with pytest.raises(CniError, match="is ending") as no:
        addresses.allocate(ask(1))
    assert no.value.code == Code.TRY_AGAIN_LATER
