"""Steps in order, written down first, taken back in reverse; whoever comes next goes on."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from podrail.host.memory import MemoryHost
from podrail.host.seam import Host
from podrail.realise.engine import RESET, Outcome, Work, recover
from podrail.realise.journal import DONE, FAILED, OPEN, OVERTAKEN, UNDONE, Job, Journal
from podrail.realise.refusals import explain
from podrail.realise.step import KINDS, Failed, Gone, Kind, Step, Value
from tests.realise.support import Died

BOOT = "boot-1"


class Shelf(Kind):
    """One text in one file; some texts are refused in the odd ways there are."""

    name = "shelf"

    def read(self, host: Host, target: str) -> Value:
        text = host.read(f"/shelf/{target}")
        if text == "gone":
            raise Gone(target)
        return int(text) if text.isdecimal() else text

    def write(self, host: Host, target: str, value: Value) -> None:
        if value == "full":
            raise OSError(errno.ENOSPC, "No space left on device", f"/shelf/{target}")
        if value == "odd":
            raise ValueError("invalid literal for int()")
        if value == "stuck" or self.read(host, target) == "stuck":
            host.write(f"/shelf/{target}", "stuck")
            raise Failed(f"{target} is stuck", "unstick it")
        host.write(f"/shelf/{target}", str(value))


@pytest.fixture(autouse=True)
def _shelf(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, "shelf", Shelf())


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    opened = Journal(str(tmp_path / "journal.db"))
    yield opened
    opened.close()


def machine(**texts: Value) -> MemoryHost:
    return MemoryHost("shelf", {f"/shelf/{name}": str(text) for name, text in texts.items()})


def texts(host: MemoryHost) -> dict[str, str]:
    return {name: host.read(f"/shelf/{name}") for name in host.entries("/shelf")}


def job(*pairs: tuple[str, Value]) -> Job:
    return Job("pf", tuple(Step("shelf", target, to, "p") for target, to in pairs))


def done(host: MemoryHost, journal: Journal, one: Job, verb: str = "apply", **more: Any) -> Outcome:
    run = journal.open_run(verb, BOOT, [one])
    return Work(host, journal, run, one, verb, **more).forward()


def test_what_holds_is_not_done(journal: Journal) -> None:
    host = machine(a=1, b=2)
    outcome = done(host, journal, job(("a", 1), ("b", 5)))
    assert (outcome.state, outcome.changed) == (DONE, ("shelf: 2 → 5",))
    assert [(s.target, s.was) for s in journal.seen()] == [("b", 2)]
    assert outcome.good


@pytest.mark.parametrize(
    ("bad", "says", "fix"),
    [
        pytest.param("full", "no room left writing /shelf/c", "make room", id="errno"),
        pytest.param("odd", "cannot be read (invalid literal", "podrail discover", id="nonsense"),
        pytest.param("stuck", "c is stuck", "unstick it", id="failed"),
    ],
)
def test_a_step_that_fails_takes_the_others_back(
    journal: Journal, bad: str, says: str, fix: str
) -> None:
    host = machine(a=1, b=2, c=3)
    outcome = done(host, journal, job(("a", 7), ("b", 8), ("c", bad), ("a", 9)))
    assert says in outcome.reason
    assert fix in outcome.fix
    assert outcome.state == (FAILED if bad == "stuck" else UNDONE)
    assert {**texts(host), "c": "3"} == {"a": "1", "b": "2", "c": "3"}
    assert journal.unfinished() == []
    assert (journal.latest()["pf"].reason, journal.latest()["pf"].fix) == (
        outcome.reason,
        outcome.fix,
    )


def test_what_cannot_be_taken_back_is_named(journal: Journal) -> None:
    host = machine(a=1, b=2)
    outcome = done(host, journal, job(("a", 7), ("b", "stuck")))
    assert outcome.state == FAILED
    assert outcome.reason == "b is stuck; and could not be taken back: shelf: b is stuck"
    assert not outcome.good
    assert texts(host)["a"] == "1"


def test_a_thing_that_is_gone_ends_an_apply_and_not_a_reset(journal: Journal) -> None:
    host = machine(a=1, b="gone", c=3)
    outcome = done(host, journal, job(("a", 7), ("b", 8), ("c", 9)))
    assert (outcome.state, outcome.reason) == (UNDONE, "b is no longer there")
    assert texts(host) == {"a": "1", "b": "gone", "c": "3"}
    assert done(host, journal, job(("a", 7), ("b", 8), ("c", 9)), RESET).state == DONE
    assert texts(host) == {"a": "7", "b": "gone", "c": "9"}


def test_a_thing_that_goes_meanwhile_needs_no_undo(journal: Journal) -> None:
    host = machine(a=1, b=2)

    def pull_out(subject: str, behind: int, total: int, text: str) -> None:
        if text == "taking back shelf":
            host.put("/shelf/a", "gone")

    outcome = done(host, journal, job(("a", 7), ("b", "full")), tell=pull_out)
    assert outcome.state == UNDONE


def test_a_reset_forgets_what_it_gave_back_and_only_then(journal: Journal) -> None:
    host = machine(a=1)
    done(host, journal, job(("a", 7)))
    assert done(host, journal, job(("a", "full")), RESET).state == UNDONE
    assert [s.was for s in journal.seen()] == [1]
    assert done(host, journal, job(("a", 1)), RESET).state == DONE
    assert journal.seen() == []


def test_a_stopped_job_goes_back(journal: Journal) -> None:
    host, asked = machine(a=1, b=2), iter([False, True])
    outcome = done(host, journal, job(("a", 7), ("b", 8)), stop=lambda: next(asked))
    assert (outcome.state, outcome.reason) == (UNDONE, "interrupted")
    assert texts(host) == {"a": "1", "b": "2"}


def test_progress_counts_steps(journal: Journal) -> None:
    heard: list[tuple[str, int, int, str]] = []
    done(machine(a=1, b=2), journal, job(("a", 7), ("b", 8)), tell=lambda *x: heard.append(x))
    assert heard == [("pf", 0, 2, "shelf 7"), ("pf", 1, 2, "shelf 8")]


# --- going on ---------------------------------------------------------------------------------


def _killed(host: MemoryHost, place: Path, one: Job, at: str) -> Journal:
    def die(point: str) -> None:
        if point == at:
            raise Died

    journal = Journal(str(place / "journal.db"), at_point=die)
    with pytest.raises(Died):
        done(host, journal, one)
    journal.close()
    return Journal(str(place / "journal.db"))


def test_after_a_boot_nothing_is_finished(tmp_path: Path) -> None:
    """A machine that was started anew has none of what was being done."""
    host = machine(a=1, b=2)
    journal = _killed(host, tmp_path, job(("a", 7), ("b", 8)), "before pf step 1")
    host.put("/shelf/a", "1")
    (outcome,) = recover(host, journal, "boot-2")
    assert (outcome.state, outcome.good) == (OVERTAKEN, False)
    assert texts(host) == {"a": "1", "b": "2"}
    assert journal.unfinished() == []
    journal.close()


def test_what_was_done_and_no_longer_holds_is_done_again(tmp_path: Path) -> None:
    """Somebody changed it back, or a full disk kept the journal from hearing of it."""
    host = machine(a=1, b=2)
    journal = _killed(host, tmp_path, job(("a", 7), ("b", 8)), "after pf step 1")
    host.put("/shelf/a", "1")
    (outcome,) = recover(host, journal, BOOT)
    assert (outcome.state, texts(host)) == (DONE, {"a": "7", "b": "8"})
    assert [s.was for s in journal.seen()] == [1, 2]
    journal.close()


def test_going_on_that_fails_takes_back_what_the_dead_one_did(tmp_path: Path) -> None:
    host = machine(a=1, b=2)
    journal = _killed(host, tmp_path, job(("a", 7), ("b", "full")), "before pf step 1")
    (outcome,) = recover(host, journal, BOOT)
    assert (outcome.state, texts(host)) == (UNDONE, {"a": "1", "b": "2"})
    journal.close()


_values = st.one_of(st.integers(0, 3), st.sampled_from(["full", "odd"]))


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    first=st.lists(st.integers(0, 3), min_size=3, max_size=3),
    pairs=st.lists(st.tuples(st.sampled_from("abc"), _values), min_size=1, max_size=6),
    kill=st.integers(0, 30),
)
def test_killed_anywhere_a_job_is_whole_or_not_at_all(
    first: list[int], pairs: list[tuple[str, Value]], kill: int, tmp_path_factory: Any
) -> None:
    place, found = tmp_path_factory.mktemp("j"), dict(zip("abc", map(str, first), strict=True))
    host, left, one = machine(**found), [kill], job(*pairs)

    def tick(point: str) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise Died

    journal = Journal(str(place / "journal.db"), at_point=tick)
    try:
        done(host, journal, one)
    except Died:
        pass
    finally:
        journal.close()
    journal = Journal(str(place / "journal.db"))
    recover(host, journal, BOOT)
    assert journal.unfinished() == []
    latest = journal.latest().get("pf")
    journal.close()
    whole = {**found, **{target: str(to) for target, to in pairs}}
    bad = {"full", "odd"} & {to for _, to in pairs if isinstance(to, str)}
    assert texts(host) == (whole if latest and latest.state == DONE else found)
    assert latest is None or latest.state == (UNDONE if bad else DONE)
    assert latest is None or latest.state != OPEN


# --- words ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["vfs", "mtu"])
def test_every_errno_has_words_and_a_way_out(kind: str) -> None:
    for code in errno.errorcode:
        no = OSError(code, "it said {this}", "/sys/a{b}c")
        reason, fix = explain(Step(kind, "0000:01:00.0", {"count": 4}), no)
        assert reason.strip(" ()")
        assert fix
        assert "{path}" not in reason
