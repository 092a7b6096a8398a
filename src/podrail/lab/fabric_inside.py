"""Being inside a fabric: its nodes by name, programs run at a host, words with its keeper."""

from __future__ import annotations

import contextlib
import difflib
import json
import os
import signal
import socket
import subprocess
from collections.abc import Sequence
from typing import Any

from podrail.host.seam import Ran
from podrail.lab.fabric_programs import INSTALL, inside, which
from podrail.lab.fabric_state import FabricState
from podrail.lab.topology import FatTree, Net, Node, parse
from podrail.model.errors import PodrailError, Refused, Unmeasured, UsageError

_FULL = "sim_init: connect failed"  # umad2sim, when ibsim has no place left for a client


def not_up(name: str | None) -> UsageError:
    """For whoever asks for a fabric that is not there."""
    which_one = f"fabric {name} is not up" if name else "no fabric is up"
    return UsageError(f"{which_one}; start it with: podrail lab fabric up")


class Inside:
    """What every part of a fabric's handle stands on."""

    def __init__(self, state: FabricState) -> None:
        self._state = state
        try:
            self.net: Net = parse((state.place / "net").read_text(encoding="utf-8"))
        except OSError as failure:
            raise not_up(state.name) from failure

    @property
    def name(self) -> str:
        return self._state.name

    @property
    def tree(self) -> FatTree:
        return self._state.tree

    def node(self, name: str) -> Node:
        """A node by its name: `S-leaf0` or `leaf0`, `H-node1-rail0` or `node1-rail0`."""
        for full in (name, f"S-{name}", f"H-{name}"):
            if full in self.net:
                return self.net[full]
        names = [node.name[2:] for node in self.net.nodes]
        hosts = [known.partition("-rail")[0] for known in names]
        near = difflib.get_close_matches(name, dict.fromkeys(hosts + names), 3, 0.6)
        hint = f"did you mean {', '.join(near)}?" if near else "podrail lab fabric list -o json"
        raise UsageError(f"fabric {self.name} has no node {name!r}; {hint}")

    def adapter(self, name: str) -> str:
        """The adapter a program sits at; a host's name alone means its rail 0."""
        if f"H-{name}-rail0" in self.net:
            return f"H-{name}-rail0"
        node = self.node(name)
        if node.switch:
            raise UsageError(f"{name} is a switch; programs run at a host, for example node1")
        return node.name

    def run(
        self, argv: Sequence[str], *, host: str = "node1", timeout: float = 60.0,
        capture: bool = True,
    ) -> Ran:  # fmt: skip
        """Run a program inside the fabric at a host. A non-zero exit is not an error here."""
        at = self.adapter(host)
        ran = self._run(argv, at, timeout, capture)
        if ran.rc and _FULL in ran.stderr:
            self._ask("reap")
            ran = self._run(argv, at, timeout, capture)
            if ran.rc and _FULL in ran.stderr:
                raise Refused(
                    f"ibsim has places for ten programs and all are taken; {argv[0]} waits"
                )
        return ran

    def _run(self, argv: Sequence[str], at: str, timeout: float, capture: bool) -> Ran:
        program = which(argv[0])
        if program is None:
            raise Refused(f"{argv[0]} is not installed here; as root: {INSTALL}")
        pipe = subprocess.PIPE if capture else None
        process = subprocess.Popen(
            list(argv), executable=program, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe,
            text=True, errors="replace", cwd=self._state.place / "clients", start_new_session=True,
            env=inside(self._state.socket, self._state.preload, at),
        )  # fmt: skip
        try:
            out, err = process.communicate(timeout=timeout)
        except BaseException as cause:
            self._kill(process)
            if isinstance(cause, subprocess.TimeoutExpired):
                raise Unmeasured(
                    f"{argv[0]} at {at} did not end within {timeout:.0f} s and was stopped; "
                    "is the port linked, and is it one of the programs ibsim answers?"
                ) from None
            raise
        return Ran(tuple(argv), process.returncode, out or "", err or "")

    def _kill(self, process: subprocess.Popen[str]) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        with contextlib.suppress(PodrailError):
            self._ask("reap")

    def _ask(self, operation: str, **request: object) -> dict[str, Any]:
        try:
            with socket.socket(socket.AF_UNIX) as sock:
                sock.settimeout(15.0)
                sock.connect(str(self._state.place / "control"))
                sock.sendall(json.dumps({"op": operation, **request}).encode() + b"\n")
                answer: dict[str, Any] = json.loads(sock.makefile("rb").readline())
        except (FileNotFoundError, ConnectionRefusedError) as failure:
            raise not_up(self.name) from failure
        except (OSError, ValueError) as failure:
            raise Refused(f"the keeper of fabric {self.name} does not answer ({failure})") from None
        if "error" in answer:
            raise Refused(f"fabric {self.name}: {answer['error']}")
        return answer
