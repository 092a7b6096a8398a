"""The e-switch of a PF: `legacy`, or `switchdev` with its representors.

A NIC going to switchdev is prepared as upstream prepares it: hw-tc-offload on, and rules inserted
by the driver (smfs) where it has that parameter, which it takes in legacy mode only. What was found
has these too, so that going back gives them back.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from podrail.host.seam import Host
from podrail.inventory.reader import as_dict, as_dicts, as_str
from podrail.realise.functions import driver, netdev, require
from podrail.realise.kinds.running import last_words, run
from podrail.realise.step import Failed, Kind, Step, Value, kind

LEGACY, SWITCHDEV = "legacy", "switchdev"
STEERING, OFFLOAD = "flow_steering_mode", "hw-tc-offload"
_IPROUTE, _ETHTOOL = "iproute2 (RHEL: iproute)", "ethtool"
# include/uapi/asm-generic/errno.h as devlink prints it: no handle, no e-switch, no such parameter
_NONE = ("No such device", "Operation not supported", "Invalid argument", "No such file")
_MODE_SECONDS = 120.0


@kind
class Eswitch(Kind):
    """A mode, or what `found` gave; a driver without an e-switch reads as None, and is legacy."""

    name = "eswitch"
    disturbs_vfs = True

    def read(self, host: Host, target: str) -> Value:
        require(host, target)
        shown = _devlink(host, ("dev", "eswitch", "show", f"pci/{target}"))
        return as_str(as_dict(as_dict(shown.get("dev")).get(f"pci/{target}")).get("mode"))

    def same(self, now: Value, to: Value) -> bool:
        return (now or LEGACY) == (to or LEGACY)

    def holds(self, host: Host, step: Step) -> bool:
        if isinstance(step.to, Mapping):
            return bool(self.found(host, step) == step.to)
        return super().holds(host, step)

    def found(self, host: Host, step: Step) -> Value:
        mode = self.read(host, step.target)
        if mode is None:
            return None
        found = {"mode": mode, STEERING: steering(host, step.target)}
        found[OFFLOAD] = offload(host, step.target)
        return {key: value for key, value in found.items() if value is not None}

    def write(self, host: Host, target: str, value: Value) -> None:
        wanted = dict(value) if isinstance(value, Mapping) else {"mode": value or LEGACY}
        now = self.read(host, target)
        if now is None and wanted["mode"] == SWITCHDEV:
            raise _without(host, target)
        if now is not None and wanted["mode"] == SWITCHDEV:
            _to_switchdev(host, target, now)
        elif now is not None:
            _to_legacy(host, target, now, wanted)

    def says(self, value: Value) -> str:
        mode = value.get("mode") if isinstance(value, Mapping) else value
        return str(mode or LEGACY)


def _without(host: Host, pci: str) -> Failed:
    name = driver(host, pci)
    return Failed(
        f"{pci} has no e-switch to put into switchdev: its driver is {name or 'not bound'}"
        + (", which offers none for this port" if name else ""),
        "ask for legacy, or use an Ethernet port of a NIC with an e-switch (mlx5_core, ice)",
    )


def _to_switchdev(host: Host, pci: str, now: str) -> None:
    _set_offload(host, pci, "on")
    if now == LEGACY and steering(host, pci) not in (None, "smfs"):
        _set_steering(host, pci, "smfs")
    _set_mode(host, pci, now, SWITCHDEV)


def _to_legacy(host: Host, pci: str, now: str, wanted: Mapping[str, Value]) -> None:
    _set_mode(host, pci, now, LEGACY)
    if STEERING in wanted and steering(host, pci) not in (None, wanted[STEERING]):
        _set_steering(host, pci, str(wanted[STEERING]))
    if OFFLOAD in wanted:
        _set_offload(host, pci, str(wanted[OFFLOAD]))


# --- devlink ----------------------------------------------------------------------------------


def _devlink(host: Host, words: tuple[str, ...]) -> Mapping[str, Value]:
    """What devlink shows, empty where the driver has no such thing."""
    ran = run(host, ("devlink", "-j", *words), _IPROUTE)
    if ran.rc and any(text in ran.stderr for text in _NONE):
        return {}
    if ran.rc:
        raise Failed(f"`devlink {' '.join(words)}`: {last_words(ran)}", "look at `dmesg`")
    try:
        return as_dict(json.loads(ran.stdout))
    except ValueError as no:
        raise Failed(
            f"`devlink {' '.join(words)}` answered no JSON: {ran.stdout.strip()[:60]!r}",
            "update iproute2",
        ) from no


def _set(host: Host, words: tuple[str, ...], timeout: float = 10.0) -> None:
    ran = run(host, ("devlink", *words), _IPROUTE, timeout)
    if ran.rc:
        raise Failed(
            f"`devlink {' '.join(words)}`: {last_words(ran)}",
            "look at `dmesg`; a NIC in a bond or with open VFs may refuse",
        )


def _set_mode(host: Host, pci: str, now: str, mode: str) -> None:
    if now == mode:
        return
    _set(host, ("dev", "eswitch", "set", f"pci/{pci}", "mode", mode), _MODE_SECONDS)
    seen = Eswitch().read(host, pci)
    if seen != mode:
        raise Failed(f"{pci} is in {seen} after it was put into {mode}", "look at `dmesg`")


def steering(host: Host, pci: str) -> str | None:
    """Who inserts flow rules, `dmfs` (firmware) or `smfs` (driver); None without the parameter."""
    shown = _devlink(host, ("dev", "param", "show", f"pci/{pci}", "name", STEERING))
    params = as_dicts(as_dict(shown.get("param")).get(f"pci/{pci}"))
    values = [value for param in params for value in as_dicts(param.get("values"))]
    running = (as_str(v.get("value")) for v in values if v.get("cmode") == "runtime")
    return next(running, None)


def _set_steering(host: Host, pci: str, mode: str) -> None:
    words = ("dev", "param", "set", f"pci/{pci}", "name", STEERING, "value", mode)
    _set(host, (*words, "cmode", "runtime"))


# --- ethtool ----------------------------------------------------------------------------------


def offload(host: Host, pci: str) -> str | None:
    """`on` or `off`; None where the PF has no netdev or the driver fixed it."""
    name = netdev(host, pci)
    if name is None:
        return None
    ran = run(host, ("ethtool", "-k", name), _ETHTOOL)
    found = re.search(rf"^{OFFLOAD}: (on|off)$", ran.stdout, re.MULTILINE)
    return found[1] if found else None


def _set_offload(host: Host, pci: str, way: str) -> None:
    name = netdev(host, pci)
    if name is None or offload(host, pci) in (None, way):
        return
    ran = run(host, ("ethtool", "-K", name, OFFLOAD, way), _ETHTOOL)
    if ran.rc:
        raise Failed(f"`ethtool -K {name} {OFFLOAD} {way}`: {last_words(ran)}", "look at `dmesg`")
