"""A process killed at any point of the journal: the next one ends where an undisturbed one does."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from podrail.host.twin import TwinHost
from podrail.host.twins import twin
from tests.realise.support import (
    Bench,
    Died,
    Tree,
    differences,
    pf_of,
    policy,
    run_of,
    same,
    tree,
)

ROCE_MIXED = (
    policy("rail", "ens8f0#0-3", 8, mtu=9000, isRdma=True),
    policy("user", "ens8f0#4-7", 8, deviceType="vfio-pci"),
)
IB = (policy("rail", "ibp60s0", 3, linkType="ib", isRdma=True),)


@dataclass(frozen=True, slots=True)
class Scenario:
    """What is done undisturbed first, and what is then killed."""

    twin: str
    act: Callable[[Bench], object]
    first: Callable[[Bench], object] = lambda _: None
    as_found: bool = False
    """Whether the machine must end as it was before `act`."""


def _apply(*policies: str) -> Callable[[Bench], object]:
    return lambda bench: bench.apply(*policies)


def _made_by_hand(bench: Bench) -> None:
    """Three VFs with settings of their own: what was found is not nothing."""
    pf = pf_of(bench.host, "ens8f0")
    bench.host.write(f"/sys/bus/pci/devices/{pf}/sriov_numvfs", "3")
    run_of(bench.host, "ip", "link", "set", "ens8f0", "vf", "1", "vlan", "100", "qos", "3")
    run_of(bench.host, "ip", "link", "set", "ens8f0", "vf", "2", "mac", "02:00:00:00:00:77")
    run_of(bench.host, "ip", "link", "set", "ens8f0v0", "name", "storage0")
    run_of(bench.host, "ip", "link", "set", "storage0", "mtu", "4000")


def _failing(bench: Bench) -> object:
    _late_refusal(bench.host, "ens8f0v3", 1600)
    return bench.apply(policy("p", "ens8f0", 6, mtu=9000, isRdma=True))


def _late_refusal(host: TwinHost, name: str, most: int) -> None:
    """One VF's driver takes no large MTU, which nobody can know before it is there."""
    real = host.netdevs

    class Small(dict):  # type: ignore[type-arg]
        def __setitem__(self, key: str, value: object) -> None:
            if key == name:
                value.max_mtu = most  # type: ignore[attr-defined]
            super().__setitem__(key, value)

    if not isinstance(real, Small):
        host.netdevs = Small(real)


SCENARIOS = {
    "create": Scenario("igb", _apply(policy("p", "ens2", 4))),
    "resize": Scenario(
        "igb", _apply(policy("p", "ens2", 7)), _apply(policy("p", "ens2", 3, mtu=4000))
    ),
    "vfio": Scenario("igb", _apply(policy("p", "ens2", 3, deviceType="vfio-pci"))),
    "mtu": Scenario(
        "igb", _apply(policy("p", "ens2", 4, mtu=9000)), _apply(policy("p", "ens2", 4))
    ),
    "two-pfs": Scenario("igb", _apply(policy("p", "ens2", 2), policy("q", "enp67s0", 3, mtu=2000))),
    "mixed-groups": Scenario("roce-cx6", _apply(*ROCE_MIXED)),
    "many": Scenario("roce-cx6", _apply(policy("p", "ens8f0", 16, isRdma=True))),
    "infiniband": Scenario("ib-cx7", _apply(*IB)),
    "infiniband-resize": Scenario("ib-cx7", _apply(policy("rail", "ibp60s0", 5)), _apply(*IB)),
    "adopted": Scenario("roce-cx6", _apply(*ROCE_MIXED), _made_by_hand),
    "reset": Scenario("roce-cx6", Bench.reset, _apply(*ROCE_MIXED)),
    "reset-infiniband": Scenario("ib-cx7", Bench.reset, _apply(*IB)),
    "give-back": Scenario(
        "igb",
        _apply(policy("p", "ens2", 2)),
        _apply(policy("p", "ens2", 2), policy("q", "enp67s0", 3, mtu=2000)),
    ),
    "fails": Scenario("roce-cx6", _failing, as_found=True),
    "fails-from-vfs": Scenario(
        "roce-cx6", _failing, _apply(policy("p", "ens8f0", 2, isRdma=True)), as_found=True
    ),
}
CASES = [pytest.param(scenario, id=name) for name, scenario in SCENARIOS.items()]


class Clock:
    """Counts the points of a journal, and ends the process at one of them."""

    def __init__(self, die_at: int | None = None) -> None:
        self.seen: list[str] = []
        self.die_at = die_at

    def __call__(self, point: str) -> None:
        self.seen.append(point)
        if self.die_at is not None and len(self.seen) > self.die_at:
            raise Died(point)


class Hands:
    """Counts what is done to the machine, and ends the process before or after one of them."""

    def __init__(self, host: TwinHost, die_at: int | None = None) -> None:
        self.seen: list[str] = []
        self.die_at = die_at
        for name in ("write", "place", "unlink", "run"):
            setattr(host, name, partial(self._do, getattr(TwinHost, name).__get__(host)))

    def _do(self, real: Callable[..., Any], what: Any, *more: Any, **options: Any) -> Any:
        if isinstance(what, tuple) and what[0] not in ("modprobe",) and "-batch" not in what:
            return real(what, *more, **options)
        self._perhaps_die(f"before {what}")
        answer = real(what, *more, **options)
        self._perhaps_die(f"after {what}")
        return answer

    def _perhaps_die(self, what: str) -> None:
        self.seen.append(what)
        if self.die_at is not None and len(self.seen) > self.die_at:
            raise Died(what)

    @staticmethod
    def off(host: TwinHost) -> None:
        for name in ("write", "place", "unlink", "run"):
            host.__dict__.pop(name, None)


def _start(scenario: Scenario, place: Path) -> Bench:
    bench = Bench(twin(scenario.twin), place)
    scenario.first(bench)
    return bench


def _undisturbed(scenario: Scenario, place: Path) -> tuple[Tree, list[str], list[str]]:
    """The tree at the end, and on the way every point of the journal and act on the machine."""
    bench = _start(scenario, place)
    before, clock, hands = tree(bench.host), Clock(), Hands(bench.host)
    bench.at_point = clock
    scenario.act(bench)
    Hands.off(bench.host)
    after = tree(bench.host)
    if scenario.as_found:
        same(before, after)
    assert clock.seen
    assert hands.seen
    return after, clock.seen, hands.seen


def _settled(scenario: Scenario, bench: Bench) -> Tree:
    """Whoever comes next does it once more."""
    scenario.act(bench)
    with bench.state() as state:
        assert state.journal.unfinished() == []
    return tree(bench.host)


def _at(what: str, number: int, of: int, wanted: Tree, found: Tree) -> None:
    lines = "\n".join(differences(wanted, found))
    assert not lines, f"killed {what} ({number} of {of})\n{lines}"


@pytest.mark.parametrize("scenario", CASES)
def test_killed_at_every_point_of_the_journal(scenario: Scenario, tmp_path: Path) -> None:
    """Going on alone is enough once all jobs are written down; doing it again always is."""
    wanted, points, _ = _undisturbed(scenario, tmp_path / "whole")
    print(f"{len(points)} points: {', '.join(points)}")
    opened = max(i for i, point in enumerate(points) if point.startswith("after open"))
    for number, point in enumerate(points):
        bench = _start(scenario, tmp_path / str(number))
        bench.at_point = Clock(number)
        with pytest.raises(Died):
            scenario.act(bench)
        bench.at_point = None
        bench.resume()
        if number >= opened:
            _at(point, number, len(points), wanted, tree(bench.host))
        _at(point, number, len(points), wanted, _settled(scenario, bench))


@pytest.mark.parametrize("scenario", CASES)
def test_killed_around_every_act_on_the_machine(scenario: Scenario, tmp_path: Path) -> None:
    """Between two points of the journal lies more than one write: sampled where there are many."""
    wanted, _, acts = _undisturbed(scenario, tmp_path / "whole")
    stride = max(1, len(acts) // 6)
    for number in range(0, len(acts), stride):
        bench = _start(scenario, tmp_path / str(number))
        Hands(bench.host, number)
        with pytest.raises(Died):
            scenario.act(bench)
        Hands.off(bench.host)
        _at(acts[number], number, len(acts), wanted, _settled(scenario, bench))


_NUMBER = itertools.count()


@cache
def _whole(name: str) -> tuple[Tree, int]:
    with TemporaryDirectory() as place:
        wanted, points, _ = _undisturbed(SCENARIOS[name], Path(place))
    return wanted, len(points)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(sorted(SCENARIOS)),
    at=st.lists(st.integers(0, 40), min_size=2, max_size=4),
)
def test_killed_again_while_going_on(name: str, at: list[int], tmp_path: Path) -> None:
    scenario, (wanted, points) = SCENARIOS[name], _whole(name)
    bench = _start(scenario, tmp_path / str(next(_NUMBER)))
    for act, point in zip(
        (scenario.act, *[Bench.resume] * 3), (at[0] % points, *at[1:]), strict=False
    ):
        bench.at_point = Clock(point)
        with suppress(Died):
            act(bench)
    bench.at_point = None
    same(wanted, _settled(scenario, bench))
