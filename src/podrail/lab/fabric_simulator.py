"""ibsim as a child: started, spoken to on its console, rid of clients that died."""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import time
from functools import partial
from pathlib import Path
from typing import Any

from podrail.lab.fabric_programs import simulator_environment
from podrail.lab.process import die_with, started

_PROMPT = b"sim> "
_LINE = 126  # ibsim's console reads lines of at most 127 bytes (sim_run_console)
_LOG_BYTES = 1 << 20


class Trouble(Exception):
    """What the one who asked is told instead."""


class Simulator:
    """ibsim and its console."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self._log = Path(spec["run"]) / "ibsim.log"
        self.process = subprocess.Popen(
            [spec["ibsim"], "-s", *spec["limits"], spec["net"]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=spec["run"],
            env=simulator_environment(spec["socket"]),
            start_new_session=True,
            preexec_fn=partial(die_with, os.getpid()),
        )
        streams = (self.process.stdin, self.process.stdout, self.process.stderr)
        self._in, self._out, self.err = (stream.fileno() for stream in streams if stream)
        for descriptor in (self._out, self.err):
            os.set_blocking(descriptor, False)

    def ready(self, seconds: float) -> None:
        """Until the network runs."""
        self._answer(seconds)
        said = self._log.read_text(encoding="utf-8") if self._log.exists() else ""
        if "invalid speed" in said or "invalid width" in said:
            raise Trouble("this ibsim does not know the link speed asked for; HDR is its fastest")

    def say(self, command: str, seconds: float = 5.0) -> str:
        """A console command and its answer; ibsim marks complaints with #."""
        line = command.encode() + b"\n"
        if len(line) > _LINE:
            raise Trouble(f"too long for ibsim's console: {command}")
        _read(self._out)  # what an earlier command answered too late
        os.write(self._in, line)
        answer = self._answer(seconds)
        if answer.lstrip().startswith("#"):
            raise Trouble(f"ibsim refuses {command}: {answer.strip(' #').strip()}")
        return answer

    def _answer(self, seconds: float) -> str:
        deadline, said, warned = time.monotonic() + seconds, b"", ""
        while not said.endswith(_PROMPT):
            left = deadline - time.monotonic()
            if left <= 0:
                raise Trouble(f"ibsim did not answer within {seconds:.0f} s")
            select.select([self._out, self.err], [], [], left)
            warned += self.drain()
            more = _read(self._out)
            if more == b"":
                last = (warned or said.decode(errors="replace")).strip().splitlines()[-3:]
                raise Trouble(f"ibsim ended: {' | '.join(last) or 'it said nothing'}")
            said += more or b""
        return said.decode(errors="replace").removesuffix(_PROMPT.decode())

    def drain(self) -> str:
        """Warnings go to a log that is cut when it has grown long."""
        warnings = _read(self.err) or b""
        if warnings:
            fresh = self._log.exists() and self._log.stat().st_size > _LOG_BYTES
            with self._log.open("wb" if fresh else "ab") as log:
                log.write(warnings)
        return warnings.decode(errors="replace")

    def reap(self) -> None:
        """Give back the places of clients that died without a word; ibsim has only ten."""
        for line in self.say("Attached").splitlines():
            words = line.split()
            if words[:1] == ["Client"] and not started(int(words[3])):
                self.say(f"X {words[1].rstrip(':')}")
        for left in (self._log.parent / "clients").glob("sys-*"):  # umad2sim's own sysfs
            if not started(int(left.name[4:])):
                shutil.rmtree(left, ignore_errors=True)


def _read(descriptor: int) -> bytes | None:
    """What is there: None when nothing is, b"" at the end."""
    said = b""
    try:
        while more := os.read(descriptor, 65536):
            said += more
    except BlockingIOError:
        return said or None
    return said
