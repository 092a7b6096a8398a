"""What the program costs that a runtime starts for every CNI request.

All of it in one run, taking turns, since the machine may be busy: a static program that does
nothing, the forwarder against a service written in C that answers at once, the same against the
real server with an empty handler, and the Python twin. Against the first is the forwarder's own
cost; the server's is what the round trip adds.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from podrail.attach.forwarder import build, install

_NOTHING = "int main(void) { return 0; }\n"
_ANSWERING = r"""
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
int main(int argc, char **argv) {
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    static char got[1 << 16];
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (argc < 2 || strlen(argv[1]) >= sizeof at.sun_path) return 1;
    strcpy(at.sun_path, argv[1]);
    if (bind(fd, (struct sockaddr *)&at, sizeof at) || listen(fd, 64)) return 1;
    if (write(1, "ready\n", 6) != 6) return 1;
    for (;;) {
        int client = accept(fd, 0, 0);
        if (client < 0 || read(client, got, sizeof got) <= 0) return 1;
        if (write(client, "0 3\n{}\n", 7) != 7 || close(client)) return 1;
    }
}
"""
_SERVER = """
import os, sys, threading
from podrail.attach.server import Server
with Server(sys.argv[1], lambda request: {"ok": 1}, uids=frozenset({0, os.geteuid()}), tell=str):
    print("ready", flush=True)
    threading.Event().wait()
"""
_ENV = {
    "CNI_COMMAND": "ADD", "CNI_CONTAINERID": "c0ffee" * 10, "CNI_NETNS": "/var/run/netns/bench",
    "CNI_IFNAME": "net1", "CNI_ARGS": "IgnoreUnknown=1;K8S_POD_NAMESPACE=a;K8S_POD_NAME=b",
    "CNI_PATH": "/opt/cni/bin",
}  # fmt: skip
_CONFIG = {
    "cniVersion": "1.0.0", "name": "rails", "type": "sriov", "deviceID": "0000:81:10.2", "vlan": 0,
    "ipam": {"type": "whereabouts", "range": "10.0.0.0/24"}, "logLevel": "info",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Times:
    """Milliseconds from start to exit."""

    what: str
    p50: float
    p99: float

    @classmethod
    def of(cls, what: str, seconds: list[float]) -> Times:
        ordered = sorted(seconds)
        at = [ordered[min(len(ordered) - 1, int(len(ordered) * part))] for part in (0.5, 0.99)]
        return cls(what, at[0] * 1e3, at[1] * 1e3)


@dataclass(frozen=True, slots=True)
class Measured:
    """Everything of one run."""

    nothing: Times
    forwarder: Times
    round_trip: Times
    twin: Times

    @property
    def ratio(self) -> float:
        """The forwarder in static no-op programs, by the median."""
        return self.forwarder.p50 / self.nothing.p50

    @property
    def ratio_p99(self) -> float:
        return self.forwarder.p99 / self.nothing.p99

    def __iter__(self) -> Iterator[Times]:
        return iter((self.nothing, self.forwarder, self.round_trip, self.twin))


def measure(times: int = 400) -> Measured:
    """Needs a C compiler."""
    with tempfile.TemporaryDirectory(prefix="rail-") as folder, contextlib.ExitStack() as stack:
        place = Path(folder)
        stdin = place / "stdin"
        stdin.write_text(json.dumps(_CONFIG), encoding="utf-8")
        quick, real = place / "quick.sock", place / "real" / "cni.sock"
        stack.enter_context(_serving([str(_compiled(place, "answering", _ANSWERING)), str(quick)]))
        stack.enter_context(_serving([sys.executable, "-c", _SERVER, str(real)]))
        forwarder = build.build(place / "sriov", testing=True).path
        runs = {
            "static no-op": _starter(_compiled(place, "nothing", _NOTHING), stdin, quick),
            "forwarder": _starter(forwarder, stdin, quick),
            "forwarder and server, empty handler": _starter(forwarder, stdin, real),
            "Python twin": _starter(_twin(place, quick), stdin, quick),
        }
        return Measured(*_turns(runs, times))


def _turns(runs: dict[str, Callable[[], float]], times: int) -> Iterator[Times]:
    took: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
        run()
    order = list(runs)
    for _ in range(times):
        random.shuffle(order)  # whoever comes after the interpreter finds its caches cold
        for name in order:
            took[name].append(runs[name]())
    return (Times.of(name, seconds) for name, seconds in took.items())


def _compiled(place: Path, name: str, text: str) -> Path:
    source = place / f"{name}.c"
    source.write_text(text, encoding="utf-8")
    return build.build(place / name, source=source).path


def _twin(place: Path, sock: Path) -> Path:
    """Installed as it would be, but for the place of its socket."""
    install.install(place / "bin", names=("sriov",))
    path = place / "bin" / "sriov"
    path.write_text(path.read_text(encoding="utf-8").replace("/run/podrail/cni.sock", str(sock)))
    return path


def _starter(program: Path, stdin: Path, sock: Path) -> Callable[[], float]:
    """posix_spawn and wait: as little of this interpreter as can be."""
    env = _ENV | {"PODRAIL_CNI_SOCKET": str(sock)}
    files = [(os.POSIX_SPAWN_OPEN, 0, str(stdin), os.O_RDONLY, 0),
             (os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)]  # fmt: skip

    def once() -> float:
        start = time.perf_counter()
        pid = os.posix_spawn(program, [str(program)], env, file_actions=files)
        status = os.waitpid(pid, 0)[1]
        took = time.perf_counter() - start
        assert status == 0, f"{program.name} ended with {status}"
        return took

    return once


@contextlib.contextmanager
def _serving(argv: list[str]) -> Iterator[None]:
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            yield
        finally:
            process.send_signal(signal.SIGKILL)


def main() -> int:
    found = measure()
    print(f"{'ms, start to exit':<40} {'p50':>7} {'p99':>7}")
    for one in found:
        print(f"{one.what:<40} {one.p50:>7.2f} {one.p99:>7.2f}")
    print(f"forwarder in static no-ops: p50 {found.ratio:.2f} ×, p99 {found.ratio_p99:.2f} × (≤ 2)")
    return 0 if found.ratio <= 2.0 and found.ratio_p99 <= 2.0 else 1


if __name__ == "__main__":
    sys.exit(main())
