"""The real machine: a root that nothing leads out of, and reads that end."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from podrail.host import linux
from podrail.host.linux import LinuxHost


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """`root/`, with a file beside it that must stay out of reach."""
    (tmp_path / "secret").write_text("outside\n")
    (tmp_path / "root/usr/lib").mkdir(parents=True)
    (tmp_path / "root/etc").mkdir()
    (tmp_path / "root/usr/lib/os-release").write_text("inside\n")
    return tmp_path / "root"


def test_an_absolute_link_starts_at_the_root(root: Path) -> None:
    (root / "etc/os-release").symlink_to("/usr/lib/os-release")
    (root / "lib").symlink_to("/usr/lib")
    host = LinuxHost(str(root))
    assert host.resolve("/etc/os-release") == "/usr/lib/os-release"
    assert host.read("/etc/os-release") == "inside\n"
    assert host.entries("/lib") == ("os-release",)
    assert host.readlink("/etc/os-release") == "/usr/lib/os-release"


@pytest.mark.parametrize("target", ["../../secret", "/../secret", "{outside}"])
def test_nothing_leads_out_of_the_root(root: Path, target: str) -> None:
    (root / "etc/x").symlink_to(target.format(outside=root.parent / "secret"))
    host = LinuxHost(str(root))
    for ask in (host.read, host.resolve):
        with pytest.raises(FileNotFoundError):
            ask("/etc/x")
    with pytest.raises(FileNotFoundError):
        host.read("/../secret")
    with pytest.raises(FileNotFoundError):
        host.write("/etc/x", "changed")
    assert (root.parent / "secret").read_text() == "outside\n"


def test_a_directory_link_does_not_lead_out_either(root: Path) -> None:
    (root / "up").symlink_to("/" + os.path.relpath("/", root))
    host = LinuxHost(str(root))
    assert host.entries("/up") == ("etc", "up", "usr")
    with pytest.raises(OSError, match="Invalid argument"):
        host.readlink("/up/etc")


def test_a_loop_ends(root: Path) -> None:
    (root / "a").symlink_to("b")
    (root / "b").symlink_to("/a")
    with pytest.raises(OSError, match="Too many levels") as no:
        LinuxHost(str(root)).resolve("/a")
    assert no.value.errno == errno.ELOOP


def test_relative_links_as_in_sysfs(root: Path) -> None:
    (root / "etc/r").symlink_to("../usr/./lib/os-release")
    assert LinuxHost(f"{root}/").resolve("/etc/r") == "/usr/lib/os-release"


def test_a_namespace_is_there_though_its_link_names_no_file() -> None:
    assert LinuxHost().resolve("/proc/self/ns/net")
    assert LinuxHost().labels == {}
    with pytest.raises(FileNotFoundError):
        LinuxHost().resolve("/proc/self/ns/nosuch")


def test_a_read_is_capped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linux, "MAX_BYTES", 1024 * 1024)
    big = tmp_path / "big"
    big.touch()
    os.truncate(big, 1024 * 1024)
    assert len(LinuxHost().read_bytes(str(big))) == 1024 * 1024
    os.truncate(big, 1024 * 1024 + 1)
    with pytest.raises(OSError, match="over 1 MiB") as no:
        LinuxHost().read_bytes(str(big))
    assert no.value.errno == errno.EFBIG


def test_an_endless_file_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linux, "MAX_BYTES", 1024 * 1024)
    with pytest.raises(OSError, match="not read"):
        LinuxHost().read("/dev/zero")
