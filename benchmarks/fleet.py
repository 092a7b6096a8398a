"""A fleet to plan: nodes that mostly look alike, as pools do, and some that do not."""

from __future__ import annotations

from dataclasses import replace

from podrail.model.inventory import Inventory, Node, Pf
from podrail.model.policy import PfName, Policy, VfRange
from podrail.model.vf import VfTable, pci_address, pci_number

PFS, VFS, POLICIES = 8, 64, 40
_PRESENT = "feature.node.kubernetes.io/pci-15b3.present"


def policies() -> list[Policy]:
    """Forty policies: five pools × eight rails."""
    return [
        Policy(
            name=f"pool{pool}-rail{rail}",
            resource=f"rail{rail}",
            num_vfs=VFS,
            node_selector=((_PRESENT, "true"), ("pool", f"gpu{pool}")),
            vendor="15b3",
            device="1021",
            pf_names=(PfName(f"ens{rail}np0", VfRange(0, VFS - 1) if pool % 2 else None),),
            priority=10 + pool,
            mtu=9000,
            is_rdma=True,
        )
        for pool in range(POLICIES // PFS)
        for rail in range(PFS)
    ]  # fmt: skip


def _vfs(node: int, rail: int, first: int) -> VfTable:
    mac = (0x02 << 40) | node << 16 | rail << 8
    held = node % 50 == 0
    return VfTable.from_columns(
        VFS,
        pci=[pci_address(first + i) for i in range(VFS)],
        driver="mlx5_core",
        netdev=[f"ens{rail}v{i}" for i in range(VFS)],
        rdma=[f"mlx5_{8 + rail * VFS + i}" for i in range(VFS)],
        mac=[(mac + i).to_bytes(6, "big").hex(":") for i in range(VFS)],
        mtu=9000,
        iommu_group=[100 + rail * VFS + i for i in range(VFS)],
        holder=[f"pod {node}-{i}" if i < 8 else None for i in range(VFS)] if held else None,
    )  # fmt: skip


def _pf(node: int, rail: int) -> Pf:
    pci = f"0000:{0x18 + rail * 0x10:02x}:00.0"
    fresh = node % 7 == 3
    return Pf(
        pci=pci,
        name=f"ens{rail}np0" if node % 11 else f"enp{rail}s0",
        altnames=(f"ens{rail}np0",) if node % 11 == 0 else (),
        vendor="15b3",
        device="1021",
        driver="mlx5_core",
        mac=(node << 8 | rail).to_bytes(6, "big").hex(":"),
        mtu=1500 if fresh else 9000,
        max_mtu=9978,
        totalvfs=128 if node % 13 else 32,
        numvfs=0 if fresh else VFS,
        admin_up=True,
        numa=rail // 4,
        vfs=VfTable() if fresh else _vfs(node, rail, pci_number(pci) + 2),
    )


def node(number: int) -> Inventory:
    """One machine of the fleet."""
    labels = {
        _PRESENT: "true",
        "pool": f"gpu{number % 6}",
        "kubernetes.io/hostname": f"node-{number:05}",
    }
    management = Pf(
        "0000:01:00.0", "eno1", "8086", "15ff", totalvfs=63, numvfs=0,
        management="default route via br-ex",
    )  # fmt: skip
    pfs = tuple(_pf(number, rail) for rail in range(PFS))
    return Inventory(Node(f"node-{number:05}", labels), pfs=(management, *pfs))


def fleet(nodes: int) -> list[Inventory]:
    """All machines."""
    return [node(number) for number in range(nodes)]


def unlike(nodes: int) -> list[Inventory]:
    """The worst fleet: no two nodes alike, and a pod on every VF."""
    return [_alone(node(number), number) for number in range(nodes)]


def _alone(inventory: Inventory, number: int) -> Inventory:
    def held(pf: Pf) -> Pf:
        vfs = VfTable(replace(vf, holder=f"pod {number}-{vf.index}") for vf in pf.vfs)
        return replace(pf, mtu=1000 + number, vfs=vfs)

    return replace(inventory, pfs=tuple(held(pf) for pf in inventory.pfs))


def changed(inventory: Inventory) -> Inventory:
    """The same machine after somebody removed the VFs of one PF."""
    first, second, *rest = inventory.pfs
    return replace(inventory, pfs=(first, replace(second, numvfs=0, vfs=VfTable()), *rest))
