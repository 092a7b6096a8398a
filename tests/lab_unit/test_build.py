"""Building the image: the lock, half-built leftovers, space, and what is written."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from podrail.lab import build, cache, payload, programs, recipe, rootfs
from podrail.lab.programs import Logged, ProgramFailed
from podrail.model.errors import Refused
from podrail.model.progress import Meter, Progress


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    cache.base().mkdir(parents=True)


def never(*_: object) -> None:
    pytest.fail("called though nothing was to be done")


# --- the cache --------------------------------------------------------------------------------


def made(name: str, age: float = 0.0) -> Path:
    place = cache.base() / name
    place.mkdir()
    (place / cache.DONE).touch()
    os.utime(place / cache.DONE, (1e9 - age, 1e9 - age))
    return place


def test_a_finished_image_is_given_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipe, "recipe_hash", lambda: "abc")
    place = made("abc")
    image = build.ensure_image(never)
    assert image.root == place / "root.img"
    assert (place / cache.DONE).stat().st_mtime > 1e9


def fake_build(monkeypatch: pytest.MonkeyPatch, make: Callable[[Path, Path], None]) -> None:
    monkeypatch.setattr(recipe, "recipe_hash", lambda: "abc")
    monkeypatch.setattr(build, "SPACE_MB", 0)
    monkeypatch.setattr(build, "_WORK_MB", 0)
    monkeypatch.setattr(build, "_check", lambda _: None)

    def _make(work: Path, built: Path, *_: object) -> None:
        built.mkdir()
        make(work, built)

    monkeypatch.setattr(build, "_make", _make)


def test_who_comes_second_is_told_waits_and_builds_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started, go, builds = threading.Event(), threading.Event(), []

    def slow(_: Path, built: Path) -> None:
        builds.append(built)
        started.set()
        assert go.wait(10)

    fake_build(monkeypatch, slow)
    first = threading.Thread(target=build.ensure_image, args=(lambda _: None,))
    first.start()
    assert started.wait(10)
    said: list[Progress] = []

    def told(progress: Progress) -> None:
        said.append(progress)
        go.set()

    build.ensure_image(told)
    first.join(10)
    assert len(builds) == 1
    assert "another podrail is building" in said[0].text


def test_leftovers_of_a_crash_are_removed_first(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    crashed = cache.base() / ".abc.work-x"
    (crashed / "root" / "etc").mkdir(parents=True)
    shared = tmp_path / "tmp" / f"podrail-lab-{os.geteuid()}-abc-y"
    shared.mkdir()
    other = cache.base() / ".def.work-x"
    other.mkdir()
    seen: list[bool] = []
    fake_build(monkeypatch, lambda *_: seen.extend((crashed.exists(), shared.exists())))
    monkeypatch.setattr(rootfs, "inside", list)
    build.ensure_image(lambda _: None)
    assert seen == [False, False]
    assert other.exists()


def test_a_directory_without_done_is_built_again(monkeypatch: pytest.MonkeyPatch) -> None:
    half = cache.base() / "abc"
    half.mkdir()
    (half / "root.img").write_bytes(b"half")

    def make(_: Path, built: Path) -> None:
        (built / "root.img").write_bytes(b"whole")

    fake_build(monkeypatch, make)
    image = build.ensure_image(lambda _: None)
    assert image.root.read_bytes() == b"whole"


@pytest.mark.parametrize("wrong", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_build_that_fails_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, wrong: BaseException
) -> None:
    def fail(*_: object) -> None:
        raise wrong

    fake_build(monkeypatch, fail)
    with pytest.raises((Refused, KeyboardInterrupt)):
        build.ensure_image(lambda _: None)
    assert not [p for p in cache.base().iterdir() if p.is_dir()]


def test_no_space_is_said_before_anything_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_build(monkeypatch, lambda *_: pytest.fail("built"))
    monkeypatch.setattr(build, "SPACE_MB", 10**9)
    with pytest.raises(Refused, match=r"MB free .* needs 1000000000 MB; make room"):
        build.ensure_image(lambda _: None)


def test_a_mount_left_inside_is_never_deleted_through(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(cache, "_mounts_below", lambda _: ["/x/root/proc"])
    with pytest.raises(Refused, match="umount -l /x/root/proc"):
        cache.remove(tmp_path, never)
    assert tmp_path.exists()


def test_only_the_images_used_last_are_kept() -> None:
    places = [made(name, age) for name, age in (("a", 1), ("b", 2), ("c", 3), ("d", 0))]
    cache.forget_old(places[3])
    assert sorted(p.name for p in cache.base().iterdir()) == ["a", "b", "d"]


def test_a_user_without_subordinate_ids_gets_one_command(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> list[str]:
        raise ProgramFailed("mmdebstrap", 25, ["E: failed to parse /etc/subuid"], None)

    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setenv("LOGNAME", "ada")
    runner = Logged(cache.base() / "log")
    monkeypatch.setattr(runner, "run", refuse)
    with pytest.raises(Refused, match=r"subuid(.|\n)*sudo sh -c .*--add-subgids \S+ ada"):
        build._check(runner)


def test_what_a_build_took_is_the_next_ones_estimate() -> None:
    clock = iter(float(n) for n in range(100))
    meter = Meter(lambda _: None, build.USUAL, lambda: next(clock))
    for stage in build.USUAL:
        meter.start(stage, stage)
    meter.finish()
    build._learn(meter)
    assert build._usual() == meter.took
    (cache.base() / "timings.json").write_text("{", encoding="utf-8")
    assert build._usual() == build.USUAL


# --- programs and progress --------------------------------------------------------------------


def test_a_failed_program_shows_the_end_of_its_words_and_the_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with pytest.raises(ProgramFailed) as failed:
        Logged(log).run(["sh", "-c", "seq 40; echo last >&2; exit 3"])
    text = str(failed.value)
    assert "sh ended with status 3" in text
    assert "  last\n" in text
    assert "  5\n" not in text
    assert str(log) in text
    assert "\n1\n2\n" in log.read_text(encoding="utf-8")


def test_a_program_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")  # a directory nobody may read would be EACCES
    with pytest.raises(Refused, match="cannot run no-such-program: No such file"):
        Logged(tmp_path / "log").run(["no-such-program"])


def test_an_interrupted_program_is_ended(tmp_path: Path) -> None:
    children: list[subprocess.Popen[str]] = []

    class Watched(Logged):
        @staticmethod
        def _start(*args: object) -> subprocess.Popen[str]:
            children.append(Logged._start(*args))  # type: ignore[arg-type]
            return children[-1]

    def interrupt(_: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Watched(tmp_path / "log").run(["sh", "-c", "echo x; exec sleep 60"], interrupt)
    assert children[0].returncode == -15


def test_sbin_is_searched_though_a_users_path_lacks_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin")
    assert "/usr/sbin" in programs.search_path().split(":")


def test_progress_says_part_and_time_left() -> None:
    said, now = list[Progress](), [0.0]
    meter = Meter(said.append, {"a": 10.0, "b": 30.0}, lambda: now[0])
    meter.start("a", "first")
    now[0] = 20.0
    meter.start("b", "second")
    assert said[-1].fraction == pytest.approx(0.25)
    assert said[-1].left == pytest.approx(60.0)
    assert str(said[-1]) == "second, 25%, about 60 s left"
    meter.at(0.5)
    assert len(said) == 2
    now[0] = 23.0
    meter.at(0.5)
    assert said[-1].fraction == pytest.approx(0.625)
    meter.say("a word")
    assert str(said[-1]) == "a word"


# --- what is written --------------------------------------------------------------------------


def test_mmdebstrap_is_told_everything(tmp_path: Path) -> None:
    overlay = tmp_path / "with space" / "o.tar"
    argv = rootfs.Bootstrap(tmp_path / "r", "deb x", overlay, tmp_path / "h", ["a", "b"]).argv()
    assert "--include=a,b" in argv
    assert f"--customize-hook=tar-in '{overlay}' /" in argv
    assert f"--customize-hook={tmp_path}/h" in argv
    assert argv[-3:] == ["trixie", str(tmp_path / "r"), "deb x"]


def test_an_ordinary_user_works_with_subordinate_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert rootfs.mode() == "unshare"
    assert rootfs.inside(["rm"]) == ["mmdebstrap", "--unshare-helper", "rm"]


def test_the_initramfs_is_a_cpio_others_can_read(tmp_path: Path) -> None:
    data = rootfs.newc([("d", 0o040755, b""), ("d/f", 0o100644, b"12345")])
    assert len(data) % 4 == 0
    assert data.startswith(b"070701")
    assert data.count(b"070701") == 3
    assert b"TRAILER!!!\0" in data
    at = data.index(b"d/f\0")
    assert int(data[at - 56 : at - 48], 16) == 5
    assert data[data.index(b"12345") - 1 : data.index(b"12345")] == b"\0"


def test_the_overlay_belongs_to_root(tmp_path: Path) -> None:
    site = tmp_path / "site"
    (site / "click").mkdir(parents=True)
    (site / "click" / "core.py").write_text("x = 1\n", encoding="utf-8")
    payload.make_overlay(site, tmp_path / "o.tar")
    with tarfile.open(tmp_path / "o.tar") as archive:
        members = {m.name: m for m in archive.getmembers()}
    assert {m.uid for m in members.values()} == {0}
    assert members["lab-init"].mode == 0o755
    assert members["opt/podrail/site/click/core.py"].mode == 0o644
    assert members["usr/local/bin/podrail"].mode == 0o755


def test_podrails_disk_is_made_once_per_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "podrail"
    package.mkdir()
    (package / "__init__.py").write_text("", encoding="utf-8")
    runs = io.StringIO()

    def make(_: Path, image: Path) -> None:
        runs.write("x")
        image.touch()

    monkeypatch.setattr(payload, "_package", lambda: package)
    monkeypatch.setattr(payload, "_make_image", make)
    first = payload.build_podrail(tmp_path / "out")
    assert payload.build_podrail(tmp_path / "out") == first
    (package / "more.py").write_text("x = 1\n", encoding="utf-8")
    assert payload.build_podrail(tmp_path / "out") != first
    assert runs.getvalue() == "xx"


def test_guest_scripts_parse() -> None:
    for name, shell in (("init", "bash"), ("customize", "sh"), ("initramfs-init", "sh")):
        subprocess.run([shell, "-n", str(recipe.GUEST / name)], check=True)
    compile((recipe.GUEST / "podrail").read_text(encoding="utf-8"), "podrail", "exec")
