"""The package mirror this machine already uses, read from apt's own configuration.

Both of apt's formats: one line per entry (sources.list) and deb822 (*.sources); sources.list(5).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from podrail.model.errors import Refused

VARIABLE = "PODRAIL_LAB_MIRROR"
_ONE_LINE = re.compile(r"^deb\s+(?:\[(?P<options>[^\]]*)\]\s+)?(?P<uri>\S+)\s+(?P<rest>.+)$")


@dataclass(frozen=True, slots=True)
class Source:
    """One enabled binary entry."""

    uri: str
    suites: tuple[str, ...]
    components: tuple[str, ...]
    signed_by: str = ""
    """A keyring's path, or the key itself as deb822 writes it (continued lines)."""

    def stanza(self, *suites: str, components: tuple[str, ...] = ("main",)) -> str:
        """This mirror in deb822 form, for other suites."""
        fields = {
            "Types": "deb",
            "URIs": self.uri,
            "Suites": " ".join(suites),
            "Components": " ".join(components),
            "Signed-By": self.signed_by,
        }
        return "".join(f"{name}: {value}\n" for name, value in fields.items() if value)


def host_sources(etc: Path = Path("/etc")) -> list[Source]:
    """Every enabled entry that apt on this machine knows."""
    found: list[Source] = []
    parts = etc / "apt" / "sources.list.d"
    for file in (etc / "apt" / "sources.list", *sorted(parts.glob("*"))):
        text = _text(file)
        if file.suffix == ".list":
            found += one_line(text)
        elif file.suffix == ".sources":
            found += deb822(text)
    return found


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def one_line(text: str) -> Iterator[Source]:
    """The entries of a sources.list."""
    for raw in text.splitlines():
        match = _ONE_LINE.match(raw.partition("#")[0].strip())
        if match:
            options = dict(o.split("=", 1) for o in (match["options"] or "").split() if "=" in o)
            suite, *components = match["rest"].split()
            yield Source(match["uri"], (suite,), tuple(components), options.get("signed-by", ""))


def deb822(text: str) -> Iterator[Source]:
    """The entries of a *.sources file."""
    for fields in _paragraphs(text):
        off = fields.get("enabled", "yes").strip().lower() in ("no", "false", "0", "off", "without")
        if off or "deb" not in fields.get("types", "").split():
            continue
        for uri in fields.get("uris", "").split():
            yield Source(
                uri,
                tuple(fields.get("suites", "").split()),
                tuple(fields.get("components", "").split()),
                fields.get("signed-by", "").strip(" "),
            )


def _paragraphs(text: str) -> Iterator[dict[str, str]]:
    fields: dict[str, str] = {}
    name = ""
    for line in [*text.splitlines(), ""]:
        if not line.strip() and fields:
            yield fields
            fields, name = {}, ""
        elif line.startswith("#"):
            continue
        elif line[:1].isspace() and name:
            fields[name] += "\n" + line
        elif ":" in line:
            name, _, value = line.partition(":")
            name = name.strip().lower()
            fields[name] = value.strip()


def os_release(etc: Path = Path("/etc")) -> dict[str, str]:
    """os-release(5) as a dictionary."""
    pairs = (line.partition("=") for line in _text(etc / "os-release").splitlines())
    return {key: value.strip("\"'") for key, equals, value in pairs if equals}


def debian_mirror(etc: Path = Path("/etc")) -> Source:
    """Where the lab's packages come from: the variable, or the mirror of this Debian."""
    given = os.environ.get(VARIABLE)
    if given:
        return Source(given, (), (), _keyring())
    release = os_release(etc)
    if release.get("ID") != "debian":
        raise Refused(
            f"this machine runs {release.get('PRETTY_NAME', 'no Debian')}, whose mirror has no "
            f"Debian packages for the lab's image; set {VARIABLE} to the URL of a Debian mirror"
        )
    return _best(host_sources(etc), release.get("VERSION_CODENAME", ""))


def _best(sources: list[Source], codename: str) -> Source:
    usable = [s for s in sources if "main" in s.components and not _special(s)]
    for source in usable:
        if codename in source.suites:
            return source
    if usable:
        return usable[0]
    raise Refused(
        "apt's configuration (/etc/apt/sources.list, sources.list.d) names no mirror with the "
        f"component main; set {VARIABLE} to the URL of a Debian mirror"
    )


def _special(source: Source) -> bool:
    """Not a whole mirror: a medium, or the security archive alone."""
    security = all("security" in suite for suite in source.suites)
    return source.uri.startswith("cdrom:") or security


def _keyring() -> str:
    path = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
    return str(path) if path.exists() else ""
