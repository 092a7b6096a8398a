"""The keeper of a fabric: parent of its ibsim and its subnet managers, one process per fabric.

Whoever starts it holds its standard input. Until `keep` is said there, the end of that input
(Ctrl-C, kill -9, a crash) takes everything down. The kernel ends ibsim and opensm with the keeper
(PR_SET_PDEATHSIG), so no way of ending leaves one behind.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from podrail.lab.fabric_programs import inside
from podrail.lab.fabric_simulator import Simulator, Trouble
from podrail.lab.process import die_with

# A standby asks after its master this often and gives up after so many silences: 1.5 s instead of
# opensm's 40. A trap that gets lost is made good by the next sweep.
_OPENSM_OPTIONS = """\
sminfo_polling_timeout 500
polling_retry_number 3
sweep_interval 3
"""


@dataclass(slots=True)
class Manager:
    """An opensm at one adapter."""

    host: str
    priority: int
    process: subprocess.Popen[bytes]

    def end(self, *, kill: bool) -> None:
        """Politely, so that it takes its IsSM mark with it, unless a crash is wanted."""
        (self.process.kill if kill else self.process.terminate)()
        try:
            self.process.wait(2.0)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def start_manager(spec: dict[str, Any], host: str, priority: int) -> Manager:
    """With files of its own: two subnet managers of one fabric share nothing but the fabric."""
    place = Path(spec["run"]) / f"sm-{host}"
    place.mkdir(exist_ok=True)
    (place / "options").write_text(_OPENSM_OPTIONS, encoding="ascii")
    environment = inside(spec["socket"], spec["preload"], host)
    with (place / "out").open("wb") as out:
        process = subprocess.Popen(
            [spec["opensm"], "-F", str(place / "options"), "-f", str(place / "log"), "-L", "4",
             "-p", str(priority), "--subnet_prefix", spec["prefix"]],
            stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=place,
            env={**environment, "OSM_TMP_DIR": str(place), "OSM_CACHE_DIR": str(place)},
            start_new_session=True, preexec_fn=partial(die_with, os.getpid()),
        )  # fmt: skip
    return Manager(host, priority, process)


class Keeper:
    """Runs what a specification says.

    `{run, state, control, socket, net, limits, ibsim, opensm, preload, prefix, host, priority}`
    """

    def __init__(self, specification: dict[str, Any]) -> None:
        self._spec = specification
        self._waiting = selectors.DefaultSelector()
        self._simulator: Simulator | None = None
        self._managers: dict[str, Manager] = {}
        self._cut: list[list[Any]] = []
        self._kept = self._ending = False

    def run(self) -> int:
        """Until told to stop, or until the starter goes away unsaid."""
        self._on_signals()
        try:
            self._start()
            while not self._ending:
                for key, _ in self._waiting.select():
                    key.data()
        except Trouble as trouble:
            _tell({"error": str(trouble)})
            return 1
        finally:
            self._finish()
        return 0

    def _on_signals(self) -> None:
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        signal.set_wakeup_fd(writing)
        self._on(reading, lambda: os.read(reading, 64))
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._end_soon)

    def _end_soon(self, *_: object) -> None:
        self._ending = True

    def _on(self, what: Any, act: Callable[[], object]) -> None:
        self._waiting.register(what, selectors.EVENT_READ, act)

    def _start(self) -> None:
        control = socket.socket(socket.AF_UNIX)
        control.bind(self._spec["control"])
        control.listen(8)
        self._simulator = Simulator(self._spec)
        self._simulator.ready(20.0)
        self._manage(self._spec["host"], self._spec["priority"])
        self._on(control, lambda: self._control(control))
        self._on(sys.stdin, self._starter)
        self._on(self._simulator.err, self._warned)
        _tell({"pid": os.getpid()})

    def _warned(self) -> None:
        simulator = self._sim
        if not simulator.drain() and simulator.process.poll() is not None:
            self._waiting.unregister(simulator.err)

    @property
    def _sim(self) -> Simulator:
        if self._simulator is None:
            raise Trouble("ibsim has not started")
        return self._simulator

    def _manage(self, host: str, priority: int) -> None:
        """Start a subnet manager; those already there wait until it answers.

        umad2sim never reports a timeout, so a master whose question a newcomer misses while it
        starts would wait for ever in the middle of its sweep.
        """
        there = [m.process for m in self._managers.values() if m.process.poll() is None]
        if host in self._managers and self._managers[host].process.poll() is None:
            raise Trouble(f"a subnet manager runs at {host} already; stop it first")
        try:
            for process in there:
                process.send_signal(signal.SIGSTOP)
            self._managers[host] = start_manager(self._spec, host, priority)
            if there:
                self._answers(host)
        finally:
            for process in there:
                process.send_signal(signal.SIGCONT)

    def _answers(self, host: str, tries: int = 4) -> None:
        ask = [self._spec["sminfo"], "-D", "0", "-t", "100"]
        environment = inside(self._spec["socket"], self._spec["preload"], host)
        place = Path(self._spec["run"]) / "clients"
        for _ in range(tries):
            with contextlib.suppress(subprocess.TimeoutExpired):
                said = subprocess.run(
                    ask, env=environment, cwd=place, timeout=1.0, capture_output=True, check=False
                )
                if said.returncode == 0:
                    return

    def _unmanage(self, host: str | None, *, kill: bool) -> list[str]:
        stopped = [name for name in self._managers if host in (None, name)]
        for name in stopped:
            self._managers.pop(name).end(kill=kill)
        self._sim.reap()
        return stopped

    def _starter(self) -> None:
        said = os.read(sys.stdin.fileno(), 4096)
        self._kept = self._kept or b"keep" in said
        if not said:
            self._waiting.unregister(sys.stdin)
            self._ending = self._ending or not self._kept

    def _control(self, listening: socket.socket) -> None:
        sock, _ = listening.accept()
        with sock:
            sock.settimeout(2.0)
            try:
                request = json.loads(sock.makefile("rb").readline())
                answer = self._answer(request)
            except (Trouble, OSError, ValueError, KeyError, TypeError) as wrong:
                answer = {"error": str(wrong)}
            with contextlib.suppress(OSError):
                sock.sendall(json.dumps(answer).encode() + b"\n")

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        match request["op"]:
            case "status":
                return self._status()
            case "unlink" | "relink" as verb:
                return self._link(verb, request["name"], request["port"], request["peer"])
            case "sm-start":
                self._manage(request["host"], request["priority"])
                return {}
            case "sm-stop":
                return {"stopped": self._unmanage(request["host"], kill=request["kill"])}
            case "sweep":
                for manager in self._managers.values():
                    manager.process.send_signal(signal.SIGHUP)  # opensm: a heavy sweep, now
                return {}
            case "reap":
                self._sim.reap()
                return {}
            case unknown:
                return {"error": f"no operation called {unknown}"}

    def _status(self) -> dict[str, Any]:
        return {
            "ended": self._sim.process.poll(),
            "cut": self._cut,
            "managers": [
                {"host": m.host, "priority": m.priority, "pid": m.process.pid,
                 "ended": m.process.poll()}
                for m in self._managers.values()
            ],
        }  # fmt: skip

    def _link(self, verb: str, name: str, port: int, peer: str) -> dict[str, Any]:
        word = {"unlink": "Unlink", "relink": "ReLink"}[verb]
        self._sim.say(f'{word} "{name}"[{port}]')
        if verb == "unlink":
            self._cut.append([name, port])
            return {}
        self._cut.remove([name, port])
        for host in {name, peer} & set(self._managers):
            self._restart(host)
        return {}

    def _restart(self, host: str) -> None:
        """ibsim's ReLink gives a port fresh capabilities, without IsSM: other subnet managers would
        not see the one that sits there (sim_net.c, link_ports)."""
        manager = self._managers[host]
        if manager.process.poll() is None:
            manager.end(kill=False)
            self._manage(host, manager.priority)

    def _finish(self) -> None:
        for manager in self._managers.values():
            manager.end(kill=True)  # the fabric goes with it: nothing to take leave from
        if self._simulator:
            self._simulator.process.kill()
            self._simulator.process.wait()
        Path(self._spec["state"]).unlink(missing_ok=True)
        shutil.rmtree(self._spec["run"], ignore_errors=True)


def _tell(what: dict[str, Any]) -> None:
    with contextlib.suppress(BrokenPipeError):
        os.write(1, json.dumps(what).encode() + b"\n")


def main() -> int:
    """`python -m podrail.lab.fabric_keeper SPECIFICATION`: goes into the background at once."""
    if os.fork():
        os._exit(0)
    os.setsid()
    return Keeper(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))).run()


if __name__ == "__main__":
    sys.exit(main())
