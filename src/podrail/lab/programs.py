"""Running the programs that build things: output to a log, its end into the error."""

from __future__ import annotations

import os
import subprocess
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from podrail.model.errors import Refused

Line = Callable[[str], None]
_TAIL = 15


def search_path() -> str:
    """PATH with the places where an ordinary user's PATH lacks mke2fs and its kind."""
    return os.pathsep.join(
        (os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", "/sbin")
    )


class ProgramFailed(Refused):
    """A program ended badly; `tail` is the end of what it said."""

    def __init__(self, program: str, rc: int, tail: Sequence[str], log: Path | None) -> None:
        self.program, self.rc, self.tail = program, rc, tuple(tail)
        how = f"was killed by signal {-rc}" if rc < 0 else f"ended with status {rc}"
        said = "\n".join(f"  {line}" for line in tail) or "  (it said nothing)"
        where = f"\nthe whole log: {log}" if log else ""
        super().__init__(f"{program} {how}; it said at the end:\n{said}{where}")


class Programs(Protocol):
    """How the lab's builders run programs; tests put their own in its place."""

    def run(
        self,
        argv: Sequence[str],
        on_line: Line | None = None,
        env: Mapping[str, str] | None = None,
        pass_fds: Sequence[int] = (),
    ) -> list[str]:
        """Run to the end and give the lines of standard output; ProgramFailed if it fails."""
        ...


class Logged:
    """Programs whose output, both streams together, goes to a log file as it comes."""

    def __init__(self, log: Path) -> None:
        self.log = log

    def run(
        self,
        argv: Sequence[str],
        on_line: Line | None = None,
        env: Mapping[str, str] | None = None,
        pass_fds: Sequence[int] = (),
    ) -> list[str]:
        with self.log.open("a", encoding="utf-8") as log:
            log.write(f"$ {' '.join(argv)}\n")
            process = self._start(argv, env, pass_fds)
            try:
                lines = self._read(process, log.write, on_line)
            finally:
                _end(process)
        if process.returncode:
            tail = deque((line for line in lines if line.strip()), maxlen=_TAIL)
            raise ProgramFailed(Path(argv[0]).name, process.returncode, tail, self.log)
        return lines

    @staticmethod
    def _start(
        argv: Sequence[str], env: Mapping[str, str] | None, pass_fds: Sequence[int]
    ) -> subprocess.Popen[str]:
        try:
            return subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PATH": search_path(), "LC_ALL": "C.UTF-8", **(env or {})},
                pass_fds=pass_fds,
                text=True,
                errors="replace",
            )
        except OSError as failure:
            raise Refused(f"cannot run {argv[0]}: {failure.strerror}") from failure

    @staticmethod
    def _read(
        process: subprocess.Popen[str], write: Callable[[str], int], on_line: Line | None
    ) -> list[str]:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            write(line)
            lines.append(line.rstrip("\n"))
            if on_line:
                on_line(lines[-1])
        process.wait()
        return lines


def _end(process: subprocess.Popen[str]) -> None:
    """What was interrupted gets the time to clean up after itself (mmdebstrap unmounts)."""
    if process.stdout:
        process.stdout.close()
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
