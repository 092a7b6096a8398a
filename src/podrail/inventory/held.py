"""A last look at one PF before its VFs are touched: who holds which of them now."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from podrail.host.seam import Host
from podrail.inventory.holders import VFIO, Holders, gather
from podrail.inventory.pci import ADDRESS, DEVICES, Tree, group_of
from podrail.inventory.reader import Reader, as_dicts, as_str

_VIRTFN = re.compile(r"virtfn([0-9]{1,5})")


def held(host: Host, pf: str) -> dict[int, str]:
    """VF index → its holder. What cannot be told reads as it does in `discover`."""
    reader = Reader(host)
    vfs = virtual_functions(reader, pf)
    if not vfs:
        return {}
    names = {at: frozenset(reader.names(f"{DEVICES}/{at}")) for at in vfs.values()}
    holders = gather(reader, Tree((), names), _resources(reader))
    software = _software(reader, holders)
    found = {i: _holder(reader, at, names[at], holders, software) for i, at in vfs.items()}
    return {index: who for index, who in found.items() if who}


def virtual_functions(reader: Reader, pf: str) -> dict[int, str]:
    """VF index → PCI address, in order of index."""
    found = {}
    for name in reader.names(f"{DEVICES}/{pf}", quiet=True):
        match = _VIRTFN.fullmatch(name)
        address = reader.link(f"{DEVICES}/{pf}/{name}", quiet=True) if match else None
        if match and address and ADDRESS.fullmatch(address):
            found[int(match[1])] = address
    return dict(sorted(found.items()))


def _resources(reader: Reader) -> dict[str, dict[str, Any]]:
    shown = as_dicts(reader.json(("rdma", "-j", "resource")))
    return {name: one for one in shown if (name := as_str(one.get("ifname")))}


def _holder(
    reader: Reader, address: str, has: frozenset[str], who: Holders, software: Mapping[str, str]
) -> str | None:
    at = f"{DEVICES}/{address}"
    driver = reader.link(f"{at}/driver", quiet=True) if "driver" in has else None
    netdevs = reader.names(f"{at}/net", quiet=True) if "net" in has else []
    rdma = reader.names(f"{at}/infiniband", quiet=True) if "infiniband" in has else []
    moved = ("net" in has and not netdevs) or ("infiniband" in has and not rdma)
    vfio = next(iter(reader.names(f"{at}/vfio-dev")), None) if "vfio-dev" in has else None
    group = group_of(reader, at) if "iommu_group" in has else None
    return (
        who.pod(address)
        or who.namespace(address, driver, moved=moved)
        or (who.userspace(group, vfio) if driver == VFIO else None)
        or next((held for name in rdma if (held := who.verbs(name))), None)
        or next((software[name] for name in netdevs if name in software), None)
    )


def _software(reader: Reader, who: Holders) -> dict[str, str]:
    """Netdev → who uses the Soft-RoCE device on it, which has no place under the PCI function."""
    used = {name: user for name in who.resources if (user := who.verbs(name))}
    stands = {
        name: (reader.text(f"/sys/class/infiniband/{name}/parent", quiet=True) or "").strip()
        for name in used
    }
    return {stands[name]: user for name, user in used.items() if stands[name]}
