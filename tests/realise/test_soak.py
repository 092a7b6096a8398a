"""Hundreds of applies, resets, crashes and other people's changes; then the machine as found."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from podrail.host.twin import TwinHost
from podrail.host.twins import twin
from podrail.realise.step import KINDS
from tests.realise.support import Bench, Died, numvfs, pf_of, policy, same, tree

OPERATIONS = 200
SEEDS = {"igb": 13, "roce-cx6": 2}

POOLS: dict[str, list[tuple[str, ...]]] = {
    "igb": [
        (),
        (policy("p", "ens2", 4),),
        (policy("p", "ens2", 7, mtu=9000),),
        (policy("p", "ens2", 3, deviceType="vfio-pci"),),
        (policy("p", "ens2", 2, mtu=4000), policy("q", "enp67s0", 5)),
        (policy("q", "enp67s0#2-4", 6, deviceType="vfio-pci"), policy("p", "enp67s0#0-1", 6)),
    ],
    "roce-cx6": [
        (),
        (policy("p", "ens8f0", 8, isRdma=True),),
        (policy("p", "ens8f0", 16, isRdma=True, mtu=9000),),
        (
            policy("p", "ens8f0#0-3", 6, isRdma=True, mtu=4000),
            policy("q", "ens8f0#4-5", 6, deviceType="vfio-pci"),
        ),
        (policy("q", "ens8f0#1-2", 4, deviceType="vfio-pci"),),
    ],
}
PFS = {"igb": ("ens2", "enp67s0"), "roce-cx6": ("ens8f0",)}
_OF_VFS = ("vfs", "vf-driver", "vf-mac", "vf-mtu", "vf-node-guid")
_OWN = ("mtu", "link", "autoprobe")
_PAINTED = ("driver", "override", "name", "mtu", "vlan", "trust", "spoofchk")


@dataclass
class Soak:
    """A machine, what others did to it, and so what `reset` must come back to."""

    bench: Bench
    pool: list[tuple[str, ...]]
    pfs: tuple[str, ...]
    dice: random.Random
    expected: dict[tuple[str, str], Any] = field(default_factory=dict)
    did: Counter[str] = field(default_factory=Counter)

    @property
    def host(self) -> TwinHost:
        return self.bench.host

    def seen(self) -> set[tuple[str, str]]:
        with self.bench.state() as state:
            return {(one.kind, one.target) for one in state.journal.seen()}

    def note(self) -> None:
        """What podrail has not changed is as it stands now: that is what it will find."""
        seen = self.seen()
        for pf in self.pfs:
            for kind in _OWN:
                if (kind, pf) not in seen:
                    self.expected[kind, pf] = KINDS[kind].read(self.host, pf)
            if not any((kind, pf) in seen for kind in _OF_VFS):
                self.expected["vfs", pf] = painted(self.host, pf)

    def step(self) -> None:
        acts: list[Callable[[], None]] = [
            self.apply, self.apply, self.apply, self.reset, self.crash, self.crash,
            self.count, self.unbind, self.mtu, self.down, self.rename,
        ]  # fmt: skip
        act = self.dice.choice(acts)
        act()
        self.did[act.__name__] += 1

    # --- podrail ------------------------------------------------------------------------------

    def apply(self) -> None:
        for outcome in self.bench.apply(*self.dice.choice(self.pool)):
            assert outcome.state == "done", outcome
        assert not self.bench.refused()

    def reset(self) -> None:
        for outcome in self.bench.reset():
            assert outcome.state == "done", outcome
        self.check()

    def crash(self) -> None:
        left = self.dice.randrange(30)

        def tick(point: str) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise Died(point)

        self.bench.at_point = tick
        with suppress(Died):
            self.dice.choice([self.apply, self.apply, self.reset])()
        self.bench.at_point = None

    # --- others -------------------------------------------------------------------------------

    def vfs_may_drift(self, pf: str) -> bool:
        """Where podrail changed VFs it did not make, nobody can say whose a change of them is."""
        seen = self.seen()
        return ("vfs", pf) in seen or not any((kind, pf) in seen for kind in _OF_VFS)

    def count(self) -> None:
        pf = self.dice.choice(self.pfs)
        if self.vfs_may_drift(pf):
            for text in ("0", str(self.dice.randrange(4))):
                self.host.write(f"/sys/bus/pci/devices/{pf}/sriov_numvfs", text)
            self.note()

    def vf(self) -> tuple[str, str | None] | None:
        pf = self.dice.choice(self.pfs)
        vfs = self.host.functions[pf].vfs
        if not vfs or not self.vfs_may_drift(pf):
            return None
        one = self.dice.choice(vfs)
        return one.address, one.netdev

    def unbind(self) -> None:
        if found := self.vf():
            driver = self.host.driver(self.host.functions[found[0]])
            if driver:
                self.host.write(f"/sys/bus/pci/drivers/{driver}/unbind", found[0])
            self.note()

    def rename(self) -> None:
        found = self.vf()
        if found and found[1]:
            name = f"odd{self.dice.randrange(1000)}"
            self.host.run(["ip", "link", "set", found[1], "name", name])
            self.note()

    def link(self, *words: str) -> None:
        name = self.host.entries(f"/sys/bus/pci/devices/{self.dice.choice(self.pfs)}/net")[0]
        assert self.host.run(["ip", "link", "set", name, *words]).rc == 0
        self.note()

    def mtu(self) -> None:
        self.link("mtu", self.dice.choice(["1500", "2000", "9000"]))

    def down(self) -> None:
        self.link(self.dice.choice(["down", "up"]))

    # --- the end ------------------------------------------------------------------------------

    def check(self) -> None:
        """As found, and nothing of ours left behind."""
        for (kind, pf), wanted in self.expected.items():
            found = painted(self.host, pf) if kind == "vfs" else KINDS[kind].read(self.host, pf)
            assert found == wanted, (kind, pf)
        assert not [p for p in self.host._files if "/udev/rules.d/" in p and "podrail" in p]
        with self.bench.state() as state:
            assert state.journal.unfinished() == []
            assert state.journal.seen() == []


def painted(host: TwinHost, pf: str) -> dict[str, Any]:
    """What of the VFs must come back: a MAC that was random need not."""
    found = KINDS["vfs"].read(host, pf)
    vfs = {i: {key: one[key] for key in _PAINTED} for i, one in found["vfs"].items()}
    return {"count": found["count"], "vfs": vfs}


def _clean(host: TwinHost, pfs: tuple[str, ...], before: dict[tuple[str, str], Any]) -> None:
    """The others take their own changes back."""
    for pf in pfs:
        if numvfs(host, pf):
            host.write(f"/sys/bus/pci/devices/{pf}/sriov_numvfs", "0")
        for kind in _OWN:
            KINDS[kind].write(host, pf, before[kind, pf])


@pytest.mark.parametrize(("name", "seed"), SEEDS.items())
def test_a_long_life_ends_as_it_began(name: str, seed: int, tmp_path: Path) -> None:
    host = twin(name)
    pfs = tuple(pf_of(host, pf) for pf in PFS[name])
    soak = Soak(Bench(host, tmp_path), POOLS[name], pfs, random.Random(seed))
    soak.note()
    first, before = tree(host), dict(soak.expected)
    for number in range(OPERATIONS):
        try:
            soak.step()
        except AssertionError as no:
            raise AssertionError(f"operation {number} of seed {seed}: {no}") from no
    soak.reset()
    assert all(count > 5 for count in soak.did.values()), soak.did
    _clean(host, pfs, before)
    same(first, tree(host))
