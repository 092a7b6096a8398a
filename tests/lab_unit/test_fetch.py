"""Fetching packages: patience with a mirror, and what is asked of apt."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from podrail.lab import build, fetch, mirror, recipe
from podrail.lab.programs import ProgramFailed
from podrail.model.errors import Refused
from podrail.model.progress import Meter, Progress

BUSY = ["E: Failed to fetch http://m/x.deb  429  Too Many Requests [IP: 10.0.0.1 80]"]
STANZA = """\
Package: {name}
Version: {version}
Architecture: amd64
Filename: pool/main/x/{name}.deb
Size: {size}
SHA256: 00
Description: words
 Filename: not this one"""


def never(*_: object) -> None:
    pytest.fail("called though nothing was to be done")


def failing(tail: Sequence[str], times: int) -> Callable[[int], str]:
    left = [times]

    def work(_: int) -> str:
        if left[0]:
            left[0] -= 1
            raise ProgramFailed("apt-get", 100, tail, None)
        return "done"

    return work


# --- patience ---------------------------------------------------------------------------------


def test_waits_grow_until_the_mirror_answers() -> None:
    waits, said = list[float](), list[str]()
    assert fetch.patiently(failing(BUSY, 3), said.append, waits.append) == "done"
    assert waits == sorted(waits)
    assert waits[2] > 4 * waits[0]
    assert "429" in said[0]
    assert said[0].endswith("(2 of 4)")


def test_after_the_last_try_the_error_says_how_to_go_on() -> None:
    with pytest.raises(Refused, match=r"429.*in 4 tries.*again later") as refused:
        fetch.patiently(failing(BUSY, 9), lambda _: None, lambda _: None)
    assert "x.deb" in str(refused.value)


def test_a_try_that_got_further_starts_the_count_again() -> None:
    waits, got = list[float](), iter(range(100))
    assert (
        fetch.patiently(failing(BUSY, 9), lambda _: None, waits.append, lambda: next(got)) == "done"
    )
    assert len(waits) == 9
    assert max(waits) < 10


@pytest.mark.parametrize(
    "line",
    [
        "E: Unable to locate package nonesuch",
        "E: You don't have enough free space in /var/cache/apt/archives/.",
        "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE",
    ],
)
def test_what_patience_cannot_mend_fails_at_once(line: str) -> None:
    with pytest.raises(ProgramFailed):
        fetch.patiently(failing([line], 1), never, never)


@pytest.mark.parametrize(
    "line",
    [
        "Temporary failure resolving 'mirror.example'",
        "Could not connect to mirror.example:80 (10.0.0.1), connection timed out",
        "E: Failed to fetch http://m/p  Hash Sum mismatch",
        "WARNING: Retrying after connection broken by 'NewConnectionError'",
        "503  Service Unavailable",
    ],
)
def test_a_network_that_fails_is_given_time(line: str) -> None:
    assert fetch.patiently(failing([line], 1), lambda _: None, lambda _: None) == "done"


# --- packages ---------------------------------------------------------------------------------


def package(name: str, version: str = "1:2.0-1", size: int = 3) -> fetch.Package:
    return fetch.Package(name, STANZA.format(name=name, version=version, size=size))


class Answers:
    """apt by heart."""

    def __init__(self, archives: Path) -> None:
        self.archives, self.asked = archives, list[list[str]]()

    def run(
        self,
        argv: Sequence[str],
        on_line: Callable[[str], None] | None = None,
        env: Mapping[str, str] | None = None,
        pass_fds: Sequence[int] = (),
    ) -> list[str]:
        self.asked.append(list(argv))
        if "--simulate" in argv:
            return ["Inst bash (5.2-1 Debian:13/stable [amd64])", "Conf bash (5.2-1 x)"]
        if "show" in argv and argv[-1].startswith(recipe.KERNEL_PACKAGE):
            return ["Package: linux-image-amd64", "Depends: linux-image-7.2.12+deb13-amd64 (= 7)"]
        if "show" in argv:
            return STANZA.format(name="bash", version="5.2-1", size=3).splitlines()
        if "--download-only" in argv:
            (self.archives / "bash_5.2-1_amd64.deb").write_bytes(b"deb")
            assert on_line
            on_line("Get:1 http://m trixie/main amd64 bash amd64 5.2-1 [3 B]")
        return []


def apt(tmp_path: Path) -> tuple[fetch.Apt, Answers]:
    answers = Answers(tmp_path / "apt" / "archives")
    source = mirror.Source("http://m", ("bookworm",), ("main",), "/k.gpg")
    return fetch.Apt(tmp_path / "apt", source, answers), answers


def test_fetching_asks_apt_for_the_resolved_set(tmp_path: Path) -> None:
    said = list[Progress]()
    tool, answers = apt(tmp_path)
    found = fetch.fetch(tool, Meter(said.append, build.USUAL))
    assert [p.file for p in found] == ["bash_5.2-1_amd64.deb"]
    wanted = answers.asked[-1]
    assert "linux-modules-7.2.12+deb13-amd64" in wanted
    assert {"?essential", "containerd", "rdma-core"} <= set(wanted)
    sources = (tmp_path / "apt" / "sources" / "lab.sources").read_text(encoding="utf-8")
    assert "Suites: trixie trixie-backports\n" in sources
    assert "Signed-By: /k.gpg\n" in sources
    assert said[-1].fraction is not None


def test_a_mirror_without_the_kernel_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool, _ = apt(tmp_path)
    monkeypatch.setattr(tool, "show", lambda *_: [])
    with pytest.raises(Refused, match="http://m has no linux-image-amd64 in trixie-backports"):
        fetch.kernel_packages(tool)


def test_a_package_is_named_as_apt_names_its_file() -> None:
    assert package("passwd", "1:4.17-2").file == "passwd_1%3a4.17-2_amd64.deb"


def test_the_local_repository_is_one_apt_can_read(tmp_path: Path) -> None:
    tool, _ = apt(tmp_path)
    tool.prepare()
    found = [package("one"), package("two")]
    for p in found:
        (tool.archives / p.file).write_bytes(b"deb")
    line = fetch.local_repository(tool, found, tmp_path / "repository")
    assert line == f"deb [trusted=yes] copy:{tmp_path}/repository trixie main"
    index = tmp_path / "repository/dists/trixie/main/binary-amd64/Packages"
    assert "\nFilename: pool/one_1%3a2.0-1_amd64.deb\n" in index.read_text(encoding="utf-8")
    assert (tmp_path / "repository/pool/two_1%3a2.0-1_amd64.deb").read_bytes() == b"deb"
    release = (tmp_path / "repository/dists/trixie/Release").read_text(encoding="utf-8")
    assert f" {index.stat().st_size} main/binary-amd64/Packages\n" in release


def test_old_packages_are_forgotten(tmp_path: Path) -> None:
    tool, _ = apt(tmp_path)
    tool.prepare()
    kept, old = tool.archives / package("a").file, tool.archives / "a_1_amd64.deb"
    kept.touch()
    old.touch()
    fetch.forget_others(tool, [package("a")])
    assert (kept.exists(), old.exists()) == (True, False)
