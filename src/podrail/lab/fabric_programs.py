"""The programs an InfiniBand fabric is made of, and the environment that puts one inside it.

umad2sim is preloaded into any program that uses libibumad and takes it to the ibsim that listens
under IBSIM_SOCKNAME, an abstract Unix socket: with a name of its own, one fabric never meets
another. SIM_HOST says which adapter of the fabric the program sits at.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from podrail.model.errors import Refused

INSTALL = "apt-get install ibsim-utils opensm infiniband-diags"

_ADMIN = ("/usr/local/sbin", "/usr/sbin", "/sbin")  # not on an ordinary user's PATH in Debian
_LIBRARIES = ("/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/local/lib64")
_PRELOAD = ("umad2sim/libumad2sim.so", "*/umad2sim/libumad2sim.so")
_ELSEWHERE = ("IBSIM_SERVER_NAME", "IBSIM_SERVER_PORT", "SIM_SET_ISSM", "LD_PRELOAD")


@dataclass(frozen=True, slots=True)
class Programs:
    """Where the programs are."""

    ibsim: str
    opensm: str
    sminfo: str
    preload: str


def installed(libraries: Iterable[str] = _LIBRARIES) -> Programs:
    """All of them, or one word on how to get them."""
    found = {program: which(program) for program in ("ibsim", "opensm", "sminfo")}
    places = {**found, "libumad2sim.so": _preload(libraries)}
    missing = [name for name, place in places.items() if place is None]
    if missing:
        raise Refused(
            f"a fabric needs {', '.join(missing)}, not installed here; as root: {INSTALL}"
        )
    return Programs(*(place for place in places.values() if place))


def path() -> str:
    """PATH with the administrator's directories."""
    return os.pathsep.join((os.environ.get("PATH", os.defpath), *_ADMIN))


def which(program: str) -> str | None:
    return shutil.which(program, path=path())


def _preload(libraries: Iterable[str]) -> str | None:
    found = (file for at in libraries for form in _PRELOAD for file in Path(at).glob(form))
    return next((str(file) for file in found), None)


def simulator_environment(socket: str) -> dict[str, str]:
    """For ibsim itself."""
    kept = {key: value for key, value in os.environ.items() if key not in _ELSEWHERE}
    return {**kept, "IBSIM_SOCKNAME": socket, "LC_ALL": "C"}


def inside(socket: str, preload: str, host: str) -> dict[str, str]:
    """For a program inside the fabric, at one adapter."""
    return {
        **simulator_environment(socket),
        "PATH": path(),
        "LD_PRELOAD": preload,
        "SIM_HOST": host,
    }
