"""The labels a node would carry in a cluster, so that nodeSelectors work without one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from podrail.inventory.pci import is_gpu, is_nic
from podrail.model.inventory import Node, PciDevice, Pf

_NFD = "feature.node.kubernetes.io"
_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_ARCHITECTURES = {"GenuineIntel": "amd64", "AuthenticAMD": "amd64", "0x41": "arm64"}
_CPU_VENDORS = {"GenuineIntel": "Intel", "AuthenticAMD": "AMD"}


def labels_of(
    node: Node,
    release: Mapping[str, str],
    devices: Iterable[PciDevice],
    pfs: Sequence[Pf],
    given: Mapping[str, str],
) -> dict[str, str]:
    """The kubelet's and Node Feature Discovery's labels; what the user gives wins."""
    found = {
        **_kubelet(node),
        **_system(node, release),
        **_pci(devices),
        **_sriov(pfs),
    }
    # the API server refuses a value outside this pattern, so NFD leaves such a label out
    valid = {key: value for key, value in found.items() if value and _VALUE.fullmatch(value)}
    return dict(sorted({**valid, **given}.items()))


def _kubelet(node: Node) -> dict[str, str]:
    return {
        "kubernetes.io/os": "linux",
        "kubernetes.io/hostname": node.name.lower(),
        "kubernetes.io/arch": _ARCHITECTURES.get(node.cpu_vendor or "", ""),
    }


def _system(node: Node, release: Mapping[str, str]) -> dict[str, str]:
    version = re.match(r"([0-9]+)\.([0-9]+)", node.kernel or "")
    return {
        f"{_NFD}/kernel-version.full": node.kernel or "",
        f"{_NFD}/kernel-version.major": version[1] if version else "",
        f"{_NFD}/kernel-version.minor": version[2] if version else "",
        f"{_NFD}/system-os_release.ID": release.get("ID", ""),
        f"{_NFD}/system-os_release.VERSION_ID": release.get("VERSION_ID", ""),
        f"{_NFD}/cpu-model.vendor_id": _CPU_VENDORS.get(node.cpu_vendor or "", ""),
        f"{_NFD}/memory-numa": "true" if len(node.numa) > 1 else "",
        f"{_NFD}/iommu-enabled": "true" if node.iommu and node.iommu.units else "",
    }


def _pci(devices: Iterable[PciDevice]) -> dict[str, str]:
    """With deviceLabelFields [vendor], as NVIDIA's operators configure NFD."""
    vendors = {device.vendor for device in devices if is_nic(device) or is_gpu(device)}
    return {f"{_NFD}/pci-{vendor}.present": "true" for vendor in vendors if vendor}


def _sriov(pfs: Sequence[Pf]) -> dict[str, str]:
    capable = [pf for pf in pfs if pf.totalvfs]
    return {
        f"{_NFD}/network-sriov.capable": "true" if capable else "",
        f"{_NFD}/network-sriov.configured": "true" if any(pf.numvfs for pf in capable) else "",
        **{f"{_NFD}/pci-{pf.vendor}.sriov.capable": "true" for pf in capable},
    }
