"""How far a GPU is from a NIC, in the words of `nvidia-smi topo -m`.

========  =====================================================================
PIX       at most one bridge on either side below the one they share: one switch
PXB       several bridges, but the path stays below the host bridge
PHB       through one PCIe host bridge
NODE      between host bridges of one NUMA node
SYS       between NUMA nodes
========  =====================================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from podrail.model.inventory import Gpu, Pair, PciDevice, Pf

ORDER = ("PIX", "PXB", "PHB", "NODE", "SYS")


def distance(devices: Mapping[str, PciDevice], one: str, other: str, *, numa_nodes: int = 1) -> str:
    """The distance between two functions of the tree."""
    a, b = _chain(devices, one), _chain(devices, other)
    if a[0] != b[0]:
        return "NODE" if _same_node(devices, one, other, numa_nodes) else "SYS"
    shared = 0
    while shared < min(len(a), len(b)) and a[shared] == b[shared]:
        shared += 1
    if shared == 1:
        return "PHB"
    return "PIX" if max(len(a), len(b)) - shared <= 1 else "PXB"


def _chain(devices: Mapping[str, PciDevice], address: str) -> tuple[str, ...]:
    """The bridges above a function from the root down, led by the root bus it hangs on."""
    chain: list[str] = []
    top, device = address, devices.get(address)
    while device is not None and device.parent and device.parent not in chain:
        top = device.parent
        chain.append(top)
        device = devices.get(top)
    return (top.rpartition(":")[0], *reversed(chain))


def _same_node(devices: Mapping[str, PciDevice], one: str, other: str, numa_nodes: int) -> bool:
    nodes = [devices[address].numa for address in (one, other) if address in devices]
    known = None not in nodes and len(nodes) == 2
    return nodes[0] == nodes[1] if known else numa_nodes <= 1


def pair(
    devices: Iterable[PciDevice], gpus: Sequence[Gpu], pfs: Iterable[Pf], numa_nodes: int
) -> tuple[Pair, ...]:
    """Every GPU with every PF that could be its rail; `nearest` marks the one it is given."""
    tree = {device.address: device for device in devices}
    rails = rails_of(pfs)
    far = {
        (gpu.pci, pf.pci): distance(tree, gpu.pci, pf.pci, numa_nodes=numa_nodes)
        for gpu in gpus
        for pf in rails
    }
    given = _spread(gpus, rails, far)
    return tuple(Pair(gpu, pf, how, nearest=given.get(gpu) == pf) for (gpu, pf), how in far.items())


def rails_of(pfs: Iterable[Pf]) -> list[Pf]:
    """A rail needs RDMA; where no PF has it, those that could carry VFs stand in."""
    able = [pf for pf in pfs if pf.totalvfs or pf.rdma]
    return [pf for pf in able if pf.rdma] or able


def _spread(
    gpus: Sequence[Gpu], rails: Sequence[Pf], far: Mapping[tuple[str, str], str]
) -> dict[str, str]:
    """The nearest PF of each GPU; equally near ones share the GPUs."""
    near = {gpu.pci: _nearest(gpu.pci, rails, far) for gpu in gpus}
    load = dict.fromkeys((pf.pci for pf in rails), 0)
    given = {}
    for gpu, choice in sorted(near.items(), key=lambda item: len(item[1])):
        if choice:
            chosen = min(choice, key=lambda pf: load[pf.pci])
            given[gpu] = chosen.pci
            load[chosen.pci] += 1
    return given


def _nearest(gpu: str, rails: Sequence[Pf], far: Mapping[tuple[str, str], str]) -> list[Pf]:
    rank = {pf.pci: ORDER.index(far[gpu, pf.pci]) for pf in rails}
    return [pf for pf in rails if rank[pf.pci] == min(rank.values())]
