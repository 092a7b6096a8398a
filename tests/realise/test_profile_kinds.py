"""What holds for every kind a host profile is made of: done, done twice, taken back, refused."""

from __future__ import annotations

import pytest

from podrail.host.seam import Ran
from podrail.host.twin import TwinHost
from podrail.realise.step import Gone, Step, kind_of
from tests.realise.tuned import (
    PF,
    STEPS,
    done,
    refused,
    roce_cx6,
    told,
)


@pytest.fixture
def host() -> TwinHost:
    return roce_cx6()


@pytest.mark.parametrize("step", STEPS, ids=lambda s: s.kind)
def test_done_holds_and_doing_it_again_changes_nothing(host: TwinHost, step: Step) -> None:
    done(host, step)
    assert kind_of(step).holds(host, step)
    before = told(host)
    kind_of(step).do(host, step)
    assert told(host) == before


@pytest.mark.parametrize("step", STEPS, ids=lambda s: s.kind)
def test_undo_leaves_the_machine_as_found(host: TwinHost, step: Step) -> None:
    before = told(host)
    was = done(host, step)
    assert told(host) != before
    kind_of(step).undo(host, step, was)
    assert told(host) == before
    assert not kind_of(step).holds(host, step)


@pytest.mark.parametrize("step", STEPS, ids=lambda s: s.kind)
def test_what_was_found_is_a_step_that_gives_it_back(host: TwinHost, step: Step) -> None:
    """`reset` makes a step of what was seen first."""
    before = told(host)
    back = Step(step.kind, step.target, done(host, step))
    done(host, back)
    assert told(host) == before


@pytest.mark.parametrize("step", STEPS, ids=lambda s: s.kind)
def test_reading_changes_nothing(host: TwinHost, step: Step) -> None:
    before = told(host)
    kind_of(step).read(host, step.target)
    kind_of(step).holds(host, step)
    kind_of(step).found(host, step)
    assert told(host) == before


@pytest.mark.parametrize("step", STEPS, ids=lambda s: s.kind)
def test_values_are_said_in_words(host: TwinHost, step: Step) -> None:
    kind = kind_of(step)
    words = [kind.says(kind.found(host, step)), kind.says(step.to)]
    assert words[0] != words[1]
    assert all(word and "{" not in word and "None" not in word for word in words)


@pytest.mark.parametrize("step", [s for s in STEPS if s.target == PF], ids=lambda s: s.kind)
def test_a_nic_that_went_away_is_gone(host: TwinHost, step: Step) -> None:
    with pytest.raises(Gone):
        kind_of(step).read(host, "0000:9c:00.7")


@pytest.mark.parametrize(
    ("kind", "program", "package"),
    [
        ("pfc", "dcb", "iproute"),
        ("dscp-map", "dcb", "iproute"),
        ("rings", "ethtool", "ethtool"),
        ("coalescing", "ethtool", "ethtool"),
        ("pcie", "setpci", "pciutils"),
        ("memlock", "systemctl", "systemd"),
        ("roce-tos", "mkdir", "coreutils"),
    ],
)
def test_a_missing_program_is_named(host: TwinHost, kind: str, program: str, package: str) -> None:
    host.remove_program([program])
    no = refused(host, next(s for s in STEPS if s.kind == kind))
    assert program in no.reason
    assert "installed" in no.reason
    assert package in no.fix


def test_a_container_finds_a_missing_program_through_chroot(host: TwinHost) -> None:
    argv = ("setpci", "-s", PF, "CAP_EXP+8.w=5000:7010")
    host.put_program(["setpci"], lambda _: Ran(argv, 127, "", "chroot: failed to run command\n"))
    assert "not installed" in refused(host, STEPS[6]).reason
