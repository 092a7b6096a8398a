"""Rings and interrupt coalescing of a PF's netdev. Verbs use neither: both concern the kernel's
own stack, TCP and what stands on it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from podrail.host.seam import Host
from podrail.realise.functions import pf_netdev, require
from podrail.realise.step import Failed, Step, Value, kind, restrict
from podrail.realise.verified import Verified, ask, complaint

_PACKAGE = "ethtool"
_RINGS = {"rx": "RX", "tx": "TX"}
_ADAPTIVE = re.compile(r"^Adaptive RX: (\S+)  TX: (\S+)$", re.MULTILINE)
_WORDS = {
    "adaptiveRx": "adaptive-rx",
    "adaptiveTx": "adaptive-tx",
    "rxUsecs": "rx-usecs",
    "rxFrames": "rx-frames",
    "txUsecs": "tx-usecs",
    "txFrames": "tx-frames",
}
_DRIVEN = {"adaptiveRx": ("rxUsecs", "rxFrames"), "adaptiveTx": ("txUsecs", "txFrames")}
"""What the driver chooses by itself while it adapts."""


def _shown(host: Host, pci: str, option: str, what: str) -> str:
    require(host, pci)
    ran = ask(host, ("ethtool", option, pf_netdev(host, pci)), _PACKAGE)
    if ran.rc:
        raise Failed(f"{what} cannot be read: {complaint(ran)}", f"leave out `{what}` for this NIC")
    return ran.stdout


def _change(host: Host, pci: str, option: str, words: list[str]) -> None:
    ran = ask(host, ("ethtool", option, pf_netdev(host, pci), *words), _PACKAGE)
    if ran.rc:
        raise Failed(complaint(ran), "ask for a value that this driver takes; `dmesg` may say why")


@kind
class Rings(Verified):
    """`rx` and `tx` → descriptors. A size above the driver's maximum is refused, not cut."""

    name = "rings"
    advice = (
        "ask for the size it became: drivers round to what their hardware can (mlx5: up to a power "
        "of two)"
    )

    def read(self, host: Host, target: str) -> Value:
        return self._rows(host, target)[1]

    def _rows(self, host: Host, pci: str) -> tuple[dict[str, int | None], dict[str, int | None]]:
        """The maxima, and what is."""
        text = _shown(host, pci, "-g", self.name)
        most, _, now = text.partition("Current hardware settings:")
        return _sizes(most), _sizes(now)

    def holds(self, host: Host, step: Step) -> bool:
        self._refuse(host, step.target, step.to)
        return super().holds(host, step)

    def set(self, host: Host, target: str, value: Mapping[str, Value]) -> None:
        self._refuse(host, target, value)
        wanted = self.differing(self.read(host, target), value)
        words = [word for key in wanted for word in (key, str(int(value[key])))]
        _change(host, target, "-G", words)

    def _refuse(self, host: Host, pci: str, value: Mapping[str, Value]) -> None:
        most, _ = self._rows(host, pci)
        for key, size in value.items():
            largest = most.get(key)
            if largest is None:
                raise Failed(
                    f"{pf_netdev(host, pci)} has no {key} ring that can be set",
                    f"leave out rings.{key}",
                )
            if int(size) > largest:
                raise Failed(
                    f"rings.{key} is {size}; the most that {pf_netdev(host, pci)} can is {largest}",
                    f"ask for {largest} or less",
                )


def _sizes(text: str) -> dict[str, int | None]:
    """`RX:` and `TX:` of one half of `ethtool -g`; drivers print `n/a` or 0 for what they lack."""
    found: dict[str, int | None] = {}
    for key, word in _RINGS.items():
        row = re.search(rf"^{word}:\s+(\d+)$", text, re.MULTILINE)
        found[key] = int(row[1]) or None if row else None
    return found


@kind
class Coalescing(Verified):
    """How long and for how many packets an interrupt waits, and whether the driver adapts that."""

    name = "coalescing"
    advice = "ask for the value it became, or for none: the driver takes only some"

    def read(self, host: Host, target: str) -> Value:
        text = _shown(host, target, "-c", self.name)
        adaptive = _ADAPTIVE.search(text)
        pair = adaptive.groups() if adaptive else ("n/a", "n/a")
        found: dict[str, Value] = dict(zip(_DRIVEN, map(_on_off, pair), strict=True))
        for key, word in list(_WORDS.items())[2:]:
            row = re.search(rf"^{word}: (\d+)$", text, re.MULTILINE)
            found[key] = int(row[1]) if row else None
        return found

    def holds(self, host: Host, step: Step) -> bool:
        now = self.read(host, step.target)
        self._refuse(host, step.target, now, step.to)
        return not self.differing(now, step.to)

    def differing(self, now: Mapping[str, Value], to: Mapping[str, Value]) -> list[str]:
        """Where the driver is to adapt, its numbers are its own."""
        own = {key for by, keys in _DRIVEN.items() if to.get(by) for key in keys}
        return [key for key in super().differing(now, to) if key not in own]

    def found(self, host: Host, step: Step) -> Value:
        """Numbers together with whether they are the administrator's or the driver's."""
        now = self.read(host, step.target)
        was: dict[str, Value] = restrict(now, step.to)
        for by, keys in _DRIVEN.items():
            touched = [key for key in keys if key in was]
            if touched and now[by] is not None:
                was[by] = now[by]
            if now[by]:
                was = {key: one for key, one in was.items() if key not in touched}
        return was

    def set(self, host: Host, target: str, value: Mapping[str, Value]) -> None:
        """First whether to adapt: mlx5 forgets the numbers when that changes
        (drivers/net/ethernet/mellanox/mlx5/core/en_ethtool.c:mlx5e_ethtool_set_coalesce)."""
        self._refuse(host, target, self.read(host, target), value)
        for adaptive in (True, False):
            off = self.differing(self.read(host, target), value)
            words = [w for k in off if (k in _DRIVEN) is adaptive for w in _pair(k, value[k])]
            if words:
                _change(host, target, "-C", words)

    def _refuse(
        self, host: Host, pci: str, now: Mapping[str, Value], to: Mapping[str, Value]
    ) -> None:
        name = pf_netdev(host, pci)
        lacking = [_WORDS[key] for key in to if now.get(key) is None]
        if lacking:
            raise Failed(
                f"the driver of {name} does not know {', '.join(lacking)}",
                "leave it out of `coalescing`",
            )
        for by, keys in _DRIVEN.items():
            if now[by] and by not in to and any(key in to for key in keys):
                raise Failed(
                    f"{name} adapts its coalescing by itself ({_WORDS[by]} on) and would not keep "
                    + ", ".join(_WORDS[key] for key in keys if key in to),
                    f"also set coalescing.{by}: false",
                )


def _on_off(word: str) -> bool | None:
    return {"on": True, "off": False}.get(word)


def _pair(key: str, value: Value) -> tuple[str, str]:
    return _WORDS[key], ("on" if value else "off") if key in _DRIVEN else str(int(value))
