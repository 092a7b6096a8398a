"""How many addresses a second, durably, and what a fuller pool costs; host-local beside it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import ip_network
from pathlib import Path

from podrail.attach.ipam.addresses import AddressRequest, Owner
from podrail.attach.ipam.leases import LocalAddresses
from podrail.attach.ipam.pool import Range, whole

_PLACES = ("/opt/cni/bin", "/usr/lib/cni", "/usr/libexec/cni")


@dataclass(frozen=True, slots=True)
class Rate:
    """Addresses given by many workers at once."""

    workers: int
    per_second: float
    p50: float
    p99: float
    """Seconds."""


def measure(workers: int, each: int = 100) -> Rate:
    """Our own leases: every worker asks `each` times, every answer is on disk."""
    with _leases() as addresses:
        pool = _pool("10.0.0.0/8")

        def give(name: str) -> None:
            addresses.allocate(AddressRequest(Owner(name, "net1"), (pool,)))

        rate = _rate(workers, each, give)
        assert len({lease.address for lease in addresses.leases()}) == workers * each
    return rate


def measure_host_local(workers: int, each: int = 8) -> Rate | None:
    """The same by the installed plugin; None where there is none."""
    plugin = shutil.which("host-local", path=_path())
    if plugin is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        config = _host_local(folder)

        def give(name: str) -> None:
            _exec(plugin, config, name)

        return _rate(workers, each, give)


def growth(fills: tuple[int, ...] = (10, 1_000, 100_000), times: int = 300) -> dict[int, float]:
    """Microseconds for one more address in pools that already gave so many: the disk's part is in
    all of them alike. Every third lease is given back first, so that what is taken has holes."""
    return {leases: _filled(leases, times) * 1e6 for leases in fills}


def _filled(leases: int, times: int) -> float:
    with _leases() as addresses:
        pool = _pool("10.0.0.0/8")
        for start in range(0, leases, 1000):
            names = [f"old{number}" for number in range(start, min(start + 1000, leases))]
            addresses.allocate_all([AddressRequest(Owner(n, "net1"), (pool,)) for n in names])
        gone = {f"old{number}" for number in range(0, leases, 3)}
        addresses.reclaim(lambda owner: owner.container_id not in gone)
        took = [
            _seconds(lambda n=number: addresses.allocate(_ask(f"new{n}", pool)))  # type: ignore[misc]
            for number in range(times)
        ]
    return sorted(took)[times // 2]


def _ask(name: str, pool: Range) -> AddressRequest:
    return AddressRequest(Owner(name, "net1"), (pool,))


def _pool(network: str) -> Range:
    return whole(ip_network(network), f"bench:{network}")


@contextmanager
def _leases() -> Iterator[LocalAddresses]:
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalAddresses(str(Path(folder) / "leases.db")) as addresses,
    ):
        yield addresses


def _rate(workers: int, each: int, give: Callable[[str], None]) -> Rate:
    took: list[float] = []
    ready = threading.Barrier(workers + 1)

    def work(worker: int) -> None:
        ready.wait()
        took.extend([_seconds(lambda n=n: give(f"c{worker}-{n}")) for n in range(each)])  # type: ignore[misc]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(workers)]
    for thread in threads:
        thread.start()
    ready.wait()
    start = time.perf_counter()
    for thread in threads:
        thread.join()
    whole_time = time.perf_counter() - start
    assert len(took) == workers * each, "a worker failed"
    took.sort()
    return Rate(workers, len(took) / whole_time, took[len(took) // 2], took[len(took) * 99 // 100])


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _path() -> str:
    return os.pathsep.join([*filter(None, [os.environ.get("CNI_PATH")]), *_PLACES])


def _host_local(folder: str) -> bytes:
    ipam = {"type": "host-local", "subnet": "10.0.0.0/8", "dataDir": folder}
    return json.dumps(
        {"cniVersion": "1.0.0", "name": "bench", "type": "none", "ipam": ipam}
    ).encode()  # fmt: skip


def _exec(plugin: str, config: bytes, name: str) -> None:
    environment = {
        "CNI_COMMAND": "ADD", "CNI_CONTAINERID": name, "CNI_NETNS": "/proc/self/ns/net",
        "CNI_IFNAME": "net1", "CNI_PATH": str(Path(plugin).parent),
    }  # fmt: skip
    subprocess.run([plugin], input=config, env=environment, capture_output=True, check=True)


def main() -> None:
    """The table of this machine."""
    print(f"{'workers':<9}{'podrail /s':>12}{'p99 ms':>9}{'host-local /s':>16}{'p99 ms':>9}")
    for workers in (1, 16, 64):
        ours, theirs = measure(workers), measure_host_local(workers)
        beside = f"{theirs.per_second:>16.0f}{theirs.p99 * 1e3:>9.1f}" if theirs else f"{'–':>16}"
        print(f"{workers:<9}{ours.per_second:>12.0f}{ours.p99 * 1e3:>9.1f}{beside}")
    print("\nleases    µs for one more")
    for leases, micros in growth().items():
        print(f"{leases:<9} {micros:.0f}")


if __name__ == "__main__":
    main()
