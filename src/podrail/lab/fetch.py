"""Fetches the image's packages with apt, in directories of our own and as any user.

apt verifies signatures and hashes, keeps what it has and resumes what was cut off. What it fetched
becomes a small local repository, so the build itself needs no network.
"""

from __future__ import annotations

import hashlib
import os
import random
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from podrail.lab import recipe
from podrail.lab.mirror import Source
from podrail.lab.programs import ProgramFailed, Programs
from podrail.model.errors import Refused
from podrail.model.progress import Meter

T = TypeVar("T")

ATTEMPTS = 4
_FIRST_WAIT = 5.0
# What apt and pip say when trying again later may help; a 429 is a mirror asking for patience.
_TRANSIENT = re.compile(
    r"\b(429|500|502|503|504)\b|too many requests|temporary failure|could ?n[o']t resolve|"
    r"could not connect|connection (failed|refused|reset|timed out|broken)|timed? ?out|"
    r"network is unreachable|failed to fetch|hash sum mismatch|unexpected size|"
    r"newconnectionerror|max retries exceeded|error reading from server|remote end closed",
    re.IGNORECASE,
)
_INSTALLS = re.compile(r"^Inst (\S+) (?:\[[^\]]*\] )?\((\S+) ")
_KERNEL = re.compile(r"\blinux-image-(\d[^\s,(]*)")


def patiently(
    work: Callable[[int], T],
    say: Callable[[str], None],
    sleep: Callable[[float], None] | None = None,
    progress: Callable[[], int] = lambda: 0,
) -> T:
    """Does work(attempt) until it succeeds, with growing waits while the network is to blame.

    A try that got further (`progress` grew) starts the count again: what it got is kept.
    """
    attempt, before = 0, progress()
    while True:
        try:
            return work(attempt)
        except ProgramFailed as failure:
            if not _transient(failure):
                raise
            now = progress()
            attempt, before = (1 if now > before else attempt + 1), now
            if attempt == ATTEMPTS:
                raise Refused(_unreachable(failure)) from failure
            wait = _FIRST_WAIT * 3 ** (attempt - 1) * random.uniform(0.8, 1.2)  # noqa: S311
            say(f"{_cause(failure)}; trying again in {wait:.0f} s ({attempt + 1} of {ATTEMPTS})")
            (sleep or time.sleep)(wait)


def _transient(failure: ProgramFailed) -> bool:
    return any(_TRANSIENT.search(line) for line in failure.tail)


def _cause(failure: ProgramFailed) -> str:
    text = "\n".join(failure.tail).lower()
    if "429" in text or "too many requests" in text:
        return "the mirror answers 429, too many requests"
    return "the mirror could not be reached"


def _unreachable(failure: ProgramFailed) -> str:
    return (
        f"{_cause(failure)} in {ATTEMPTS} tries; what was fetched is kept, so run the same command "
        f"again later to go on from there\n{failure}"
    )


@dataclass(frozen=True, slots=True)
class Package:
    """One package as the mirror describes it."""

    name: str
    stanza: str = field(repr=False)

    def get(self, key: str) -> str:
        """A field of the stanza."""
        found = re.search(rf"^{key}: (.*)$", self.stanza, re.MULTILINE)
        return found[1] if found else ""

    @property
    def file(self) -> str:
        """The name apt gives it in its archive."""
        version = self.get("Version").replace(":", "%3a")
        return f"{self.name}_{version}_{self.get('Architecture')}.deb"

    @property
    def size(self) -> int:
        return int(self.get("Size") or 0)


class Apt:
    """apt in a directory of its own: another system's packages, this machine's proxies."""

    def __init__(self, base: Path, mirror: Source, programs: Programs) -> None:
        self.base, self.mirror, self._programs = base, mirror, programs
        self.archives = base / "archives"

    def prepare(self) -> None:
        """Directories and configuration."""
        for name in ("lists/partial", "archives/partial", "sources"):
            (self.base / name).mkdir(parents=True, exist_ok=True)
        (self.base / "status").write_text("", encoding="ascii")
        (self.base / "sources" / "lab.sources").write_text(
            self.mirror.stanza(recipe.SUITE, recipe.KERNEL_SUITE), encoding="utf-8"
        )

    def _options(self, attempt: int) -> list[str]:
        base, sandbox = self.base, "root" if os.geteuid() == 0 else ""
        settings = {
            "Dir::State": base,
            "Dir::State::Lists": base / "lists",
            "Dir::State::status": base / "status",
            "Dir::Cache": base,
            "Dir::Cache::archives": self.archives,
            "Dir::Etc::SourceList": "/dev/null",
            "Dir::Etc::SourceParts": base / "sources",
            "Dir::Etc::Preferences": "/dev/null",
            "Dir::Etc::PreferencesParts": "/dev/null",
            "APT::Architecture": recipe.ARCHITECTURE,
            "APT::Architectures": recipe.ARCHITECTURE,
            "APT::Install-Recommends": "false",
            "APT::Sandbox::User": sandbox,
            "Acquire::Languages": "none",
            "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled": "false",
            "Acquire::Retries": "2",
            "Acquire::http::Timeout": "30",
            "Acquire::https::Timeout": "30",
            # A second try asks for one file at a time: bursts are what mirrors refuse.
            **({"Acquire::http::Pipeline-Depth": "0"} if attempt else {}),
        }
        return [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]

    def get(
        self, *words: str, attempt: int = 0, on_line: Callable[[str], None] | None = None
    ) -> list[str]:
        """apt-get, with the lines it said."""
        return self._programs.run(
            ["apt-get", *self._options(attempt), *words],
            on_line,
            {"DEBIAN_FRONTEND": "noninteractive"},
        )

    def show(self, *names: str) -> list[Package]:
        """What the mirror says about packages."""
        lines = self._programs.run(
            ["apt-cache", *self._options(0), "--no-all-versions", "show", *names]
        )
        stanzas = "\n".join(lines).split("\n\n")
        named = ((re.search(r"^Package: (\S+)$", s, re.MULTILINE), s.strip()) for s in stanzas)
        return [Package(found[1], stanza) for found, stanza in named if found]


def fetch(apt: Apt, meter: Meter) -> list[Package]:
    """Everything the image needs, in apt's archive directory."""
    apt.prepare()
    meter.start("lists", f"package lists from {apt.mirror.uri}")
    patiently(lambda n: apt.get("update", "--error-on=any", attempt=n), meter.say)
    names = ["?essential", "apt", *kernel_packages(apt), *recipe.PACKAGES]
    resolved = list(_resolved(apt.get("install", "--simulate", *names)))
    packages = apt.show(*(f"{name}={version}" for name, version in resolved))
    _download(apt, names, packages, meter)
    return packages


def kernel_packages(apt: Apt) -> list[str]:
    """The packages with the kernel and its modules, without what would build an initramfs."""
    about = apt.show(f"{recipe.KERNEL_PACKAGE}/{recipe.KERNEL_SUITE}")
    found = _KERNEL.search(about[0].get("Depends")) if about else None
    if not found:
        raise Refused(
            f"{apt.mirror.uri} has no {recipe.KERNEL_PACKAGE} in {recipe.KERNEL_SUITE}; "
            "the lab wants a mirror that carries that suite"
        )
    return [f"linux-modules-{found[1]}", f"linux-binary-{found[1]}"]


def _resolved(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        found = _INSTALLS.match(line)
        if found:
            yield found[1].partition(":")[0], found[2]


def _download(apt: Apt, names: list[str], packages: list[Package], meter: Meter) -> None:
    total = sum(package.size for package in packages)
    sizes = {package.name: package.size for package in packages}
    have = sum(p.size for p in packages if (apt.archives / p.file).exists())
    meter.start("packages", f"fetching {len(packages)} packages, {total / 1e6:.0f} MB")

    def count(line: str) -> None:
        nonlocal have
        if line.startswith("Get:"):
            have += sizes.get(line.split()[4], 0)
            meter.at(have / total)

    def attempt(number: int) -> None:
        apt.get("install", "--yes", "--download-only", *names, attempt=number, on_line=count)

    def held() -> int:
        return sum((apt.archives / p.file).exists() for p in packages)

    patiently(attempt, meter.say, progress=held)
    missing = [p.file for p in packages if not (apt.archives / p.file).exists()]
    if missing:
        raise Refused(f"apt did not fetch {', '.join(missing[:3])}: run the same command again")


def forget_others(apt: Apt, packages: Sequence[Package]) -> None:
    """Old versions go; what the image needs stays for the next build."""
    keep = {package.file for package in packages}
    for file in apt.archives.glob("*.deb"):
        if file.name not in keep:
            file.unlink(missing_ok=True)


def local_repository(apt: Apt, packages: Sequence[Package], into: Path) -> str:
    """Lays the packages out as a repository and gives its line for sources.list.

    Trusted without a signature of its own: apt has just checked every file against the mirror's.
    """
    index = into / "dists" / recipe.SUITE / "main" / f"binary-{recipe.ARCHITECTURE}" / "Packages"
    index.parent.mkdir(parents=True)
    (into / "pool").mkdir()
    for package in packages:
        _link(apt.archives / package.file, into / "pool" / package.file)
    index.write_text("\n".join(_relocated(p) for p in packages), encoding="utf-8")
    _write_release(into / "dists" / recipe.SUITE, index)
    return f"deb [trusted=yes] copy:{into} {recipe.SUITE} main"


def _relocated(package: Package) -> str:
    place = f"Filename: pool/{package.file}"
    return re.sub(r"^Filename: .*$", lambda _: place, package.stanza, flags=re.MULTILINE) + "\n"


def _write_release(directory: Path, index: Path) -> None:
    data = index.read_bytes()
    (directory / "Release").write_text(
        f"Origin: podrail\nSuite: {recipe.SUITE}\nCodename: {recipe.SUITE}\n"
        f"Architectures: {recipe.ARCHITECTURE}\nComponents: main\nSHA256:\n"
        f" {hashlib.sha256(data).hexdigest()} {len(data)} {index.relative_to(directory)}\n",
        encoding="utf-8",
    )


def _link(source: Path, target: Path) -> None:
    """A hard link where the file system allows it, readable to subordinate ids."""
    source.chmod(0o644)
    try:
        os.link(source, target)
    except OSError:
        target.write_bytes(source.read_bytes())
