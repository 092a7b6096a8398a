"""Many threads, several processes, and any order of things."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podrail.attach.ipam.leases import LocalAddresses, PoolFull, stored
from podrail.attach.ipam.pool import Range
from podrail.attach.result import CniError
from tests.attach.ipam.made import ask, owner, pool

WORKERS = 64


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "leases.db")


@pytest.fixture
def addresses(path: str) -> Iterator[LocalAddresses]:
    with LocalAddresses(path) as found:
        yield found


def test_storm_of_threads_all_unique(addresses: LocalAddresses) -> None:
    wide = pool("10.0.0.0/16", gateway="10.0.0.1")

    def worker(number: int) -> list[str]:
        mine = [addresses.allocate(ask(f"{number}-{n}", wide)).address for n in range(20)]
        for n in range(0, 20, 2):
            assert len(addresses.release(owner(f"{number}-{n}"))) == 1
        return mine[1::2]

    with ThreadPoolExecutor(WORKERS) as crowd:
        kept = [one for mine in crowd.map(worker, range(WORKERS)) for one in mine]
    assert len(set(kept)) == len(kept) == WORKERS * 10
    assert sorted(kept) == sorted(lease.address for lease in addresses.leases())
    assert "10.0.0.1/16" not in kept


def test_a_storm_on_too_small_a_pool_gives_exactly_what_there_is(
    addresses: LocalAddresses,
) -> None:
    def worker(number: int) -> str | None:
        try:
            return addresses.allocate(ask(number, pool("10.0.0.0/27"))).address
        except PoolFull:
            return None

    with ThreadPoolExecutor(WORKERS) as crowd:
        given_ = [one for one in crowd.map(worker, range(WORKERS)) if one]
    assert len(set(given_)) == len(given_) == 30


def test_two_writers_on_one_file(path: str) -> None:
    """Two processes do the same as two objects: each has its own connection and memory."""
    with LocalAddresses(path) as one, LocalAddresses(path) as two:
        given_ = [
            which.allocate(ask(f"{n}-{name}", pool("10.0.0.0/28"))).address
            for n in range(7)
            for name, which in (("one", one), ("two", two))
        ]
        assert len(set(given_)) == 14
        two.release(owner("0-one"))
        assert one.allocate(ask("last", pool("10.0.0.0/28"))).address == given_[0]


def test_another_process_reads_while_this_one_writes(path: str, addresses: LocalAddresses) -> None:
    lease = addresses.allocate(ask(1))
    script = (
        "import json,sys; from podrail.attach.ipam.leases import stored;"
        "print(json.dumps([lease.address for lease in stored(sys.argv[1])]))"
    )
    said = subprocess.run(
        [sys.executable, "-c", script, path], capture_output=True, check=True, timeout=60
    )
    assert json.loads(said.stdout) == [lease.address]


def test_what_is_stored_can_be_read_after_the_end(path: str) -> None:
    with LocalAddresses(path) as addresses:
        lease = addresses.allocate(ask(1))
    assert stored(path) == [lease]


# --- any order of things ----------------------------------------------------------------------

_STEP = st.tuples(
    st.sampled_from(("add", "static", "del", "restart", "reclaim")),
    st.integers(0, 9), st.integers(0, 9),
)  # fmt: skip


@given(st.lists(_STEP, max_size=40))
def test_property_against_a_plain_model(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int, int]]
) -> None:
    path = str(tmp_path_factory.mktemp("leases") / "leases.db")
    small = pool("10.0.0.0/29", gateway="10.0.0.1")
    model: dict[str, str] = {}
    addresses = LocalAddresses(path)
    try:
        for what, number, other in steps:
            if what == "restart":
                addresses.close()
                addresses = LocalAddresses(path)
            else:
                _step(addresses, model, what, number, other, small)
            said = {lease.owner.container_id: lease.address for lease in addresses.leases()}
            assert said == model
            assert len(set(said.values())) == len(said)
    finally:
        addresses.close()


def _step(
    addresses: LocalAddresses,
    model: dict[str, str],
    what: str,
    number: int,
    other: int,
    small: Range,
) -> None:
    name = f"c{number}"
    if what == "del":
        assert [lease.address for lease in addresses.release(owner(number))] == (
            [model.pop(name)] if name in model else []
        )
    elif what == "reclaim":
        addresses.reclaim(lambda who: who.container_id not in (name, f"c{other}"))
        model.pop(name, None), model.pop(f"c{other}", None)
    elif what == "add":
        _add(addresses, model, number, small)
    elif name not in model:
        text = f"10.0.0.{other}"
        if not 1 <= other <= 6:
            with pytest.raises(CniError, match="no host address"):
                addresses.allocate(ask(number, small, static=(text,)))
        elif f"{text}/29" in model.values():
            with pytest.raises(CniError, match="has it"):
                addresses.allocate(ask(number, small, static=(text,)))
        else:
            model[name] = addresses.allocate(ask(number, small, static=(text,))).address
            assert model[name] == f"{text}/29"


def _add(addresses: LocalAddresses, model: dict[str, str], number: int, small: Range) -> None:
    name = f"c{number}"
    free = {f"10.0.0.{n}/29" for n in range(2, 7)} - set(model.values())
    had = addresses.held(owner(number))
    if name in model and had:
        return
    if not free:
        with pytest.raises(PoolFull):
            addresses.allocate(ask(number, small))
        return
    model[name] = addresses.allocate(ask(number, small)).address
    assert model[name] in free
