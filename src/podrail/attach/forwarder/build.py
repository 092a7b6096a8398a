"""Compiles the forwarder: `python -m podrail.attach.forwarder.build OUT`.

Static where the compiler can: it starts in half the time, and runs on a host with another libc.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).with_name("forwarder.c")
COMPILERS = ("musl-gcc", "gcc", "cc", "clang")
_FLAGS = ("-std=c11", "-O2", "-Wall", "-Wextra", "-Werror")
_SECONDS = 120.0


class NoCompiler(Exception):
    """The forwarder cannot be compiled here; its Python twin serves instead."""


@dataclass(frozen=True, slots=True)
class Built:
    """What came of it."""

    path: Path
    compiler: str
    static: bool
    why: str = ""
    """Why it is not static."""

    def __str__(self) -> str:
        how = "static" if self.static else f"dynamic: {self.why}"
        return f"{self.path}: {how} ({self.compiler})"


def compiler() -> str | None:
    """The compiler found; $CC is asked first."""
    names = filter(None, (os.environ.get("CC"), *COMPILERS))
    return next(filter(None, map(shutil.which, names)), None)


def build(out: Path, *, testing: bool = False, source: Path = SOURCE) -> Built:
    """Compile to `out`, replacing it whole. `testing` lets the environment name the socket."""
    program = compiler()
    if program is None:
        raise NoCompiler(f"found none of {', '.join(COMPILERS)}: install one, or use forwarder.py")
    defines = ("-DPODRAIL_TESTING",) if testing else ()
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=".forwarder-") as place:
        made = Path(place) / out.name
        argv = [program, *_FLAGS, *defines, "-o", str(made), str(source)]
        why = _compile([*argv, "-static"])
        if why is not None and (dynamic := _compile(argv)) is not None:
            raise NoCompiler(f"{program} fails: {dynamic}")
        made.chmod(0o755)
        made.replace(out)
    return Built(out, program, why is None, why or "")


def _compile(argv: Sequence[str]) -> str | None:
    """None, or the reason why not."""
    try:
        ran = subprocess.run(
            argv, capture_output=True, text=True, errors="replace", check=False, timeout=_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as no:
        return str(no)
    said = ran.stderr.strip().splitlines() or [f"exit {ran.returncode}"]
    return None if ran.returncode == 0 else said[-1]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m podrail.attach.forwarder.build")
    parser.add_argument("out", type=Path, help="where to put the program")
    parser.add_argument("--testing", action="store_true", help="for tests: never install this one")
    given = parser.parse_args(arguments)
    try:
        print(build(given.out, testing=given.testing))
    except NoCompiler as no:
        print(no, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
