"""`mstconfig` of a twin: query and set of the settings a ConnectX keeps in its flash.

Default, current and next as mstflint's mlxconfig/mlxcfg_ui.cpp prints them; what is set is next,
and current takes it at the next boot. Both ports of a card show the same settings. Of all settings
only SRIOV_EN and NUM_OF_VFS have a consequence here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from podrail.host.seam import Ran
from podrail.host.twin import PciFunction, TwinHost
from podrail.host.twins import drivers, pci, spec
from podrail.host.twins.kept import all_kept, keep, kept
from podrail.host.twins.programs.answer import not_modelled, refused, said

MELLANOX = 0x15B3
_KIND = "firmware"
_TYPES = {0x101B: "ConnectX6", 0x101D: "ConnectX6DX", 0x1021: "ConnectX7"}
_VPI = (0x101B, 0x1021)
"""Cards whose ports may be InfiniBand or Ethernet; the others have no LINK_TYPE."""
_BOOLEAN = ("False", "True")
_NAMES = {
    "SRIOV_EN": _BOOLEAN,
    "UCTX_EN": _BOOLEAN,
    "MEMIC_SIZE_LIMIT": ("DISABLED", "_256KB"),
    "LINK_TYPE_P1": ("", "IB", "ETH"),
    "LINK_TYPE_P2": ("", "IB", "ETH"),
    "INTERNAL_CPU_MODEL": ("SEPARATED_HOST", "EMBEDDED_CPU"),
    "INTERNAL_CPU_OFFLOAD_ENGINE": ("ENABLED", "DISABLED"),
}
_LOCKED = ("[integrity]", "[confidentiality]")

Settings = dict[str, list[int]]
"""Key → default, current, next."""


# --- what a card keeps ------------------------------------------------------------------------


def _card(address: str) -> str:
    return address.rpartition(".")[0]


def _ports(host: TwinHost, card: str) -> list[PciFunction]:
    found = (f for f in host.functions.values() if _card(f.address) == card and not f.physfn)
    return sorted(found, key=lambda f: f.address)


def _as_delivered(ports: Sequence[PciFunction]) -> Settings:
    first = ports[0].spec
    total = first.sriov.total if first.sriov else 0
    found = {
        "MEMIC_BAR_SIZE": [0, 0, 0],
        "MEMIC_SIZE_LIMIT": [1, 1, 1],
        "NUM_OF_VFS": [0, total, total],
        "SRIOV_EN": [0, int(total > 0), int(total > 0)],
        "UCTX_EN": [1, 1, 1],
    }
    for number, function in enumerate(ports, 1):
        if function.spec.device in _VPI and function.spec.port:
            now = 1 if function.spec.port.infiniband else 2
            found[f"LINK_TYPE_P{number}"] = [1, now, now]
    return found


def settings(host: TwinHost, card: str) -> Settings:
    """What the flash of a card says."""
    found: Settings | None = kept(host, _KIND, card)
    return found if found is not None else _as_delivered(_ports(host, card))


def change(host: TwinHost, address: str, key: str, value: int | None) -> None:
    """A card that came otherwise: the setting holds now and next; None for firmware without it."""
    card = _card(address)
    found = settings(host, card)
    found.pop(key, None)
    if value is not None:
        found[key] = [0, value, value]
    keep(host, _KIND, card, found)
    _offer_vfs(host, card, found)


def boot(host: TwinHost) -> None:
    """A boot: what was next is current."""
    for card in all_kept(host, _KIND):
        if not _ports(host, card):
            continue
        found = {key: [was, new, new] for key, (was, _, new) in settings(host, card).items()}
        keep(host, _KIND, card, found)
        _offer_vfs(host, card, found)


# --- SR-IOV -----------------------------------------------------------------------------------


def _offer_vfs(host: TwinHost, card: str, found: Settings) -> None:
    """Without SRIOV_EN the functions have no SR-IOV capability; with it NUM_OF_VFS is TotalVFs."""
    ports = _ports(host, card)
    total = found["NUM_OF_VFS"][1] if found.get("SRIOV_EN", [0, 0, 0])[1] else None
    for number, function in enumerate(ports):
        # the VFs of each port follow all ports and the VFs of the ports before it
        first = len(ports) + number * (total or 0)
        _offer(host, function, total, first - number)


def _offer(host: TwinHost, function: PciFunction, total: int | None, offset: int) -> None:
    if function.vfs:
        drivers.drop_vfs(host, function)
    for name in [n for n in host.names(function.path) if n.startswith("sriov_")]:
        host.remove(f"{function.path}/{name}")
    declared = _declared(host, function.address)
    iov = None
    if total is not None and declared is not None:
        iov = replace(declared, total=total, hardware=None, offset=offset)
        host.put_all(function.path, _attributes(iov))
    function.spec = replace(function.spec, sriov=iov)
    host.put(f"{function.path}/config", pci.config(function.spec))


def _attributes(iov: spec.Sriov) -> dict[str, str]:
    return {
        "sriov_totalvfs": f"{iov.total}\n",
        "sriov_numvfs": "0\n",
        "sriov_drivers_autoprobe": "1\n",
        "sriov_offset": f"{iov.offset}\n",
        "sriov_stride": f"{iov.stride}\n",
        "sriov_vf_device": f"{iov.vf_device:x}\n",
        "sriov_vf_total_msix": "0\n",
    }


def _declared(host: TwinHost, address: str) -> spec.Sriov | None:
    roots = host.machine.roots if host.machine else ()
    found = (f for root in roots for f in _below(root.functions) if f.address == address)
    return next((f.sriov for f in found), None)


def _below(functions: Sequence[spec.Function]) -> Iterator[spec.Function]:
    for function in functions:
        yield function
        yield from _below(function.below)


# --- the program ------------------------------------------------------------------------------


def mstconfig(host: TwinHost, argv: Sequence[str]) -> Ran:
    """`mstconfig -e -d PCI q [KEY…]` and `mstconfig -y -d PCI set KEY=VALUE…`."""
    match list(argv[1:]):
        case ["-e", "-d", device, "q" | "query", *keys]:
            return _opened(host, argv, device, dict.fromkeys(keys, ""), new=False)
        case ["-y", "-d", device, "s" | "set", *pairs] if pairs and all("=" in p for p in pairs):
            wanted = dict(pair.split("=", 1) for pair in pairs)
            return _opened(host, argv, device, wanted, new=True)
    return not_modelled(argv)


def _error(argv: Sequence[str], message: str, stdout: str = "", stderr: str = "") -> Ran:
    """mlxcfg_ui.cpp:printErr writes to stdout."""
    return refused(argv, 1, stderr, f"{stdout}-E- {message}\n")


def _opened(
    host: TwinHost, argv: Sequence[str], device: str, wanted: dict[str, str], *, new: bool
) -> Ran:
    function = host.functions.get(device)
    if function is None:
        return _error(argv, "Failed to open the device")
    if any(word in host.text("/sys/kernel/security/lockdown") for word in _LOCKED):
        # drivers/pci/pci-sysfs.c:pci_write_config asks security_locked_down(LOCKDOWN_PCI_ACCESS)
        told = "write counter to semaphore: Operation not permitted"
        return _error(argv, "Failed to open the device", stderr=told)
    if function.spec.vendor != MELLANOX or function.physfn:
        return _error(argv, "Failed to identify the device")
    return _answer(host, argv, function, wanted, new)


def _answer(
    host: TwinHost, argv: Sequence[str], function: PciFunction, wanted: dict[str, str], new: bool
) -> Ran:
    card = _card(function.address)
    found = settings(host, card)
    head = _head(function)
    for key in wanted:
        if key not in found:
            return _error(argv, f"The Device doesn't support {key} parameter", head)
    if not new:
        return said(argv, head + _table(found if not wanted else {k: found[k] for k in wanted}))
    numbers = {key: _number(key, text) for key, text in wanted.items()}
    for key, number in numbers.items():
        if number is None:
            return _error(argv, f"Failed to parse {key}={wanted[key]}", head)
    before = head + _comparison(found, {k: v for k, v in numbers.items() if v is not None})
    for key, number in numbers.items():
        found[key][2] = number or 0
    keep(host, _KIND, card, found)
    done = "\n Apply new Configuration? (y/n) [n] : y\nApplying... Done!\n"
    return said(argv, f"{before}{done}-I- Please reboot machine to load new configurations.\n")


def _number(key: str, text: str) -> int | None:
    names = _NAMES.get(key, ())
    if text in names:
        return names.index(text)
    return int(text) if text.isdecimal() else None


def _head(function: PciFunction) -> str:
    kind = _TYPES.get(function.spec.device, "BlueField3")
    rows = {"Device type:": kind, "Name:": "N/A", "Description:": "N/A"}
    rows["Device:"] = function.address
    lines = "".join(f"{name:<16}{value:<16}\n" for name, value in rows.items())
    return f"\nDevice #1:\n----------\n\n{lines}\n"


def _shown(key: str, value: int) -> str:
    names: Any = _NAMES.get(key, ())
    return f"{names[value]}({value})" if value < len(names) else str(value)


def _row(key: str, values: Sequence[int], star: bool) -> str:
    columns = "".join(f"{_shown(key, value):<15} " for value in values)
    return f"{'*' if star else ' '}        {key:<36}{columns}\n"


def _table(found: Settings) -> str:
    head = f"{'Configurations:':<16}{'Default':>36}{'Current':>16}{'Next Boot':>18}\n"
    differ = {key: next_ != was or next_ != now for key, (was, now, next_) in found.items()}
    rows = "".join(_row(key, values, differ[key]) for key, values in sorted(found.items()))
    note = "The '*' shows parameters with next value different from default/current value.\n"
    return head + rows + (note if any(differ.values()) else "")


def _comparison(found: Settings, numbers: dict[str, int]) -> str:
    head = f"{'Configurations:':<16}{'Next Boot':>38}       New\n"
    return head + "".join(_row(k, (found[k][2], new), False) for k, new in numbers.items())
