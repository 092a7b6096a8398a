"""A large machine in one go, and the cost per VF."""

from __future__ import annotations

import time
from pathlib import Path

from podrail.host.twins.scale import scaled
from tests.realise.support import Bench, good, policy, same, tree

GENEROUS = 60.0


def wish(count: int) -> str:
    whole = policy("p", "x", count, isRdma=True, mtu=9000)
    return whole.replace('{"pfNames": ["x"]}', '{"vendor": "15b3"}')


def _applied(pfs: int, vfs: int, place: Path) -> tuple[Bench, float]:
    bench = Bench(scaled(pfs, 0), place)
    began = time.process_time()
    outcomes = bench.apply(wish(vfs))
    took = time.process_time() - began
    good(outcomes)
    assert len(outcomes) == pfs
    return bench, took


def test_16_pfs_of_128_vfs(tmp_path: Path) -> None:
    bench, took = _applied(16, 128, tmp_path)
    pfs = [f for f in bench.host.functions.values() if f.vfs]
    assert [len(pf.vfs) for pf in pfs] == [128] * 16
    assert {bench.host.driver(vf) for pf in pfs for vf in pf.vfs} == {"mlx5_core"}
    mtus = {bench.host.text(f"/sys/class/net/{vf.netdev}/mtu") for pf in pfs for vf in pf.vfs}
    assert mtus == {"9000"}
    assert took < GENEROUS


def test_a_large_machine_comes_back_as_found(tmp_path: Path) -> None:
    found = tree(scaled(6, 0))
    bench, _ = _applied(6, 40, tmp_path)
    assert bench.apply(wish(40)) == []
    good(bench.reset())
    same(found, tree(bench.host))


def test_the_cost_grows_with_the_vfs_and_no_faster(tmp_path: Path) -> None:
    """Four times the VFs may cost eight times as much; a square would be sixteen."""
    _, small = _applied(4, 32, tmp_path / "small")
    _, large = _applied(4, 128, tmp_path / "large")
    assert large < 8 * small + 0.2
