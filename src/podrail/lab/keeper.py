"""The keeper: parent of a lab's machines and hub of its wires, one process per lab.

It is started by `lab up`, which holds its standard input. Until `keep` is said there, the end of
that input (Ctrl-C, kill -9, a crash) takes everything down. The kernel ends every machine with the
keeper (PR_SET_PDEATHSIG), so no way of ending leaves one behind.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from podrail.lab.hub import Plug, Segment
from podrail.lab.process import die_with


class Keeper:
    """Runs what a specification says.

    `{control, log, nodes: [{name, argv, nics: [[mine, theirs], …]}, …]}`
    """

    def __init__(self, specification: dict[str, Any]) -> None:
        self._spec = specification
        self._waiting = selectors.DefaultSelector()
        self._machines: dict[str, subprocess.Popen[bytes]] = {}
        self._plugs: dict[tuple[str, int], Plug] = {}
        self._kept = False
        self._ending = False

    def run(self) -> int:
        """Until told to stop, or until the starter goes away unsaid."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._end_soon)
        try:
            self._wire()
            self._listen()
            self._start()
            while not self._ending:
                self._turn()
        finally:
            self._finish()
        return 0

    def _end_soon(self, *_: object) -> None:
        self._ending = True

    def _wire(self) -> None:
        rails: dict[int, list[Plug]] = {}
        for node in self._spec["nodes"]:
            for nic, (mine, theirs) in enumerate(node["nics"]):
                plug = Plug(Path(mine), Path(theirs))
                self._plugs[node["name"], nic] = plug
                rails.setdefault(nic, []).append(plug)
        for plugs in rails.values():
            segment = Segment(plugs)
            for plug in plugs:
                self._on(plug.open(), partial(segment.drain, plug))

    def _on(self, what: Any, act: Callable[[], None]) -> None:
        self._waiting.register(what, selectors.EVENT_READ, act)

    def _listen(self) -> None:
        control = socket.socket(socket.AF_UNIX)
        control.bind(self._spec["control"])
        control.listen(8)
        self._on(control, lambda: self._control(control))
        self._on(sys.stdin, self._starter)

    def _start(self) -> None:
        with open(self._spec["log"], "ab") as log:
            for node in self._spec["nodes"]:
                self._machines[node["name"]] = subprocess.Popen(
                    node["argv"],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    preexec_fn=partial(die_with, os.getpid()),
                )

    def _turn(self) -> None:
        for key, _ in self._waiting.select(0.5):
            key.data()
        for machine in self._machines.values():
            machine.poll()

    def _starter(self) -> None:
        said = os.read(sys.stdin.fileno(), 4096)
        if b"keep" in said:
            self._kept = True
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
            except (OSError, ValueError, KeyError, TypeError) as wrong:
                answer = {"error": str(wrong)}
            with contextlib.suppress(OSError):
                sock.sendall(json.dumps(answer).encode() + b"\n")

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        match request["op"]:
            case "status":
                return {
                    "nodes": {n: m.poll() for n, m in self._machines.items()},
                    "kept": self._kept,
                }
            case "wire":
                wire = self._plugs[request["node"], request["nic"]].wire
                for name in ("cut", "mtu", "rate"):
                    if name in request:
                        setattr(wire, name, request[name])
                return {}
            case "stop":
                self._ending = True
                return {}
            case unknown:
                return {"error": f"no operation called {unknown}"}

    def _finish(self) -> None:
        for machine in self._machines.values():
            machine.terminate()
        deadline = time.monotonic() + 3.0
        for machine in self._machines.values():
            try:
                machine.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                machine.kill()
                machine.wait()
        for plug in self._plugs.values():
            plug.mine.unlink(missing_ok=True)
        Path(self._spec["control"]).unlink(missing_ok=True)


def main() -> int:
    """`python -m podrail.lab.keeper SPECIFICATION`."""
    return Keeper(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))).run()


if __name__ == "__main__":
    sys.exit(main())
