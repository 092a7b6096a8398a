"""Settings in the flash of a ConnectX or BlueField, through `mstconfig`.

A card has each setting three times: as delivered, as it runs, and as it will run after the next
boot. What is set is the last, so that is what a step reads and writes; where it differs from what
runs, a reboot (or `mstfwreset -d PCI -y reset`) is due, which is reported and never done.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from podrail.host.seam import Host
from podrail.realise.functions import require
from podrail.realise.kinds.running import last_words, run
from podrail.realise.step import Failed, Gone, Kind, Step, Value, kind

SRIOV_EN, NUM_OF_VFS = "SRIOV_EN", "NUM_OF_VFS"
_MODEL, _ENGINE = "INTERNAL_CPU_MODEL", "INTERNAL_CPU_OFFLOAD_ENGINE"
_PACKAGE = "mstflint"
_SECONDS = 60.0
_LOCKDOWN = "/sys/kernel/security/lockdown"
_COLUMNS = {"Default": "default", "Current": "current", "Next": "next"}
_ROW = re.compile(r"(?:\*\s*|RO\s+)?([A-Za-z]\w*(?:\[[\d.]+\])?)\s+(\S.*)")
_NUMBERED = re.compile(r"\w*\((\d+)\)")
_WORDS = {"false": 0, "true": 1, "ib": 1, "eth": 2}
"""Old releases print a name without its number."""

Plain = int | str


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting; None in a column that this firmware does not tell."""

    default: Plain | None
    current: Plain | None
    next: Plain | None


# --- pure -------------------------------------------------------------------------------------


def plain(value: Value) -> Plain:
    """`True(1)`, `ETH(2)`, `16` and `True` as numbers; what is none stays text."""
    text = str(int(value) if isinstance(value, bool) else value).strip()
    numbered = _NUMBERED.fullmatch(text)
    text = numbered[1] if numbered else text
    return int(text) if text.isdecimal() else _WORDS.get(text.lower(), text)


def parse(text: str) -> dict[str, Setting]:
    """The table of `mstconfig -e q`; its head says which columns there are."""
    columns: list[str] = []
    found = {}
    for line in text.splitlines():
        if line.startswith("Configurations:"):
            columns = [_COLUMNS[w] for w in line.split()[1:] if w in _COLUMNS]
            continue
        row = _ROW.fullmatch(line.strip())
        values = row[2].split() if row else []
        if row and columns and len(values) == len(columns):
            told = {c: plain(v) for c, v in zip(columns, values, strict=True) if v != "N/A"}
            found[row[1]] = Setting(told.get("default"), told.get("current"), told.get("next"))
    return found


def needed(settings: Mapping[str, Setting], wanted: Mapping[str, Value]) -> dict[str, Plain]:
    """Which settings the next boot would not have as wanted."""
    return {
        key: plain(_number(value))
        for key, value in wanted.items()
        if key not in settings or not enough(settings[key].next, value)
    }


def enough(now: Value, to: Value) -> bool:
    """A value, or `{"least": N}`: the ports of a card share NUM_OF_VFS, and more harms nobody."""
    if now is None:
        return False
    have, wanted = plain(now), plain(_number(to))
    if isinstance(to, Mapping) and isinstance(have, int) and isinstance(wanted, int):
        return have >= wanted
    return have == wanted


def _number(value: Value) -> Value:
    return value["least"] if isinstance(value, Mapping) else value


def shared_vfs(wanted: Mapping[str, int]) -> dict[str, int]:
    """PCI address of a PF → its NUM_OF_VFS: the ports of a card share it, so the most of them."""
    most: dict[str, int] = {}
    for pci, count in wanted.items():
        card = pci.rpartition(".")[0]
        most[card] = max(count, most.get(card, 0))
    return {pci: most[pci.rpartition(".")[0]] for pci in wanted}


def vfs_now(settings: Mapping[str, Setting]) -> int:
    """How many VFs the running firmware offers; none while SRIOV_EN is False."""
    enabled, count = settings.get(SRIOV_EN), settings.get(NUM_OF_VFS)
    if enabled is None or count is None or enabled.current == 0:
        return 0
    return count.current if isinstance(count.current, int) else 0


def governed_by_dpu(settings: Mapping[str, Setting]) -> bool:
    """Whether a BlueField runs in DPU mode: its Arm cores are on and own the e-switch.

    NIC mode has the embedded CPU too, with the offload engine DISABLED(1).
    """
    model, engine = settings.get(_MODEL), settings.get(_ENGINE)
    if model is None or model.current != 1:
        return False
    return engine is None or engine.current in (0, "ENABLED")


# --- on a machine -----------------------------------------------------------------------------


def query(host: Host, pci: str) -> dict[str, Setting]:
    """Every setting of a card, by either of its ports."""
    require(host, pci)
    ran = run(host, ("mstconfig", "-e", "-d", pci, "q"), _PACKAGE, _SECONDS)
    # it exits non-zero too where a few of many settings could not be read
    found = parse(ran.stdout)
    if not found:
        raise _refused(host, pci, f"mstconfig cannot read the firmware: {last_words(ran)}")
    return found


def pending(host: Host, pci: str) -> dict[str, tuple[Plain, Plain]]:
    """Setting → what runs and what the next boot brings, where these differ."""
    return {
        key: (s.current, s.next)
        for key, s in query(host, pci).items()
        if s.current is not None and s.next is not None and s.current != s.next
    }


def _refused(host: Host, pci: str, reason: str) -> Failed:
    level = lockdown(host)
    if level is None:
        return Failed(f"{pci}: {reason}", f"try it by hand: mstconfig -e -d {pci} q")
    # kernel_lockdown(7): direct PCI access is restricted. mstconfig gets through where a signed
    # module (mstflint_access) or fwctl helps it, so it is asked first.
    return Failed(
        f"{pci}: {reason}; the kernel is locked down ({level}), which forbids access to the "
        "configuration space of PCI devices",
        "set the firmware before Secure Boot is switched on, or from the BIOS's device settings; "
        "or load the signed module mstflint_access",
    )


def lockdown(host: Host) -> str | None:
    """`integrity` or `confidentiality`; None where the kernel is not locked down."""
    try:
        found = re.search(r"\[(integrity|confidentiality)\]", host.read(_LOCKDOWN))
    except OSError:
        return None
    return found[1] if found else None


@kind
class Firmware(Kind):
    """Setting → its value after the next boot, as numbers where it has one."""

    name = "firmware"
    lasting = True

    def read(self, host: Host, target: str) -> Value:
        return {key: s.next for key, s in query(host, target).items() if s.next is not None}

    def differing(self, now: Mapping[str, Value], to: Mapping[str, Value]) -> list[str]:
        return [key for key, value in to.items() if not enough(now.get(key), value)]

    def write(self, host: Host, target: str, value: Value) -> None:
        settings = query(host, target)
        missing = needed(settings, value)
        if missing:
            self._set(host, target, settings, missing)
        if left := needed(query(host, target), value):
            raise Failed(
                f"{target}: the firmware took {self.says(missing)} and will not boot with "
                f"{', '.join(left)}",
                f"the card may limit it, or a vendor tool may lock it: mstconfig -e -d {target} q",
            )

    def _set(
        self, host: Host, target: str, settings: Mapping[str, Setting], missing: dict[str, Plain]
    ) -> None:
        _may_set(target, settings, missing)
        pairs = [f"{key}={number}" for key, number in missing.items()]
        ran = run(host, ("mstconfig", "-y", "-d", target, "set", *pairs), _PACKAGE, _SECONDS)
        if ran.rc:
            raise _refused(host, target, f"mstconfig set {' '.join(pairs)}: {last_words(ran)}")

    def pending(self, host: Host, step: Step) -> str | None:
        try:
            due = pending(host, step.target)
        except (Failed, Gone):
            return None
        mine = {key: due[key] for key in step.to if key in due}
        if not mine:
            return None
        said = ", ".join(f"{key} runs as {now}, next {then}" for key, (now, then) in mine.items())
        return (
            f"firmware of {step.target}: {said}; reboot, or: mstfwreset -d {step.target} -y reset"
        )

    def says(self, value: Value) -> str:
        return " ".join(f"{key}={_number(number)}" for key, number in value.items())


def _may_set(pci: str, settings: Mapping[str, Setting], missing: Mapping[str, Plain]) -> None:
    unknown = sorted(key for key in missing if key not in settings)
    if unknown:
        raise Failed(
            f"{pci}: its firmware has no {', '.join(unknown)}",
            "a card with one kind of port has no LINK_TYPE; leave out what the card has not",
        )
    if governed_by_dpu(settings):
        raise Failed(
            f"{pci} is a BlueField in DPU mode ({_MODEL}=EMBEDDED_CPU(1)): its Arm side governs "
            "its virtual functions",
            "set them up from the DPU, or put the card into NIC mode: "
            f"mstconfig -d {pci} set {_ENGINE}=1, and power-cycle",
        )
