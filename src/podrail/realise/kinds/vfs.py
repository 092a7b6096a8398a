"""How many VFs a PF has. What was found is the whole of them, so that they can be made again."""

from __future__ import annotations

from typing import Any

from podrail.host.seam import Host
from podrail.host.wait import until
from podrail.inventory.links import VfInfo
from podrail.realise.functions import (
    USERSPACE,
    at,
    await_netdev,
    batch,
    driver,
    netdev,
    number,
    require,
    settle,
    virtfns,
)
from podrail.realise.kinds.driver import dress, give, look
from podrail.realise.kinds.vf_settings import told
from podrail.realise.step import Failed, Kind, Step, Value, kind

APPEAR_SECONDS = 120.0
"""Upstream's patience for one write of sriov_numvfs; 125 VFs take a minute."""


@kind
class Vfs(Kind):
    """A count; what was found carries every VF's driver, name, MTU and settings with it."""

    name = "vfs"
    title = "numVfs"
    disturbs_vfs = True

    def read(self, host: Host, target: str) -> Value:
        require(host, target)
        vfs, infos = virtfns(host, target), {}
        if vfs:
            infos = told(host, target)
        return {
            "count": number(host, f"{at(target)}/sriov_numvfs"),
            "vfs": {str(i): _portrait(host, pci, infos.get(i)) for i, pci in vfs.items()},
        }

    def holds(self, host: Host, step: Step) -> bool:
        require(host, step.target)
        if isinstance(step.to, dict):
            return bool(self.read(host, step.target) == step.to)
        return bool(number(host, f"{at(step.target)}/sriov_numvfs") == step.to)

    def write(self, host: Host, target: str, value: Value) -> None:
        require(host, target)
        count = int(value["count"] if isinstance(value, dict) else value)
        make(host, target, count)
        if isinstance(value, dict) and count:
            _repaint(host, target, value["vfs"])

    def found(self, host: Host, step: Step) -> Value:
        return self.read(host, step.target)

    def says(self, value: Value) -> str:
        return str(value["count"] if isinstance(value, dict) else value)


def make(host: Host, pf: str, count: int) -> None:
    """0 first: the kernel never changes a number of VFs, it makes them anew (drivers/pci/iov.c)."""
    path = f"{at(pf)}/sriov_numvfs"
    now = number(host, path)
    if now == count:
        return
    if now:
        host.write(path, "0")
        _appear(host, pf, 0)
    if count:
        host.write(path, str(count))
        _appear(host, pf, count)
        settle(host)


def _appear(host: Host, pf: str, count: int) -> None:
    def there() -> bool:
        return len(virtfns(host, pf)) == count

    # the write returns when they are there: a watch is opened only where a driver does otherwise
    if not there() and not until(host, there, APPEAR_SECONDS):
        raise Failed(
            f"{len(virtfns(host, pf))} VFs after {APPEAR_SECONDS:g} s, wanted {count}",
            "look at `dmesg`: the driver says why",
        )


def _portrait(host: Host, pci: str, info: VfInfo | None) -> dict[str, Any]:
    """All that is lost when a VF goes."""
    override = host.read(f"{at(pci)}/driver_override").strip()
    return {
        **look(host, pci),
        "override": None if override == "(null)" else override,
        "mac": info.mac if info else None,
        "guid": info.guid if info else None,
        "vlan": info.vlan if info else None,
        "qos": info.qos if info else None,
        "proto": info.vlan_proto if info else None,
        "spoofchk": info.spoofchk if info else None,
        "trust": info.trust if info else None,
        "state": info.link_state if info else None,
        "max_tx_rate": info.max_tx_rate if info else None,
        "min_tx_rate": info.min_tx_rate if info else None,
    }


def _repaint(host: Host, pf: str, portraits: dict[str, dict[str, Any]]) -> None:
    """New VFs made to look like those that were lost: settings first, since drivers read them."""
    vfs = virtfns(host, pf)
    infos, name = told(host, pf), netdev(host, pf)
    lines = [
        f"link set dev {name} vf {key} {words}"
        for key, wanted in portraits.items()
        for words in _settings(wanted, infos.get(int(key)))
    ]
    batch(host, lines)
    for key, wanted in portraits.items():
        if int(key) in vfs:
            _rebind(host, vfs[int(key)], wanted, changed=bool(lines))
    looks = {vfs[int(key)]: one for key, one in portraits.items() if int(key) in vfs}
    for pci in (pci for pci, one in looks.items() if one["name"]):
        await_netdev(host, pci)
    dress(host, looks)


def _settings(wanted: dict[str, Any], now: VfInfo | None) -> list[str]:
    """The words that make a VF's settings what they were, only where they differ."""
    if now is None:
        return []
    words = []
    if wanted["mac"] and wanted["mac"].strip("0:") and wanted["mac"] != now.mac:
        words.append(f"mac {wanted['mac']}")
    if wanted["guid"] and wanted["guid"].strip("0:") and wanted["guid"] != now.guid:
        words += [f"node_guid {wanted['guid']}", f"port_guid {wanted['guid']}"]
    if (wanted["vlan"], wanted["qos"]) != (now.vlan, now.qos) and wanted["vlan"] is not None:
        proto = f" proto {wanted['proto']}" if wanted["proto"] not in (None, "802.1Q") else ""
        words.append(f"vlan {wanted['vlan']} qos {wanted['qos'] or 0}{proto}")
    for key, had in (("spoofchk", now.spoofchk), ("trust", now.trust)):
        if wanted[key] is not None and wanted[key] != had:
            words.append(f"{key} {'on' if wanted[key] else 'off'}")
    if wanted["state"] and wanted["state"] != now.link_state:
        words.append(f"state {wanted['state']}")
    for key, rate in (("max_tx_rate", now.max_tx_rate), ("min_tx_rate", now.min_tx_rate)):
        if wanted[key] and wanted[key] != rate:
            words.append(f"{key} {wanted[key]}")
    return words


def _rebind(host: Host, pci: str, wanted: dict[str, Any], *, changed: bool) -> None:
    if driver(host, pci) != wanted["driver"] or (changed and wanted["driver"] not in USERSPACE):
        give(host, pci, wanted["driver"])
    host.write(f"{at(pci)}/driver_override", f"{wanted['override'] or ''}\n")
