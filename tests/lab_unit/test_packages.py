"""Host programs: what is missing, how it is installed, and what is said where it cannot be."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from podrail.lab import packages
from podrail.lab.mirror import Source, deb822, debian_mirror, host_sources, one_line
from podrail.lab.packages import Lack, Machine
from podrail.lab.programs import ProgramFailed
from podrail.model.errors import Refused
from podrail.model.progress import Progress

MIRROR = "http://mirror.example/debian"
DEBIAN = f"""\
Types: deb
# http://commented.example
URIs: {MIRROR}
Suites: bookworm bookworm-updates
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://security.example/debian-security
Suites: bookworm-security
Components: main
"""


class Fake:
    """Programs that note what they were asked."""

    def __init__(self, *failures: ProgramFailed) -> None:
        self.asked: list[list[str]] = []
        self.failures = list(failures)

    def run(
        self,
        argv: Sequence[str],
        on_line: Callable[[str], None] | None = None,
        env: Mapping[str, str] | None = None,
        pass_fds: Sequence[int] = (),
    ) -> list[str]:
        self.asked.append(list(argv))
        if "install" in argv and self.failures:
            raise self.failures.pop(0)
        if on_line:
            on_line("Setting up qemu-system-x86 …")
        return []


@pytest.fixture
def etc(tmp_path: Path) -> Path:
    parts = tmp_path / "etc" / "apt" / "sources.list.d"
    parts.mkdir(parents=True)
    (parts / "debian.sources").write_text(DEBIAN, encoding="utf-8")
    (tmp_path / "etc" / "os-release").write_text(
        'ID=debian\nVERSION_CODENAME=bookworm\nPRETTY_NAME="Debian GNU/Linux 12"\n',
        encoding="utf-8",
    )
    return tmp_path / "etc"


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("PODRAIL_LAB_MIRROR", raising=False)
    monkeypatch.setattr("time.sleep", lambda _: None)


def never(*_: object) -> None:
    pytest.fail("called though nothing was to be done")


def looks(*answers: Lack) -> Callable[..., Lack]:
    queue: Iterator[Lack] = iter(answers)
    return lambda **_: next(queue)


# --- apt's sources ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        pytest.param(
            f"deb {MIRROR} trixie main contrib",
            [Source(MIRROR, ("trixie",), ("main", "contrib"))],
            id="plain",
        ),
        pytest.param(
            f"deb [arch=amd64 signed-by=/k.gpg] {MIRROR} trixie main # why",
            [Source(MIRROR, ("trixie",), ("main",), "/k.gpg")],
            id="options and comment",
        ),
        pytest.param(f"deb-src {MIRROR} trixie main", [], id="source"),
        pytest.param(f"# deb {MIRROR} trixie main", [], id="commented"),
        pytest.param("", [], id="empty"),
    ],
)
def test_one_line_entries(line: str, wanted: list[Source]) -> None:
    assert list(one_line(line)) == wanted


def test_deb822_entries() -> None:
    first, second = deb822(DEBIAN)
    assert first.uri == MIRROR
    assert first.suites == ("bookworm", "bookworm-updates")
    assert first.signed_by.endswith("keyring.gpg")
    assert second.suites == ("bookworm-security",)


@pytest.mark.parametrize("off", ["Enabled: no", "Enabled: false"])
def test_a_disabled_entry_does_not_count(off: str) -> None:
    assert not list(deb822(f"{off}\n{DEBIAN.split(chr(10) * 2, maxsplit=1)[0]}"))


def test_several_uris_and_an_embedded_key() -> None:
    text = "Types: deb deb-src\nURIs: http://a http://b\nSuites: sid\nComponents: main\n"
    key = "Signed-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n abc\n -----END-----\n"
    a, b = deb822(text + key)
    assert (a.uri, b.uri) == ("http://a", "http://b")
    again = next(deb822(a.stanza("trixie")))
    assert again.signed_by == a.signed_by
    assert "abc" in again.signed_by


def test_all_files_of_apt_are_read_and_others_are_not(etc: Path) -> None:
    (etc / "apt" / "sources.list").write_text("deb http://one x main\n", encoding="utf-8")
    parts = etc / "apt" / "sources.list.d"
    (parts / "two.list").write_text("deb http://two x main\n", encoding="utf-8")
    (parts / "three.list.disabled").write_text("deb http://three x main\n", encoding="utf-8")
    assert [s.uri for s in host_sources(etc)] == [
        "http://one", MIRROR, "http://security.example/debian-security", "http://two",
    ]  # fmt: skip


def test_the_mirror_is_the_one_of_this_release(etc: Path) -> None:
    (etc / "apt" / "sources.list").write_text(
        "deb cdrom:[disc]/ bookworm main\ndeb http://vendor.example/x stable main\n",
        encoding="utf-8",
    )
    assert debian_mirror(etc).uri == MIRROR


def test_the_variable_wins(etc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PODRAIL_LAB_MIRROR", "http://other.example/debian")
    assert debian_mirror(etc).uri == "http://other.example/debian"


def test_no_mirror_is_a_clear_word(etc: Path) -> None:
    (etc / "apt" / "sources.list.d" / "debian.sources").unlink()
    with pytest.raises(Refused, match="set PODRAIL_LAB_MIRROR"):
        debian_mirror(etc)


def test_ubuntus_mirror_is_not_taken_for_debians(etc: Path) -> None:
    (etc / "os-release").write_text('ID=ubuntu\nPRETTY_NAME="Ubuntu 24.04"\n', encoding="utf-8")
    with pytest.raises(Refused, match=r"Ubuntu 24.04.*PODRAIL_LAB_MIRROR"):
        debian_mirror(etc)


# --- programs ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ("QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2)\nCopyright", "10.0"),
        ("QEMU emulator version 8.2.2", "8.2"),
        ("QEMU emulator version 7.2.15 (v7.2.15)", "7.2"),
        ("qemu-kvm: nothing of the kind", ""),
    ],
)
def test_qemus_version(said: str, version: str) -> None:
    assert packages.parse_version(said) == version


@pytest.mark.parametrize(
    ("version", "old"), [("10.0", ""), ("8.0", ""), ("7.2", "7.2"), ("", "")]
)  # fmt: skip
def test_an_old_qemu_is_a_lack(monkeypatch: pytest.MonkeyPatch, version: str, old: str) -> None:
    monkeypatch.setattr(packages, "_where", lambda _: "/usr/bin/x")
    monkeypatch.setattr(packages, "qemu_version", lambda: version)
    assert packages.lack() == Lack((), old)


def test_what_is_not_there_is_named_by_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "_where", lambda _: None)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert packages.lack(fabric=True).packages == (
        "e2fsprogs", "ibsim-utils", "infiniband-diags", "mmdebstrap", "opensm", "qemu-system-x86",
        "uidmap",
    )  # fmt: skip


def test_nothing_happens_where_all_is_there() -> None:
    fake = Fake()
    packages.ensure(never, look=looks(Lack(())), programs=fake)
    assert not fake.asked


def test_root_on_bookworm_takes_only_qemu_from_backports(etc: Path) -> None:
    fake, said = Fake(), list[Progress]()
    missing = Lack(("mmdebstrap", "qemu-system-x86"))
    machine = Machine("debian", "bookworm", True, etc)
    packages.ensure(said.append, machine=machine, look=looks(missing, Lack(())), programs=fake)
    update, qemu, rest = fake.asked
    assert update[-1] == "update"
    assert qemu[-2:] == ["--target-release=bookworm-backports", "qemu-system-x86"]
    assert rest[-1] == "mmdebstrap"
    assert "--target-release" not in " ".join(rest)
    added = next(deb822((etc / packages._ADDED).read_text(encoding="utf-8")))
    assert (added.uri, added.suites) == (MIRROR, ("bookworm-backports",))
    assert added.signed_by.endswith("debian-archive-keyring.gpg")
    assert "installing mmdebstrap qemu-system-x86" in said[0].text


def test_a_suite_that_is_known_is_not_added_again(etc: Path) -> None:
    known = etc / "apt" / "sources.list.d" / "mine.list"
    known.write_text(f"deb {MIRROR} bookworm-backports main\n", encoding="utf-8")
    machine = Machine("debian", "bookworm", True, etc)
    looking = looks(Lack((), "7.2"), Lack(()))
    packages.ensure(lambda _: None, machine=machine, look=looking, programs=Fake())
    assert not (etc / packages._ADDED).exists()


def test_other_releases_need_no_other_suite(etc: Path) -> None:
    fake = Fake()
    machine = Machine("debian", "trixie", True, etc)
    looking = looks(Lack(("qemu-system-x86",)), Lack(()))
    packages.ensure(lambda _: None, machine=machine, look=looking, programs=fake)
    assert fake.asked[1][-1] == "qemu-system-x86"
    assert not (etc / packages._ADDED).exists()


def test_a_busy_mirror_is_asked_again(etc: Path) -> None:
    busy = ProgramFailed("apt-get", 100, ["E: Failed to fetch x  429  Too Many Requests"], None)
    fake, said = Fake(busy), list[Progress]()
    machine = Machine("debian", "trixie", True, etc)
    looking = looks(Lack(("mmdebstrap",)), Lack(()))
    packages.ensure(said.append, machine=machine, look=looking, programs=fake)
    assert sum("install" in argv for argv in fake.asked) == 2
    assert any("429" in p.text for p in said)


def test_an_ordinary_user_gets_one_command(etc: Path) -> None:
    machine = Machine("debian", "bookworm", False, etc)
    with pytest.raises(Refused) as refused:
        packages.ensure(
            never, machine=machine, look=looks(Lack(("mmdebstrap",), "7.2")), programs=Fake()
        )
    text = str(refused.value)
    assert "QEMU 7.2 where 8 or newer is wanted" in text
    command = text.partition("run:\n")[2]
    assert command.strip().startswith("sudo sh -c ")
    assert "\n" not in command.strip()
    assert "bookworm-backports" in command
    assert MIRROR in command


def test_an_unknown_system_is_told_what_is_wanted(etc: Path) -> None:
    machine = Machine("", "", True, etc)
    with pytest.raises(Refused, match="QEMU 8 or newer, mmdebstrap and e2fsprogs"):
        packages.ensure(never, machine=machine, look=looks(Lack(("mmdebstrap",))), programs=Fake())


def test_a_release_without_a_new_qemu_is_told_so(etc: Path) -> None:
    machine = Machine("ubuntu", "jammy", True, etc)
    looking = looks(Lack(("qemu-system-x86",)), Lack((), "6.2"))
    with pytest.raises(Refused, match=r"still has QEMU 6\.2 where 8 or newer.*jammy"):
        packages.ensure(lambda _: None, machine=machine, look=looking, programs=Fake())
