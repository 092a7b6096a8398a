"""GPUs, and what lets a NIC reach their memory."""

from __future__ import annotations

import re
from collections.abc import Iterable

from podrail.inventory.pci import DEVICES, Tree, is_gpu
from podrail.inventory.reader import Reader, number
from podrail.model.inventory import Gpu, GpuStack, Module, PciDevice

_NVIDIA = "10de"
_VERSION = "/proc/driver/nvidia/version"
_REGISTERED = "/sys/kernel/mm/memory_peers/nv_mem/version"
_BARS = 6
_DMABUF_SINCE = (5, 12)  # ibv_reg_dmabuf_mr: commit bfe0cc6eb249, Linux 5.12


def read_gpus(reader: Reader, tree: Tree) -> tuple[Gpu, ...]:
    """Every GPU of the PCI tree, with what the driver says of it."""
    return tuple(_gpu(reader, device) for device in tree.devices if is_gpu(device))


def _gpu(reader: Reader, device: PciDevice) -> Gpu:
    about = {}
    if device.vendor == _NVIDIA:
        path = f"/proc/driver/nvidia/gpus/{device.address}/information"
        about = information(reader.text(path, absent="the nvidia module does not drive it") or "")
    return Gpu(
        pci=device.address,
        vendor=device.vendor,
        device=device.device,
        model=about.get("Model"),
        uuid=about.get("GPU UUID"),
        numa=device.numa,
        driver=device.driver,
        link=device.link,
        bar1=largest_bar(reader.text(f"{DEVICES}/{device.address}/resource") or ""),
    )


def information(text: str) -> dict[str, str]:
    """The `key: value` lines of /proc/driver/nvidia/gpus/*/information."""
    pairs = (line.partition(":") for line in text.splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs if value.strip()}


def largest_bar(resource: str) -> int | None:
    """The largest of the six BARs: that is where GPU memory shows, BAR1 on NVIDIA, 0 on AMD."""
    sizes = [_size(line) for line in resource.splitlines()[:_BARS]]
    return max(sizes, default=0) or None


def _size(line: str) -> int:
    bounds = [number(part, 16) for part in line.split()[:2]]
    if len(bounds) < 2 or bounds[0] is None or bounds[1] is None or bounds[1] <= bounds[0]:
        return 0
    return bounds[1] - bounds[0] + 1


def read_stack(
    reader: Reader, gpus: Iterable[Gpu], modules: Iterable[Module] | None, kernel: str | None
) -> GpuStack:
    """Which of the two GPUDirect paths there is; a machine without NVIDIA GPUs has no such fact."""
    if not any(gpu.vendor == _NVIDIA for gpu in gpus):
        return GpuStack()
    text = reader.text(_VERSION, absent="the nvidia module is not loaded")
    is_open = "Open Kernel Module" in text if text else None
    loaded = None if modules is None else {module.name for module in modules}
    return GpuStack(
        driver_version=_version(text or ""),
        open_module=is_open,
        dmabuf=_dmabuf(is_open, kernel),
        peermem=_peermem(reader, loaded),
        gdrcopy=None if loaded is None else "gdrdrv" in loaded,
        nvidia_fs=None if loaded is None else "nvidia_fs" in loaded,
    )


def _version(text: str) -> str | None:
    found = re.search(r"Module\s+(?:for \S+\s+)?(\d+\.\d+(?:\.\d+)?)", text)
    return found[1] if found else None


def _dmabuf(is_open: bool | None, kernel: str | None) -> bool | None:
    release = re.match(r"([0-9]{1,4})\.([0-9]{1,4})", kernel or "")
    if is_open is None or not (release or is_open is False):
        return None
    return bool(is_open and release and (int(release[1]), int(release[2])) >= _DMABUF_SINCE)


def _peermem(reader: Reader, loaded: set[str] | None) -> bool | None:
    """Loaded is not enough: it must have registered with the RDMA core (nv_mem_client_init)."""
    if loaded is None:
        return None
    return "nvidia_peermem" in loaded and reader.text(_REGISTERED) is not None
