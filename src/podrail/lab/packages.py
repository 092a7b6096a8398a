"""The programs this machine needs for the lab, and how it gets them."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from podrail.lab import cache, mirror
from podrail.lab.fetch import patiently
from podrail.lab.programs import Logged, ProgramFailed, Programs, search_path
from podrail.model.errors import Refused
from podrail.model.progress import Meter, Report

QEMU = "qemu-system-x86_64"
QEMU_WANTED = 8
"""The first QEMU whose igb has SR-IOV."""

NEEDED = {QEMU: "qemu-system-x86", "mmdebstrap": "mmdebstrap", "mke2fs": "e2fsprogs"}
NEEDED_BY_USERS = {"newuidmap": "uidmap"}
FABRIC = {"ibsim": "ibsim-utils", "opensm": "opensm", "ibnetdiscover": "infiniband-diags"}

# Debian's releases with an older QEMU than wanted, and the suite that has a newer one.
_BACKPORTS = {"bookworm": "bookworm-backports"}
_ADDED = "apt/sources.list.d/podrail-lab.sources"
_VERSION = re.compile(r"\bversion (\d+)\.(\d+)")


@dataclass(frozen=True, slots=True)
class Lack:
    """What is missing: packages, and the QEMU that is too old if one is there."""

    packages: tuple[str, ...]
    old_qemu: str = ""

    def __bool__(self) -> bool:
        return bool(self.packages or self.old_qemu)

    def __str__(self) -> str:
        parts = [f"no {', '.join(self.packages)}"] if self.packages else []
        if self.old_qemu:
            parts.append(f"QEMU {self.old_qemu} where {QEMU_WANTED} or newer is wanted")
        return " and ".join(parts)


@dataclass(frozen=True, slots=True)
class Machine:
    """What decides how packages get here."""

    system: str
    codename: str
    root: bool
    etc: Path = Path("/etc")

    @classmethod
    def here(cls) -> Machine:
        """This machine."""
        release = mirror.os_release()
        family = f"{release.get('ID', '')} {release.get('ID_LIKE', '')}".split()
        system = next((name for name in ("ubuntu", "debian") if name in family), "")
        return cls(system, release.get("VERSION_CODENAME", ""), os.geteuid() == 0)


def lack(*, fabric: bool = False) -> Lack:
    """What this machine has not: one look at the path, and one question to QEMU."""
    wanted = {**NEEDED, **(FABRIC if fabric else {})}
    if os.geteuid() != 0:
        wanted |= NEEDED_BY_USERS
    missing = {package for program, package in wanted.items() if not _where(program)}
    version = "" if NEEDED[QEMU] in missing else qemu_version()
    return Lack(tuple(sorted(missing)), version if _old(version) else "")


def _old(version: str) -> bool:
    """A QEMU that does not say its version may be any; starting it will tell."""
    return bool(version) and int(version.partition(".")[0]) < QEMU_WANTED


def _where(program: str) -> str | None:
    return shutil.which(program, path=search_path())


def qemu_version() -> str:
    """`10.0`, as QEMU says itself; empty when it says nothing of the kind."""
    try:
        argv = [_where(QEMU) or QEMU, "--version"]
        said = subprocess.run(argv, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return parse_version(said.stdout)


def parse_version(text: str) -> str:
    """MAJOR.MINOR out of `QEMU emulator version 10.0.2 (Debian …)`."""
    found = _VERSION.search(text)
    return f"{found[1]}.{found[2]}" if found else ""


def ensure(
    report: Report,
    *,
    fabric: bool = False,
    machine: Machine | None = None,
    look: Callable[..., Lack] = lack,
    programs: Programs | None = None,
) -> None:
    """Installs what is missing where it may; Refused with the one command where it may not."""
    missing = look(fabric=fabric)
    if not missing:
        return
    here = machine or Machine.here()
    if not here.system or not here.root:
        raise Refused(_ask(missing, here))
    cache.base().mkdir(parents=True, exist_ok=True, mode=0o700)
    _install(missing, here, report, programs or Logged(cache.base() / "packages.log"))
    still = look(fabric=fabric)
    if still:
        raise Refused(_still(still, here))


def _install(missing: Lack, here: Machine, report: Report, programs: Programs) -> None:
    names = " ".join(_packages(missing))
    meter = Meter(report, {"host": 25.0})
    meter.start("host", f"installing {names} with apt-get, once")
    suite = _suite(missing, here)
    if suite and not _known(suite, here):
        added = here.etc / _ADDED
        added.write_text(mirror.debian_mirror(here.etc).stanza(suite), encoding="utf-8")
        meter.say(f"added {suite} to apt's sources in {added}, for QEMU")
    steps = 0

    def count(line: str) -> None:
        nonlocal steps
        steps += line.startswith(("Get:", "Unpacking ", "Setting up "))
        meter.at(1 - 0.985**steps)

    def attempt(_: int) -> None:
        _update(programs)
        for argv in _commands(missing, suite):
            programs.run(argv, count, {"DEBIAN_FRONTEND": "noninteractive"})

    patiently(attempt, meter.say)


def _update(programs: Programs) -> None:
    """Another repository of this machine may be broken; the install says whether it matters."""
    try:
        programs.run(["apt-get", "-o", "Acquire::Retries=2", "update"])
    except ProgramFailed:
        return


def _packages(missing: Lack) -> list[str]:
    return sorted({*missing.packages, *((NEEDED[QEMU],) if missing.old_qemu else ())})


def _suite(missing: Lack, here: Machine) -> str:
    """The suite QEMU has to come from, or nothing."""
    suite = _BACKPORTS.get(here.codename, "") if here.system == "debian" else ""
    return suite if NEEDED[QEMU] in _packages(missing) else ""


def _known(suite: str, here: Machine) -> bool:
    return any(suite in source.suites for source in mirror.host_sources(here.etc))


def _commands(missing: Lack, suite: str) -> list[list[str]]:
    """apt-get's argument vectors: only QEMU is taken from the other suite."""
    apt = ["apt-get", "-o", "DPkg::Lock::Timeout=120", "-o", "Acquire::Retries=2", "install",
           "--yes", "--no-install-recommends"]  # fmt: skip
    names = _packages(missing)
    if not suite:
        return [[*apt, *names]]
    rest = [name for name in names if name != NEEDED[QEMU]]
    return [[*apt, f"--target-release={suite}", NEEDED[QEMU]], *([[*apt, *rest]] if rest else [])]


def _ask(missing: Lack, here: Machine) -> str:
    if not here.system:
        return (
            f"this machine has {missing}; install QEMU {QEMU_WANTED} or newer, mmdebstrap and "
            "e2fsprogs with its package manager"
        )
    return (
        f"this machine has {missing}, and only root may install it; run:\n  {_line(missing, here)}"
    )


def _line(missing: Lack, here: Machine) -> str:
    suite = _suite(missing, here)
    steps: list[Sequence[str]] = [["apt-get", "update"], *_commands(missing, suite)]
    script = " && ".join(shlex.join(step) for step in steps)
    if suite and not _known(suite, here):
        text = mirror.debian_mirror(here.etc).stanza(suite).replace("\n", "\\n")
        script = f"printf %b {shlex.quote(text)} > {here.etc / _ADDED} && {script}"
    return f"sudo sh -c {shlex.quote(script)}"


def _still(still: Lack, here: Machine) -> str:
    return (
        f"apt-get ran, and this machine still has {still}; {here.system} {here.codename} offers "
        f"nothing newer, so use a newer release (Debian 12, Ubuntu 24.04) or put a QEMU "
        f"{QEMU_WANTED} or newer first in PATH"
    )
