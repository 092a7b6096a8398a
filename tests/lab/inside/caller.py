"""The test's end of the zygote: podrail in a node without the start of an interpreter."""

from __future__ import annotations

import json
import os
import select
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from podrail.lab.client import Connection
from podrail.lab.host import LabHost
from podrail.lab.state import LabState

PLACE = "/run/podrail-tests"
_START = f"""\
import sys
sys.path[:0] = ["/opt/podrail/src", "/opt/podrail/site", "{PLACE}"]
from inside.zygote import serve
serve()
"""
_PATIENCE = 240.0


@dataclass(frozen=True, slots=True)
class Said:
    """How a program in the node ended."""

    rc: int
    out: str
    err: str
    seconds: float

    @property
    def json(self) -> Any:
        assert self.out.strip(), self.err
        return json.loads(self.out)

    def good(self) -> Said:
        assert self.rc == 0, f"rc {self.rc}\n{self.out}\n{self.err}"
        return self


class Inside:
    """A conversation with the zygote in one node."""

    def __init__(self, lab: LabState, host: LabHost) -> None:
        self.host = host
        for file in Path(__file__).parent.glob("*.py"):
            host.place(f"{PLACE}/inside/{file.name}", file.read_text(encoding="utf-8"))
        self._connection = Connection(lab.address(host.label.removeprefix("lab:")))
        (stdin, self._to), (self._from, stdout) = os.pipe(), os.pipe()
        self._left = b""
        self._streaming = threading.Thread(target=self._stream, args=(stdin, stdout), daemon=True)
        self._streaming.start()
        self._hear()

    def _stream(self, stdin: int, stdout: int) -> None:
        argv = ["python3", "-IS", "-c", _START]
        with (
            open(stdin, "rb", buffering=0) as given,
            open(stdout, "wb") as taken,
            open(os.devnull, "wb") as errors,
            self._connection as connection,
        ):
            connection.stream(argv, given, taken, errors)

    def close(self) -> None:
        """The zygote ends with its input."""
        os.close(self._to)
        self._streaming.join(_PATIENCE)
        os.close(self._from)

    def _hear(self) -> Any:
        deadline = time.monotonic() + _PATIENCE
        while b"\n" not in self._left:
            ready = select.select([self._from], [], [], max(0.0, deadline - time.monotonic()))[0]
            assert ready, f"the node has not answered for {_PATIENCE:g} s"
            part = os.read(self._from, 65536)
            assert part, "the zygote in the node is gone"
            self._left += part
        line, _, self._left = self._left.partition(b"\n")
        return json.loads(line)

    def _ask(self, **request: Any) -> Any:
        os.write(self._to, json.dumps(request).encode() + b"\n")
        return self._hear()

    def podrail(self, *argv: str, **how: Any) -> Said:
        """`podrail ARGV` in the node."""
        return Said(**self._ask(podrail=argv, **how))

    def call(self, function: str, *arguments: Any) -> Any:
        """A function of this package in the node, `MODULE.NAME`; what it returns."""
        said = Said(**self._ask(call=function, arguments=arguments)).good()
        return json.loads(said.out.splitlines()[-1])

    def start(self, *argv: str, **how: Any) -> int:
        """The same as `podrail`, without waiting for it; its pid."""
        return int(self._ask(podrail=argv, start=True, **how)["pid"])

    def begin(self, function: str, *arguments: Any) -> int:
        """The same as `call`, without waiting for it; its pid."""
        return int(self._ask(call=function, arguments=arguments, start=True)["pid"])

    def wait(self, pid: int) -> Said:
        return Said(**self._ask(wait=pid))

    def must(self, *argv: str, stdin: str = "") -> str:
        """A program in the node that has to succeed."""
        ran = self.host.run(argv, stdin=stdin)
        assert ran.rc == 0, f"{argv}: {ran.stderr}"
        return ran.stdout

    def manifest(self, *policies: str) -> str:
        """A file in the node with these policies."""
        path = f"{PLACE}/policies.yaml"
        self.host.place(path, "\n---\n".join(policies))
        return path

    def apply(self, *policies: str, options: Sequence[str] = ()) -> Said:
        return self.podrail("apply", "-f", self.manifest(*policies), "-o", "json", *options)

    def reset(self, *options: str) -> Said:
        return self.podrail("reset", "-o", "json", *options)

    def status(self) -> Said:
        return self.podrail("status", "-o", "json")
