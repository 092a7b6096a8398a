"""A file is placed whole or not at all, and taken away, on every host that can be changed."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from podrail.host.linux import LinuxHost
from podrail.host.memory import MemoryHost
from podrail.host.record import RecordedHost, RecordingHost
from podrail.host.seam import Host
from podrail.host.twins import twin

Make = Callable[[Path], Host]

HOSTS: dict[str, Make] = {
    "linux": lambda root: LinuxHost(str(root)),
    "memory": lambda root: MemoryHost("m"),
    "twin": lambda root: twin("igb"),
}


@pytest.fixture(params=sorted(HOSTS))
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Host:
    make = HOSTS[request.param]
    return make(tmp_path)


def link(host: Host, root: Path, path: str, target: str) -> None:
    if isinstance(host, MemoryHost):
        host.put_link(path, target)
        return
    (root / path[1:]).parent.mkdir(parents=True, exist_ok=True)
    (root / path[1:]).symlink_to(target)


# --- on every host --------------------------------------------------------------------------------


def test_a_file_is_made_with_its_directories_and_replaced(host: Host) -> None:
    host.place("/etc/podrail/deep/a.conf", "one\n")
    host.place("/etc/podrail/deep/a.conf", "two\n")
    assert host.read("/etc/podrail/deep/a.conf") == "two\n"
    assert host.entries("/etc/podrail/deep") == ("a.conf",)


@pytest.mark.parametrize("target", ["/etc/real/a.conf", "../etc/real/a.conf"])
@pytest.mark.parametrize("there", [True, False])
def test_a_link_is_followed(host: Host, tmp_path: Path, target: str, there: bool) -> None:
    host.place("/etc/real/b.conf", "beside\n")
    if there:
        host.place("/etc/real/a.conf", "old\n")
    link(host, tmp_path, "/opt/a.conf", target)
    host.place("/opt/a.conf", "new\n")
    assert host.read("/etc/real/a.conf") == host.read("/opt/a.conf") == "new\n"
    assert host.readlink("/opt/a.conf") == target


def test_unlink_takes_the_link_and_leaves_what_it_points_at(host: Host, tmp_path: Path) -> None:
    host.place("/etc/real", "text\n")
    link(host, tmp_path, "/opt/alias", "/etc/real")
    host.unlink("/opt/alias")
    assert host.entries("/opt") == ()
    assert host.read("/etc/real") == "text\n"
    host.unlink("/etc/real")
    for path in ("/etc/real", "/opt/alias", "/nosuch/x"):
        with pytest.raises(FileNotFoundError):
            host.unlink(path)


def test_a_directory_is_neither_replaced_nor_unlinked(host: Host) -> None:
    host.place("/etc/d/a", "text\n")
    with pytest.raises(IsADirectoryError):
        host.place("/etc/d", "x")
    with pytest.raises(IsADirectoryError):
        host.unlink("/etc/d")
    with pytest.raises(NotADirectoryError):
        host.place("/etc/d/a/b", "x")
    assert host.read("/etc/d/a") == "text\n"


# --- the real machine -----------------------------------------------------------------------------


def test_the_mode_is_what_was_asked_whatever_the_umask(tmp_path: Path) -> None:
    host, before = LinuxHost(), os.umask(0o077)
    try:
        for mode in (0o644, 0o600, 0o755):
            host.place(str(tmp_path / "a"), "x", mode=mode)
            assert (tmp_path / "a").stat().st_mode & 0o7777 == mode
    finally:
        os.umask(before)


@pytest.mark.parametrize("target", ["../../outside", "/../outside", "{outside}"])
def test_nothing_is_placed_or_unlinked_outside_the_root(tmp_path: Path, target: str) -> None:
    outside, root = tmp_path / "outside", tmp_path / "root"
    root.mkdir()
    outside.write_text("mine\n")
    host = LinuxHost(str(root))
    (root / "x").symlink_to(target.format(outside=outside))
    (root / "d").symlink_to("/" + os.path.relpath("/", root))
    for path in ("/x", "/../outside", "/d/outside", "/d/../../outside"):
        host.place(path, "changed")
    assert outside.read_text() == "mine\n"
    host.unlink("/d/outside")
    with pytest.raises(FileNotFoundError):
        host.unlink("/../outside")
    assert outside.read_text() == "mine\n"


@pytest.mark.parametrize("call", ["fsync", "rename", "fchmod"])
def test_a_failure_leaves_the_old_text_and_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    host, path = LinuxHost(), tmp_path / "a"
    host.place(str(path), "old\n")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, call, full)
        with pytest.raises(OSError, match="No space left") as no:
            host.place(str(path), "new\n")
    assert no.value.filename == str(path)
    assert path.read_text() == "old\n"
    assert os.listdir(tmp_path) == ["a"]


def test_the_text_is_on_the_disk_before_its_name_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    fsync, rename = os.fsync, os.rename

    def synced(fd: int) -> None:
        kept = os.readlink(f"/proc/self/fd/{fd}")
        seen.append("directory" if os.path.isdir(kept) else "file")
        fsync(fd)

    def renamed(old: str, new: str) -> None:
        seen.append("rename")
        rename(old, new)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "rename", renamed)
    LinuxHost().place(str(tmp_path / "a"), "text")
    assert seen == ["file", "rename", "directory"]
    LinuxHost().unlink(str(tmp_path / "a"))
    assert seen[3:] == ["directory"]


def test_whoever_reads_finds_one_whole_text(tmp_path: Path) -> None:
    host, path = LinuxHost(), str(tmp_path / "a")
    texts = [letter * 200_000 for letter in "abc"]
    host.place(path, texts[0])
    done = threading.Event()

    def write(text: str) -> None:
        for _ in range(20):
            host.place(path, text)

    def write_all() -> None:
        writers = [threading.Thread(target=write, args=(text,)) for text in texts]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        done.set()

    writing = threading.Thread(target=write_all)
    writing.start()
    seen = set()
    while not done.is_set():
        seen.add(host.read(path))
    writing.join()
    assert seen | {host.read(path)} <= set(texts)
    assert os.listdir(tmp_path) == ["a"]


# --- where nothing may be placed ------------------------------------------------------------------


def test_the_kernel_makes_no_files_in_sysfs_and_procfs() -> None:
    """What a lab node says to the same, tests/twin/test_contract_vfs.py asks it."""
    host, found = twin("igb"), []
    for path in ("/sys/class/net/podrail", "/sys/nosuch/podrail", "/proc/podrail"):
        with pytest.raises(OSError, match="podrail") as no:
            host.place(path, "x")
        found.append(no.value.errno)
    for path in ("/sys/class/net/lo/mtu", "/sys/class/net/lo/podrail", "/proc/cmdline"):
        with pytest.raises(OSError, match=path) as no:
            host.unlink(path)
        found.append(no.value.errno)
    assert found[:3] == [errno.EACCES, errno.EPERM, errno.ENOENT]
    assert found[3:] == [errno.EPERM, errno.ENOENT, errno.EPERM]


def test_a_record_is_not_changed() -> None:
    recording = RecordingHost(twin("igb"))
    recorded = RecordedHost.from_text(recording.dump(), "r.json")
    refusals: list[Callable[[Host], object]] = [
        lambda host: host.place("/etc/x", "x"),
        lambda host: host.unlink("/etc/hostname"),
        lambda host: host.write("/etc/hostname", "x"),
        lambda host: host.run(["ip", "-batch", "-"], stdin="link set lo up\n"),
        lambda host: host.watch(),
    ]
    hosts: tuple[Host, ...] = (recording, recorded)
    for host in hosts:
        for change in refusals:
            with pytest.raises(OSError, match=r"record|changed") as no:
                change(host)
            assert no.value.errno == errno.EROFS
