"""`make bench`: every figure with its limit; exit 1 when one is over."""

from __future__ import annotations

import gc
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks import fleet as fleets
from podrail.host.record import RecordingHost
from podrail.inventory import discover
from podrail.planning.planner import Planner

BIN = Path(sys.executable).parent


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured figure against what was promised."""

    what: str
    measured: float
    limit: float
    unit: str

    @property
    def good(self) -> bool:
        return self.measured <= self.limit


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def fastest(argv: list[str], times: int = 15) -> float:
    def once() -> object:
        return subprocess.run(argv, stdout=subprocess.DEVNULL, check=False)

    return min(seconds(once) for _ in range(times))


def planning() -> Iterator[Figure]:
    """A full plan from 100 to 10,000 nodes, then one node changed."""
    policies = fleets.policies()
    print("nodes    VFs        build s   plan s   µs per node")
    for nodes in (100, 1_000, 10_000):
        start = time.perf_counter()
        machines = fleets.fleet(nodes)
        built = time.perf_counter() - start
        gc.collect()
        planner = Planner(policies)
        took = seconds(lambda p=planner, m=machines: p.plan(m))  # type: ignore[misc]
        vfs = sum(len(pf.vfs) for machine in machines for pf in machine.pfs)
        print(f"{nodes:<8} {vfs:<10} {built:<9.2f} {took:<8.3f} {took / nodes * 1e6:.1f}")
    yield Figure("full plan, 10,000 nodes × 8 PFs × 64 VFs, 40 policies", took, 5.0, "s")
    worst = fleets.unlike(500)
    took = seconds(lambda: Planner(policies).plan(worst))
    yield Figure("full plan, 500 nodes, no two alike, a pod on every VF", took, 0.5, "s")
    one = fleets.changed(machines[1234])
    yield Figure("one node changed", seconds(lambda: planner.node(one)) * 1e3, 5.0, "ms")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    yield Figure("peak memory of the 10,000-node plan", peak, 1.5, "GB")


def starting() -> Iterator[Figure]:
    """What the shell waits for."""
    bare = fastest([sys.executable, "-c", "pass"])
    podrail = fastest([str(BIN / "podrail"), "--help"])
    yield Figure("podrail --help, in bare interpreter starts", podrail / bare, 6.0, "×")


def discovering() -> Iterator[Figure]:
    """A recorded machine with 16 PFs and 1,024 VFs, from the command line."""
    from podrail.host.twins.scale import scaled

    recording = RecordingHost(scaled(16, 64))
    inventory = discover(recording)
    assert sum(len(pf.vfs) for pf in inventory.pfs) == 1024
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder) / "machine.json"
        record.write_text(recording.dump(), encoding="utf-8")
        took = fastest([str(BIN / "podrail"), "discover", "--host", str(record)], times=5)
    yield Figure("discover of a record, 16 PFs and 1,024 VFs", took, 1.0, "s")


def realising() -> Iterator[Figure]:
    """VFs made on a big twin, and an agent that has nothing to do."""
    from benchmarks import lab_overhead
    from benchmarks.realise import apply_on_twin, idle_agent

    print("\nVFs on 16 PFs   apply s   again s   reset s   µs per VF")
    told = [apply_on_twin(vfs) for vfs in (8, 32, 128)]
    for one in told:
        each = one.apply / one.vfs * 1e6
        print(f"{one.vfs:<15} {one.apply:<9.2f} {one.again:<9.2f} {one.reset:<9.2f} {each:.0f}")
    yield Figure("apply on a twin, 16 PFs × 128 VFs", told[-1].apply, 4.0, "s")
    growth = (told[-1].apply / told[-1].vfs) / (told[1].apply / told[1].vfs)
    yield Figure("cost of a VF at 2,048 VFs, against 512", growth, 2.0, "×")
    overhead = lab_overhead.measure()
    if overhead is not None:
        yield Figure("apply in the lab, against a bare script", overhead.ratio, 1.15, "×")
    if os.geteuid() == 0:
        idle = idle_agent()
        yield Figure("agent with nothing to do, of one core", idle.cpu * 100, 0.5, "%")
        yield Figure("agent with nothing to do, resident", idle.megabytes / 1.048576, 80.0, "MiB")
    else:
        print("agent not measured: it needs root")


def main() -> int:
    figures = [*starting(), *discovering(), *planning(), *realising()]
    print(f"\n{'figure':<58} {'measured':>10} {'limit':>8}")
    for figure in figures:
        verdict = "ok" if figure.good else "OVER"
        print(
            f"{figure.what:<58} {figure.measured:>7.2f} {figure.unit:<2} "
            f"{figure.limit:>6g} {figure.unit:<2} {verdict}"
        )
    return 0 if all(figure.good for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
