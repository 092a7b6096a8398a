"""kill -9 in the middle, with real processes: no lease that was told is lost, none given twice."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from podrail.attach.ipam.leases import LocalAddresses, PoolFull
from tests.attach.ipam.made import ask, owner
from tests.attach.ipam.storm import POOL

STORM = [sys.executable, "-m", "tests.attach.ipam.storm"]
ROOT = Path(__file__).resolve().parents[3]


@dataclass
class _Told:
    """What the processes said before they died."""

    surely: dict[str, str] = field(default_factory=dict)
    perhaps: dict[str, str] = field(default_factory=dict)
    """On the way back when the end came: either is right."""

    def hear(self, line: str) -> None:
        sign, name, address = line.split()
        if sign == "+":
            self.surely[name] = address
        elif sign == "?":
            self.perhaps[name] = self.surely.pop(name)
        else:
            del self.perhaps[name]


def _run(path: Path, told: _Told, lines: int, threads: int = 8, point: int = 0) -> int:
    """Start a storm, end it after so many lines (or let it end itself) and hear all it said."""
    argv = [*STORM, str(path), str(threads), *([str(point)] if point else [])]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, cwd=ROOT) as child:
        assert child.stdout
        for number, line in enumerate(child.stdout):
            if number == lines:
                child.kill()
            if line.endswith("\n"):
                told.hear(line)
    return child.returncode


def _judge(path: Path, told: _Told) -> None:
    with LocalAddresses(str(path)) as addresses:
        leases = {lease.owner.container_id: lease.address for lease in addresses.leases()}
        assert len(set(leases.values())) == len(leases)
        for name, address in told.surely.items():
            assert leases[f"c{name}"] == address
        for name in list(told.surely)[:20]:
            assert addresses.allocate(ask(name, POOL)).address == told.surely[name]


def test_killed_again_and_again(tmp_path: Path) -> None:
    path, told = tmp_path / "leases.db", _Told()
    for lines in (1, 40, 150, 400):
        assert _run(path, told, lines) == -9
        _judge(path, told)
    assert len(told.surely) > 200


@pytest.mark.parametrize("point", range(1, 13))
def test_killed_at_every_point(tmp_path: Path, point: int) -> None:
    """Odd points lie before a commit, even ones after it and before anybody is told."""
    path, told = tmp_path / "leases.db", _Told()
    assert _run(path, told, lines=-1, threads=1, point=point) == -9
    _judge(path, told)
    assert len(told.surely) + len(told.perhaps) <= point // 2 + 1


def test_no_address_is_lost(tmp_path: Path) -> None:
    """What a dead process had on the way is either a lease that can be reclaimed, or free."""
    path, told = tmp_path / "leases.db", _Told()
    assert _run(path, told, 300) == -9
    with LocalAddresses(str(path)) as addresses:
        before = len(addresses.leases())
        assert len(addresses.reclaim(lambda who: False)) == before
        every = addresses.allocate_all([ask(n, POOL) for n in range(POOL.size)])
        assert len({lease.address for lease in every}) == POOL.size
        with pytest.raises(PoolFull):
            addresses.allocate(ask("one more", POOL))
        assert len(addresses.release(owner(0))) == 1


def test_two_processes_at_once(tmp_path: Path) -> None:
    path = tmp_path / "leases.db"
    children = [
        subprocess.Popen([*STORM, str(path), "4"], stdout=subprocess.PIPE, text=True, cwd=ROOT)
        for _ in range(2)
    ]
    told = _Told()
    for child in children:
        with child:
            assert child.stdout
            for number, line in enumerate(child.stdout):
                if number == 100:
                    child.kill()
                if line.endswith("\n"):
                    told.hear(line)
    _judge(path, told)
    assert len(told.surely) > 60
