"""A forwarder under test, and what a service should never answer it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from podrail.attach import wire
from podrail.attach.forwarder import build, install
from tests.attach.sockets import CONFIG, ENV, PATIENCE

STDIN = json.dumps(CONFIG).encode()
_DOORS = """
SOCKET = os.environ.get("PODRAIL_CNI_SOCKET", SOCKET)
SPOOL = os.environ.get("PODRAIL_CNI_SPOOL", SPOOL)
SECONDS = PATIENCE = float(os.environ.get("PODRAIL_CNI_MS", "220000")) / 1000

"""
_MAIN = 'if __name__ == "__main__":'
nobody_serves = pytest.mark.skipif(Path(wire.SOCKET).exists(), reason="a service runs here")
needs_compiler = pytest.mark.skipif(build.compiler() is None, reason="no C compiler here")


@dataclass(frozen=True)
class Said:
    """What a forwarder printed, and its exit code."""

    code: int
    stdout: bytes

    @property
    def error(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.stdout)
        return found


@dataclass(frozen=True)
class Forwarder:
    """One implementation, in a place of its own."""

    program: Path
    place: Path

    @property
    def socket(self) -> Path:
        return self.place / "cni.sock"

    @property
    def spool(self) -> Path:
        return self.place / "lib" / "spool"

    def kept(self) -> list[Path]:
        return sorted(self.spool.iterdir()) if self.spool.is_dir() else []

    def env(self, ms: int = 30_000) -> dict[str, str]:
        return {
            "PODRAIL_CNI_SOCKET": str(self.socket), "PODRAIL_CNI_SPOOL": str(self.spool),
            "PODRAIL_CNI_MS": str(ms), "PATH": "/usr/bin", "SECRET": "not for the service",
        }  # fmt: skip

    def run(
        self, command: str = "ADD", stdin: bytes = STDIN, ms: int = 30_000,
        cni: Mapping[str, str] | None = None,
    ) -> Said:  # fmt: skip
        env = self.env(ms) | ENV | {"CNI_COMMAND": command} | dict(cni or {})
        ran = subprocess.run(
            [self.program], input=stdin, env=env, capture_output=True, timeout=PATIENCE, check=False
        )
        assert ran.stderr == b""
        return Said(ran.returncode, ran.stdout)


def made(place: Path) -> dict[str, Path]:
    """Both programs, with the doors that only a test has."""
    twin = place / "python" / "sriov"
    twin.parent.mkdir()
    source = install.TWIN.read_text(encoding="utf-8")
    assert source.count(_MAIN) == 1
    changed = source.replace(_MAIN, _DOORS + _MAIN)
    twin.write_text(f"#!{sys.executable} -IS\n{changed}", encoding="utf-8")
    twin.chmod(0o755)
    compiled = build.compiler() and build.build(place / "c" / "sriov", testing=True).path
    return {"python": twin} | ({"c": compiled} if isinstance(compiled, Path) else {})


CUT = [
    pytest.param(b"", id="closed at once"), pytest.param(b"0", id="half a header"),
    pytest.param(b"0 5\nabc", id="half an answer"), pytest.param(b"0 2\nabc", id="too much"),
    pytest.param(b"256 0\n", id="no exit code"), pytest.param(b"-1 0\n", id="negative code"),
    pytest.param(b"0 -1\n", id="negative length"), pytest.param(b"0  0\n", id="two spaces"),
    pytest.param(b" 0 0\n", id="a space first"), pytest.param(b"0 \n", id="no length"),
    pytest.param(b"0 18446744073709551616\n", id="a length that overflows"),
    pytest.param(b"18446744073709551616 0\n", id="a code that overflows"),
    pytest.param(b"HTTP/1.1 200 OK\r\n", id="another protocol"),
    pytest.param(b"0 0 0\n", id="three numbers"), pytest.param(b"\xff" * 5000, id="binary"),
    pytest.param(b"0 %d\n" % (2 << 20) + b"x" * (2 << 20), id="huge"),
    pytest.param(b"9" * 100, id="no line"),
]  # fmt: skip
