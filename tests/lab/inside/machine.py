"""The whole of what podrail may change on a node, as plain data."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

PCI = Path("/sys/bus/pci/devices")
PFS = ("0000:43:00.0", "0000:81:00.0")
_WATCHED = ("sriov_numvfs", "sriov_drivers_autoprobe", "driver_override")
_FILES = ("/etc/udev/rules.d", "/etc/modprobe.d", "/etc/sriov-operator/pci", "/etc/NetworkManager")
_VOLATILE = ("ifindex", "qdisc", "promiscuity", "stats64", "operstate")
"""The first `up` of a netdev gives it its default qdisc for good (net/sched/sch_generic.c:
dev_activate); a netdev that was registered anew has a new index."""


def snapshot() -> dict[str, Any]:
    """Everything a test must leave as it found it."""
    return {
        "functions": {f.name: _function(f) for f in sorted(PCI.iterdir())},
        "links": _links(),
        "files": {str(f): f.read_text() for d in _FILES for f in sorted(Path(d).glob("*"))},
        "namespaces": sorted(p.name for p in Path("/run/netns").glob("*")),
        "mounts": sorted({line.split()[1] for line in _lines("/proc/mounts")} - {"/run/netns"}),
        "journal": _journal(),
    }


def _lines(file: str) -> list[str]:
    return Path(file).read_text().splitlines()


def _function(at: Path) -> dict[str, Any]:
    found: dict[str, Any] = {n: _text(at / n) for n in _WATCHED if (at / n).exists()}
    found["driver"] = driver(at.name)
    found["netdevs"] = netdevs(at.name)
    return found


def _text(file: Path) -> str:
    return file.read_text().strip()


def driver(pci: str) -> str | None:
    link = PCI / pci / "driver"
    return link.readlink().name if link.is_symlink() else None


def netdevs(pci: str) -> list[str]:
    place = PCI / pci / "net"
    return sorted(p.name for p in place.iterdir()) if place.is_dir() else []


def run(*argv: str, stdin: str = "") -> str:
    ran = subprocess.run(argv, input=stdin, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise RuntimeError(f"{argv}: {ran.stderr}")
    return ran.stdout


def _links() -> dict[str, Any]:
    shown = json.loads(run("ip", "-d", "-j", "link"))
    return {
        link["ifname"]: {k: _lasting(v) for k, v in link.items() if k not in _VOLATILE}
        for link in shown
        if link["ifname"] != "lo"
    }


def _lasting(value: Any) -> Any:
    """The carrier of an emulated port comes a second after the port."""
    if isinstance(value, list) and "BROADCAST" in value:
        return [flag for flag in value if flag not in ("NO-CARRIER", "LOWER_UP")]
    return value


def _journal() -> dict[str, Any]:
    """What podrail still has to give back; nothing, where it was given back."""
    from podrail.realise.state import DEFAULT, State

    if not (Path(DEFAULT) / "journal.db").exists():
        return {"seen": [], "unfinished": [], "wanted": []}
    with State() as state:
        journal = state.journal
        return {
            "seen": [[s.kind, s.target] for s in journal.seen()],
            "unfinished": [[b.verb, b.subject] for b in journal.unfinished()],
            "wanted": [name for name, _ in journal.wanted()],
        }


# --- VFs, as tests look at them ---------------------------------------------------------------


def vfs(pf: str) -> list[dict[str, Any]]:
    """Each VF: address, driver, netdev, its index, MTU and MAC, and what the PF says of it."""
    listed = _listed(pf)
    return [_vf(virtfn(pf, index), listed.get(index)) for index in _indexes(pf)]


def virtfn(pf: str, index: int) -> str:
    """The address of a VF."""
    return (PCI / pf / f"virtfn{index}").readlink().name


def _indexes(pf: str) -> list[int]:
    return sorted(int(p.name.removeprefix("virtfn")) for p in (PCI / pf).glob("virtfn*"))


def _listed(pf: str) -> dict[int, dict[str, Any]]:
    names = netdevs(pf)
    if not names:
        return {}
    (link,) = json.loads(run("ip", "-d", "-j", "link", "show", "dev", names[0]))
    return {one["vf"]: one for one in link.get("vfinfo_list", [])}


def _vf(pci: str, listed: dict[str, Any] | None) -> dict[str, Any]:
    at = PCI / pci
    names = netdevs(pci)
    net = at / "net" / names[0] if names else None
    return {
        "pci": pci,
        "driver": driver(pci),
        "override": _text(at / "driver_override"),
        "netdev": names[0] if names else None,
        "ifindex": int(_text(net / "ifindex")) if net else None,
        "mtu": int(_text(net / "mtu")) if net else None,
        "mac": _text(net / "address") if net else None,
        "admin_mac": listed["address"] if listed else None,
    }


def pf(pci: str) -> dict[str, Any]:
    """The PF's own side."""
    (name,) = netdevs(pci)
    net = PCI / pci / "net" / name
    return {
        "name": name,
        "numvfs": int(_text(PCI / pci / "sriov_numvfs")),
        "mtu": int(_text(net / "mtu")),
        "up": bool(int(_text(net / "flags"), 16) & 1),
        "autoprobe": _text(PCI / pci / "sriov_drivers_autoprobe"),
    }


def bare() -> None:
    """Both PFs as after a boot: no VFs, down."""
    for pci in PFS:
        for name in netdevs(pci):
            run("ip", "link", "set", name, "down")
        if _text(PCI / pci / "sriov_numvfs") != "0":
            (PCI / pci / "sriov_numvfs").write_text("0")
    run("udevadm", "settle")
