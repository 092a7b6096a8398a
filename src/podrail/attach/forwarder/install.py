"""Places the forwarder where a container runtime looks for plugins, under all its names."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from podrail.model.errors import Refused

NAMES = ("podrail", "sriov", "ib-sriov", "rdma")
BIN = "/opt/cni/bin"
TWIN = Path(__file__).with_name("forwarder.py")
_ELF = b"\x7fELF"
_SHEBANG_MAX = 255  # Linux include/uapi/linux/binfmts.h:BINPRM_BUF_SIZE, and its newline


@dataclass(frozen=True, slots=True)
class Installed:
    """What was placed, and which names it now answers to."""

    path: Path
    replaced: bool


def install(
    directory: Path, program: Path | None = None, *, names: Sequence[str] = NAMES
) -> tuple[Installed, ...]:
    """Place the compiled program, or without one the Python twin, under every name.

    Each name changes from old to new in one step, so a runtime that starts it meanwhile runs one of
    the two. All are written before any is replaced: a full disk changes nothing.
    """
    data = _twin() if program is None else _compiled(program)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        return _place(directory, data, names)
    except OSError as no:
        raise Refused(
            f"{directory} cannot take the CNI plugin ({no.strerror}): run as root, or name the "
            "directory the runtime reads (bin_dir of its CNI configuration)"
        ) from no


def _compiled(program: Path) -> bytes:
    try:
        data = program.read_bytes()
    except OSError as no:
        raise Refused(
            f"{program} cannot be read ({no.strerror}): make it with "
            f"`python -m podrail.attach.forwarder.build {program}`"
        ) from no
    if not data.startswith(_ELF):
        raise Refused(f"{program} is no program: found {data[:4]!r}, wanted {_ELF!r}")
    return data


def _twin() -> bytes:
    """Isolated and without site: half of what an interpreter does at its start is neither's use."""
    line = f"#!{sys.executable} -IS\n".encode()
    if len(line) > _SHEBANG_MAX or b" " in os.fsencode(sys.executable):
        raise Refused(f"{sys.executable} does not fit a #! line: use the compiled forwarder")
    return line + TWIN.read_bytes()


def _place(directory: Path, data: bytes, names: Sequence[str]) -> tuple[Installed, ...]:
    temporary = {name: directory / f".{name}.{os.getpid()}.tmp" for name in names}
    try:
        for path in temporary.values():
            _write(path, data)
        done = tuple(_replace(path, directory / name) for name, path in temporary.items())
    finally:
        for path in temporary.values():
            path.unlink(missing_ok=True)
    _sync(directory)
    return done


def _write(path: Path, data: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(path, flags, 0o755), "wb") as file:
        file.write(data)
        file.flush()
        os.fchmod(file.fileno(), 0o755)  # whatever the umask
        os.fsync(file.fileno())


def _replace(path: Path, to: Path) -> Installed:
    before = os.path.lexists(to)
    path.replace(to)
    return Installed(to, before)


def _sync(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m podrail.attach.forwarder.install")
    parser.add_argument("directory", type=Path, nargs="?", default=Path(BIN))
    parser.add_argument("--program", type=Path, help="the compiled forwarder; else the Python twin")
    given = parser.parse_args(arguments)
    try:
        done = install(given.directory, given.program)
    except Refused as no:
        print(no, file=sys.stderr)
        return no.exit_code
    for one in done:
        print(f"{one.path}{' (replaced what was there)' if one.replaced else ''}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
