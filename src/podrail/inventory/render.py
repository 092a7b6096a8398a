"""The inventory as a tree of plain lines."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from podrail.model.inventory import Gpu, Inventory, Mount, Node, PcieLink, Pf
from podrail.model.vf import VfTable

_UNKNOWN_SHOWN = 10
_HELD_SHOWN = 3
_POD_UID = re.compile(r"\b(pod [0-9a-f]{4})[0-9a-f-]+")
_MODELS = {
    "15b3:1013": "ConnectX-4",
    "15b3:1015": "ConnectX-4 Lx",
    "15b3:1017": "ConnectX-5",
    "15b3:1019": "ConnectX-5 Ex",
    "15b3:101b": "ConnectX-6",
    "15b3:101d": "ConnectX-6 Dx",
    "15b3:101f": "ConnectX-6 Lx",
    "15b3:1021": "ConnectX-7",
    "15b3:1023": "ConnectX-8",
    "15b3:a2d6": "BlueField-2",
    "15b3:a2dc": "BlueField-3",
    "8086:10c9": "Intel 82576",
    "8086:1572": "Intel X710",
    "8086:158b": "Intel XXV710",
    "8086:1592": "Intel E810-C",
    "8086:1593": "Intel E810-C",
    "8086:159b": "Intel E810-XXV",
    "14e4:1750": "Broadcom BCM57508",
    "14e4:1760": "Broadcom BCM57608",
    "1af4:1000": "virtio",
    "1af4:1041": "virtio",
}


@dataclass(slots=True)
class _Branch:
    text: str
    below: list[_Branch] = field(default_factory=list)


def render(inventory: Inventory) -> list[str]:
    """Plain lines, one fact group each, with box-drawing branches."""
    node = inventory.node
    root = _Branch(
        f"{node.name or 'node without a name'}  {_platform(node)}",
        [
            *(_Branch(text) for text in _kernel(node)),
            *_fabrics(inventory),
            *_gpus(inventory),
            *_mounts(inventory),
            *_unknown(inventory),
        ],
    )
    return [root.text, *_draw(root.below, "")]


def _draw(branches: Sequence[_Branch], lead: str) -> Iterable[str]:
    for branch in branches:
        last = branch is branches[-1]
        yield f"{lead}{'└─' if last else '├─'} {branch.text}"
        yield from _draw(branch.below, lead + ("   " if last else "│  "))


def _joined(*parts: str | None) -> str:
    return " · ".join(part for part in parts if part)


def _yes(value: bool | None) -> str:
    return "unknown" if value is None else "yes" if value else "no"


# --- the node -----------------------------------------------------------------------------------


def _platform(node: Node) -> str:
    kind = {"none": "bare metal", None: ""}.get(node.virtualisation, node.virtualisation or "")
    return _joined(" ".join(filter(None, (node.vendor, node.product))), kind, node.os)


def _kernel(node: Node) -> list[str]:
    return [
        _joined(
            f"kernel {node.kernel or 'unknown'}",
            _iommu(node),
            f"lockdown {node.lockdown or 'unknown'}",
            f"Secure Boot {_yes(node.secure_boot)}",
        ),
        _joined(
            f"NUMA {len(node.numa)} node{'s' * (len(node.numa) != 1)}",
            _hugepages(node),
            f"governor {node.governor}" if node.governor else None,
            f"clock {node.clocksource}" if node.clocksource else None,
            *(f"memlock {who} {limit}" for who, limit in sorted(node.memlock.items())),
        ),
    ]


def _iommu(node: Node) -> str:
    if node.iommu is None or not node.iommu.units:
        return "IOMMU off"
    return f"IOMMU {node.iommu.default or 'on'}, {node.iommu.groups} groups"


def _hugepages(node: Node) -> str | None:
    pages: Counter[str] = Counter()
    for numa in node.numa:
        pages.update(numa.hugepages)
    reserved = [f"{count}×{size}" for size, count in sorted(pages.items()) if count]
    return f"hugepages {', '.join(reserved)}" if reserved else None


# --- network ------------------------------------------------------------------------------------


def _fabrics(inventory: Inventory) -> list[_Branch]:
    groups: dict[str, list[Pf]] = {}
    for pf in inventory.pfs:
        groups.setdefault(pf.fabric or "unknown", []).append(pf)
    netns = f"  (RDMA netns {inventory.rdma_netns})" if inventory.rdma_netns else ""
    return [
        _Branch(f"fabric {fabric}{netns}", [_pf(pf) for pf in pfs])
        for fabric, pfs in sorted(groups.items())
    ]


def _pf(pf: Pf) -> _Branch:
    model = _MODELS.get(f"{pf.vendor}:{pf.device}", f"{pf.vendor}:{pf.device}")
    title = "  ".join(filter(None, (pf.name or "(no netdev)", pf.pci, model, pf.rdma)))
    driver = " ".join(filter(None, (pf.driver or "no driver", pf.firmware)))
    facts = _joined(
        (pf.state or "").lower(),
        _speed(pf.speed),
        f"MTU {pf.mtu}" if pf.mtu else None,
        driver,
        _pcie(pf.link),
        f"NUMA {pf.numa}" if pf.numa is not None else None,
        pf.eswitch,
    )
    lines = [
        facts,
        f"under {', '.join(pf.uplink_of)}" if pf.uplink_of else "",
        f"management: {pf.management}" if pf.management else "",
        _vf_line(pf),
    ]
    return _Branch(title, [_Branch(line) for line in lines if line])


def _speed(megabits: int | None) -> str | None:
    if not megabits:
        return None
    return f"{megabits / 1000:g} Gb/s" if megabits >= 1000 else f"{megabits} Mb/s"


def _pcie(link: PcieLink | None) -> str | None:
    if link is None or not link.speed:
        return None
    now, best = f"{link.speed} x{link.width}", f"{link.max_speed} x{link.max_width}"
    short = now.replace(" PCIe", "")
    return f"PCIe {short}" if now == best else f"PCIe {short} of {best.replace(' PCIe', '')}"


def _vf_line(pf: Pf) -> str:
    if not pf.totalvfs and not pf.vfs:
        return "no SR-IOV" if pf.totalvfs == 0 else ""
    drivers = "; ".join(_drivers(pf.vfs))
    return _joined(f"VFs {pf.numvfs} of {pf.totalvfs}", drivers, _held(pf.vfs))


def _drivers(vfs: VfTable) -> Iterable[str]:
    by_driver: dict[str, list[int]] = {}
    for index, driver in zip(vfs.column("index"), vfs.column("driver"), strict=True):
        by_driver.setdefault(driver or "no driver", []).append(index)
    return (f"vf {ranges(numbers)} {driver}" for driver, numbers in by_driver.items())


def _held(vfs: VfTable) -> str:
    pairs = zip(vfs.column("index"), vfs.column("holder"), strict=True)
    held = [(index, holder) for index, holder in pairs if holder]
    if not held:
        return ""
    shown = [f"vf {i} by {_short(who)}" for i, who in held[:_HELD_SHOWN]]
    more = [f"vf {ranges([i for i, _ in held[_HELD_SHOWN:]])}"] if held[_HELD_SHOWN:] else []
    return f"{len(held)} held: {', '.join([*shown, *more])}"


def _short(holder: str) -> str:
    return _POD_UID.sub(r"\1…", holder)


def ranges(numbers: Iterable[int]) -> str:
    """`0-3,7` for 0, 1, 2, 3 and 7."""
    runs: list[list[int]] = []
    for n in sorted(numbers):
        if runs and n == runs[-1][1] + 1:
            runs[-1][1] = n
        else:
            runs.append([n, n])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


# --- the rest -----------------------------------------------------------------------------------


def _gpus(inventory: Inventory) -> list[_Branch]:
    if not inventory.gpus:
        return []
    stack = inventory.gpu_stack
    module = {True: "open module", False: "proprietary module", None: "module unknown"}
    direct = _joined(
        f"driver {stack.driver_version or 'unknown'}",
        module[stack.open_module],
        f"DMA-BUF {_yes(stack.dmabuf)}",
        f"peermem {_yes(stack.peermem)}",
        f"GDRCopy {_yes(stack.gdrcopy)}",
        f"nvidia-fs {_yes(stack.nvidia_fs)}",
    )
    return [
        _Branch(f"GPUs {len(inventory.gpus)}", [_gpu(gpu, inventory) for gpu in inventory.gpus]),
        _Branch(f"GPUDirect  {direct}"),
    ]


def _gpu(gpu: Gpu, inventory: Inventory) -> _Branch:
    names = {pf.pci: pf.name or pf.pci for pf in inventory.pfs}
    near = [p for p in inventory.pairs if p.gpu == gpu.pci and p.nearest]
    rail = f"→ {names.get(near[0].pf, near[0].pf)} ({near[0].distance})" if near else "→ no rail"
    numa = f"NUMA {gpu.numa}" if gpu.numa is not None else None
    model = gpu.model or f"{gpu.vendor}:{gpu.device}"
    return _Branch(f"{gpu.pci}  {_joined(model, numa, _pcie(gpu.link))}  {rail}")


def _mounts(inventory: Inventory) -> list[_Branch]:
    if not inventory.mounts:
        return []
    below = [_Branch(_mount(mount)) for mount in inventory.mounts]
    return [_Branch(f"network mounts {len(below)}", below)]


def _mount(mount: Mount) -> str:
    over = f"{mount.fstype} over {mount.transport or 'an unknown transport'}"
    many = f" × {mount.connections}" if mount.connections else ""
    return f"{mount.target}  {mount.source}  {over}{many}"


def _unknown(inventory: Inventory) -> list[_Branch]:
    if not inventory.unknown:
        return []
    by_reason: dict[str, list[str]] = {}
    # whether a port is the way to the API server decides what may be changed: that comes first
    for fact in sorted(inventory.unknown, key=lambda fact: not fact.path.endswith("#server")):
        by_reason.setdefault(fact.reason, []).append(fact.path)
    lines = [_because(reason, paths) for reason, paths in by_reason.items()]
    hidden = len(lines) - _UNKNOWN_SHOWN
    more = [f"and {hidden} more reasons: see `-o json`"] if hidden > 0 else []
    below = [_Branch(line) for line in [*lines[:_UNKNOWN_SHOWN], *more]]
    return [_Branch(f"unknown {len(inventory.unknown)}", below)]


def _because(reason: str, paths: Sequence[str]) -> str:
    also = f" and {len(paths) - 1} like it" if len(paths) > 1 else ""
    return f"{paths[0]}{also}: {reason}"
