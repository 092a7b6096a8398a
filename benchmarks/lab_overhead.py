"""What podrail costs above the kernel: VFs made by the engine against a bare script, in a lab node.

Both make the same writes to sysfs, wait for udev in the same way and call `ip` alike. The engine
also writes its journal to the disk, before each step and with full synchronisation, looks for
holders, reads what the undo will need, and sees that everything came true.

The file is both ends: `measure` runs here and carries the file into a node, where `main` runs.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from podrail.lab.host import LabHost
    from podrail.realise.journal import Job

PF = "0000:81:00.0"
VFS = 4
ROUNDS = 5
LIMIT = 1.15

_AT = Path("/sys/bus/pci/devices")
_PLACE = "/run/podrail-overhead.py"
_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Overhead:
    """Seconds of every round, the bare script and the engine in turns."""

    raw: tuple[float, ...]
    engine: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """Fastest against fastest: on two busy cores whatever disturbs a round only adds to it."""
        return min(self.engine) / min(self.raw)

    @property
    def typical(self) -> float:
        """Median against median."""
        return statistics.median(self.engine) / statistics.median(self.raw)


# --- here -------------------------------------------------------------------------------------


def measure(lab: str | None = None, rounds: int = ROUNDS) -> Overhead | None:
    """In a lab that is up, or in one booted for it; None, said loudly, where none can be."""
    from podrail.model.errors import PodrailError

    try:
        with _node(lab) as host:
            return measure_on(host, rounds)
    except PodrailError as no:
        print(f"NOT MEASURED: overhead over raw sysfs writes: no lab can run here: {no}")
        return None


def measure_on(host: LabHost, rounds: int = ROUNDS) -> Overhead:
    """In this node."""
    host.place(_PLACE, Path(__file__).read_text(encoding="utf-8"))
    argv = ["python3", "-IS", _PLACE, PF, str(VFS), str(rounds)]
    ran = host.run(argv, timeout=_SECONDS)
    host.unlink(_PLACE)
    if ran.rc:
        raise RuntimeError(f"{' '.join(argv)}: {ran.stderr}")
    told = json.loads(ran.stdout.splitlines()[-1])
    return Overhead(tuple(told["raw"]), tuple(told["engine"]))


@contextmanager
def _node(lab: str | None) -> Iterator[LabHost]:
    from podrail.cli.lab import bring_up
    from podrail.lab import lifecycle
    from podrail.lab.host import LabHost

    name = lab or f"bench-{os.getpid()}"
    state = lifecycle.find(f"{name}/node1")[0] if lab else bring_up(name, 2)
    try:
        with LabHost("node1", state.address("node1")) as host:
            yield host
    finally:
        if not lab:
            lifecycle.down(name)


# --- in the node ------------------------------------------------------------------------------


def main(pf: str, count: int, rounds: int) -> None:
    """Print the seconds of both, in turns."""
    sys.path[:0] = ["/opt/podrail/src", "/opt/podrail/site"]
    took: dict[str, list[float]] = {"raw": [], "engine": []}
    for _ in range(rounds):
        for name, work in (("raw", _raw), ("engine", _engine)):
            _bare(pf)
            took[name].append(work(pf, count))
    _bare(pf)
    print(json.dumps(took))


def _name(pf: str) -> str:
    (name,) = os.listdir(_AT / pf / "net")
    return name


def _bare(pf: str) -> None:
    """No VFs, and the PF down."""
    subprocess.run(["ip", "link", "set", _name(pf), "down"], check=True)
    if (_AT / pf / "sriov_numvfs").read_text().strip() != "0":
        (_AT / pf / "sriov_numvfs").write_text("0")
    subprocess.run(["udevadm", "settle"], check=True)


def _raw(pf: str, count: int) -> float:
    """What a careful shell script does."""
    start = time.monotonic()
    (_AT / pf / "sriov_numvfs").write_text(str(count))
    subprocess.run(["udevadm", "settle"], check=True)
    name = _name(pf)
    lines = [f"link set dev {name} vf {i} mac {_mac(pf, i)}\n" for i in range(count)]
    subprocess.run(["ip", "-batch", "-"], input="".join(lines).encode(), check=True)
    subprocess.run(["ip", "link", "set", name, "up"], check=True)
    return time.monotonic() - start


def _mac(pf: str, index: int) -> str:
    vf = (_AT / pf / f"virtfn{index}").resolve().name
    return (_AT / vf / "net" / _name(vf) / "address").read_text().strip()


def _engine(pf: str, count: int) -> float:
    """The same through the journal: the steps of a plain policy."""
    import podrail.realise.kinds  # noqa: F401 - enters every kind of step in the registry
    from podrail.host.linux import LinuxHost
    from podrail.realise.engine import Work
    from podrail.realise.state import State

    with tempfile.TemporaryDirectory(dir="/var/tmp") as place, State(place) as state:
        job = _job(pf, count)
        start = time.monotonic()
        run = state.journal.open_run("apply", "", [job])
        outcome = Work(LinuxHost(), state.journal, run, job, "apply").forward()
        took = time.monotonic() - start
    assert outcome.good, outcome
    return took


def _job(pf: str, count: int) -> Job:
    from podrail.realise.journal import Job
    from podrail.realise.step import Step

    keys = [str(index) for index in range(count)]
    wanted = (
        ("vfs", count),
        ("autoprobe", True),
        ("vf-driver", dict.fromkeys(keys, "netdevice")),
        ("vf-mac", dict.fromkeys(keys, "its own")),
        ("link", "up"),
    )
    return Job(pf, tuple(Step(kind, pf, to) for kind, to in wanted))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
