"""One PF and one wish → what happens to it. The place where podrail refuses."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, replace

from podrail.model.inventory import Inventory, Pf
from podrail.model.pciids import MELLANOX
from podrail.model.plan import Action, Change, Disturbs, PfPlan, VfGroup
from podrail.model.vf import VfTable
from podrail.planning.cost import (
    ADJUST_SECONDS,
    DRAIN_SECONDS,
    REBOOT_SECONDS,
    creation_seconds,
)
from podrail.planning.merge import Wish

USERSPACE_DRIVERS = ("vfio-pci", "uio_pci_generic", "igb_uio")


@dataclass(frozen=True, slots=True)
class Machine:
    """The facts of a node that bear on every PF of it."""

    lockdown: str | None = None
    iommu: bool | None = None
    cmdline_has_iommu: bool = False
    cpu_vendor: str | None = None
    firmware: bool = False
    """Whether the operator lets a card's firmware be changed, which takes a reboot."""

    @classmethod
    def of(cls, inventory: Inventory, *, firmware: bool = False) -> Machine:
        node = inventory.node
        cmdline = node.cmdline or ""
        return cls(
            lockdown=node.lockdown,
            iommu=None if node.iommu is None else node.iommu.groups > 0,
            cmdline_has_iommu="intel_iommu=on" in cmdline or "amd_iommu=on" in cmdline,
            cpu_vendor=node.cpu_vendor,
            firmware=firmware,
        )

    @property
    def iommu_arguments(self) -> str:
        """What vfio needs on the kernel command line; AMD's IOMMU is on unless told otherwise."""
        return "iommu=pt" if self.cpu_vendor == "AuthenticAMD" else "intel_iommu=on iommu=pt"


def decide(pf: Pf, wish: Wish, machine: Machine, *, management_allowed: bool = False) -> PfPlan:
    """What happens to a PF that policies select, whoever holds its VFs."""
    refusal = _impossible(pf, wish, machine)
    if refusal:
        return _refuse(pf, wish, *refusal)
    changes = tuple(_firmware_changes(pf, wish)) or (
        *_pf_changes(pf, wish),
        *_vf_changes(pf, wish),
    )
    if not changes:
        return PfPlan(pf.pci, pf.name, Action.NONE, vf_groups=wish.groups)
    if pf.management and not management_allowed:
        return _refuse(
            pf, wish, f"it carries the machine's management path: {pf.management}",
            f"take it out of the policy, or say --allow-management {pf.name or pf.pci}",
            changes,
        )  # fmt: skip
    action = _action(pf, changes)
    disturbs = _disturbs(pf, wish, action, changes)
    return PfPlan(pf.pci, pf.name, action, changes, wish.groups, disturbs)


def disturbing_holders(pf: Pf, wish: Wish, plan: PfPlan) -> PfPlan:
    """The same plan, with the pods that hold the VFs it touches."""
    if plan.action in (Action.NONE, Action.REFUSE):
        return plan
    pods = _disturbed_holders(pf, wish, plan.action)
    if not pods:
        return plan
    seconds = round(plan.disturbs.seconds + DRAIN_SECONDS, 1)
    return replace(plan, disturbs=replace(plan.disturbs, pods=pods, seconds=seconds))


def give_back(pf: Pf, *, management_allowed: bool = False) -> PfPlan | None:
    """A PF that no policy wants any more: reset if a record says its VFs were made for one."""
    if not pf.recorded or not pf.numvfs:
        return None
    if pf.management and not management_allowed:
        return PfPlan(
            pf.pci, pf.name, Action.REFUSE,
            refused=f"it carries the machine's management path: {pf.management}",
            fix=f"say --allow-management {pf.name or pf.pci}",
        )  # fmt: skip
    holders = _holders(pf.vfs)
    seconds = creation_seconds(pf.numvfs) + (DRAIN_SECONDS if holders else 0)
    return PfPlan(
        pf.pci, pf.name, Action.RESET,
        (Change("numVfs", pf.numvfs, 0, "(no policy)"),),
        disturbs=Disturbs(holders, drain=True, seconds=round(seconds, 1)),
    )  # fmt: skip


def _refuse(pf: Pf, wish: Wish, reason: str, fix: str, changes: tuple[Change, ...] = ()) -> PfPlan:
    return PfPlan(pf.pci, pf.name, Action.REFUSE, changes, wish.groups, refused=reason, fix=fix)


# --- what cannot be ---------------------------------------------------------------------------


def _impossible(pf: Pf, wish: Wish, machine: Machine) -> tuple[str, str] | None:
    """The first reason why this wish cannot come true on this PF, and the way out."""
    checks = (
        _no_external if wish.external else _no_room,
        _range_outside,
        _mtu_too_large,
        _link_fixed,
        _no_iommu,
    )
    return next((no for check in checks if (no := check(pf, wish, machine))), None)


def _no_room(pf: Pf, wish: Wish, machine: Machine) -> tuple[str, str] | None:
    wanted, total = int(wish.num_vfs.value or 0), pf.totalvfs
    if total is None or wanted <= total or (machine.firmware and _settable(pf, machine)):
        return None
    if total == 0:
        return (
            "SR-IOV is off: sriov_totalvfs is 0",
            f"switch SR-IOV on in the BIOS{_firmware(pf, wanted, machine)}",
        )
    return (
        f"numVfs {wanted} of {wish.num_vfs.set_by} is over sriov_totalvfs {total}",
        f"ask for at most {total}{_firmware(pf, wanted, machine)}",
    )


def _firmware(pf: Pf, wanted: int, machine: Machine) -> str:
    if pf.vendor != MELLANOX:
        return ""
    if not _settable(pf, machine):
        return (
            f", or raise NUM_OF_VFS in the card's firmware, which kernel lockdown "
            f"({machine.lockdown}) keeps mstconfig from: set it before Secure Boot is switched on"
        )
    return (
        f", or: mstconfig -d {pf.pci} set SRIOV_EN=1 NUM_OF_VFS={wanted}, then reboot "
        "(--firmware has podrail set it)"
    )


def _settable(pf: Pf, machine: Machine) -> bool:
    return pf.vendor == MELLANOX and machine.lockdown in (None, "none")


def _no_external(pf: Pf, wish: Wish, machine: Machine) -> tuple[str, str] | None:
    wanted, have = int(wish.num_vfs.value or 0), pf.numvfs or 0
    if wanted > have:
        return (
            f"externallyManaged and only {have} of {wanted} VFs exist",
            f"have their owner make {wanted} VFs, or drop externallyManaged",
        )
    if wish.mtu.value is not None and pf.mtu is not None and int(wish.mtu.value) > pf.mtu:
        return (
            f"externallyManaged and mtu {wish.mtu.value} is over the PF's {pf.mtu}",
            f"have its owner raise the MTU of {pf.name} to {wish.mtu.value}",
        )
    return None


def _range_outside(pf: Pf, wish: Wish, machine: Machine) -> tuple[str, str] | None:
    count = int(wish.num_vfs.value or 0)
    outside = next((g for g in wish.groups if g.range.last >= count), None)
    if outside is None:
        return None
    return (
        f"range {outside.range} of {outside.policy} reaches beyond numVfs {count}",
        f"end the range at {count - 1}, or set numVfs to {outside.range.last + 1}",
    )


def _mtu_too_large(pf: Pf, wish: Wish, machine: Machine) -> tuple[str, str] | None:
    if wish.mtu.value is None or not pf.max_mtu or int(wish.mtu.value) <= pf.max_mtu:
        return None
    return (
        f"mtu {wish.mtu.value} of {wish.mtu.set_by} is over the {pf.max_mtu} this port can do",
        f"set mtu to at most {pf.max_mtu}",
    )


def _link_fixed(pf: Pf, wish: Wish, machine: Machine) -> tuple[str, str] | None:
    wanted = wish.link_type.value
    if wanted is None or wanted == pf.link_type:
        return None
    says = f"linkType {wanted} of {wish.link_type.set_by}, but the port is {pf.link_type}"
    if pf.vendor != MELLANOX or wish.external:
        return says, f"set linkType to {pf.link_type}, or leave it out"
    if machine.lockdown not in (None, "none"):
        return (
            f"{says}, and kernel lockdown ({machine.lockdown}) keeps mstconfig from changing it",
            f"set linkType to {pf.link_type}, or switch Secure Boot off for the change",
        )
    return None


def _no_iommu(pf: Pf, wish: Wish, machine: Machine) -> tuple[str, str] | None:
    if machine.iommu is not False or not machine.cmdline_has_iommu or not wants_vfio(wish):
        return None
    return (
        "vfio-pci needs an IOMMU: the kernel was told to use one and found none",
        "switch VT-d or AMD-Vi on in the BIOS",
    )


def wants_vfio(wish: Wish) -> bool:
    return any(g.device_type == "vfio-pci" for g in wish.groups)


# --- what changes -----------------------------------------------------------------------------


def _firmware_changes(pf: Pf, wish: Wish) -> Iterator[Change]:
    """What the next boot must bring before anything else can be done on this PF."""
    for key, (old, new, by) in firmware_needs(pf, wish).items():
        yield Change(f"firmware {key}", old, new, by)


def firmware_needs(pf: Pf, wish: Wish) -> dict[str, tuple[str | int | None, str | int, str]]:
    """`mstconfig` setting → what stands for it now, what it must be, and who wants it."""
    count, total = wish.num_vfs, pf.totalvfs
    if wish.external or pf.vendor != MELLANOX or total is None or int(count.value or 0) <= total:
        return {}
    needs: dict[str, tuple[str | int | None, str | int, str]] = {}
    if total == 0:
        needs["SRIOV_EN"] = (None, 1, count.set_by)
    needs["NUM_OF_VFS"] = (total, int(count.value or 0), count.set_by)
    return needs


def _pf_changes(pf: Pf, wish: Wish) -> Iterator[Change]:
    count, mtu = wish.num_vfs, wish.mtu
    if not wish.external and count.value != pf.numvfs:
        yield Change("numVfs", pf.numvfs, count.value, count.set_by, count.overrode)
    if mtu.value is not None and pf.mtu is not None and pf.mtu < int(mtu.value):
        yield Change("mtu", pf.mtu, mtu.value, mtu.set_by, mtu.overrode)
    link = wish.link_type
    if link.value is not None and link.value != pf.link_type:
        yield Change("linkType", pf.link_type, link.value, link.set_by, link.overrode)
    mode = wish.eswitch
    if (mode.value or "legacy") != (pf.eswitch or "legacy"):
        yield Change("eSwitchMode", pf.eswitch, mode.value or "legacy", mode.set_by, mode.overrode)
    if pf.admin_up is False and not wish.external:
        yield Change("link", "down", "up", count.set_by)


def _vf_changes(pf: Pf, wish: Wish) -> Iterator[Change]:
    for group in sorted(wish.groups, key=lambda g: g.range):
        if not pf.vfs or pf.numvfs != wish.num_vfs.value:
            yield from _new_vfs(group)
        else:
            yield from _existing_vfs(pf, group)


def _new_vfs(group: VfGroup) -> Iterator[Change]:
    if group.device_type == "vfio-pci":
        yield Change(f"vf {group.range} driver", None, "vfio-pci", group.policy)
    if group.mtu is not None:
        yield Change(f"vf {group.range} mtu", None, group.mtu, group.policy)


def _existing_vfs(pf: Pf, group: VfGroup) -> Iterator[Change]:
    for field, old, new, at in _differences(pf, group):
        yield Change(f"vf {ranges(at)} {field}", old, new, group.policy)


def _differences(
    pf: Pf, group: VfGroup
) -> Iterator[tuple[str, str | int | None, str | int, list[int]]]:
    """Runs of VFs that differ from the wish in the same way."""
    inside = pf.vfs.columns("index", "driver", "mtu", "guid")
    if pf.vfs.uniform("driver") and pf.vfs.uniform("mtu") and pf.link_type != "ib":
        _, driver, mtu, guid = next(inside)
        for field, old, new in _difference(pf, group, driver, mtu, guid):
            yield field, old, new, [i for i in group.range if i < len(pf.vfs)]
        return
    runs: dict[tuple[str, str | int | None, str | int], list[int]] = {}
    for index, driver, mtu, guid in inside:
        if group.range.first <= index <= group.range.last:
            for difference in _difference(pf, group, driver, mtu, guid):
                runs.setdefault(difference, []).append(index)
    for (field, old, new), at in runs.items():
        yield field, old, new, at


def _difference(
    pf: Pf, group: VfGroup, driver: str | None, mtu: int | None, guid: str | None
) -> Iterator[tuple[str, str | int | None, str | int]]:
    if group.device_type == "vfio-pci":
        if driver != "vfio-pci":
            yield "driver", driver, "vfio-pci"
        return
    if driver is None or driver in USERSPACE_DRIVERS:
        yield "driver", driver, "the kernel's own"
    if group.mtu is not None and mtu is not None and mtu != group.mtu:
        yield "mtu", mtu, group.mtu
    if pf.link_type == "ib" and guid is not None and not guid.strip("0:"):
        yield "guid", guid, "a unique one"


def ranges(indexes: Iterable[int]) -> str:
    """`0-3,5` for [0, 1, 2, 3, 5]."""
    runs: list[list[int]] = []
    for index in sorted(indexes):
        if runs and index == runs[-1][1] + 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


# --- what it costs ----------------------------------------------------------------------------

_DESTROYING = (Action.RESIZE, Action.RECREATE)


def _action(pf: Pf, changes: tuple[Change, ...]) -> Action:
    fields = {change.field for change in changes}
    if "numVfs" in fields:
        return Action.RESIZE if pf.numvfs else Action.CREATE
    if fields & {"eSwitchMode", "linkType"} and pf.numvfs:
        return Action.RECREATE
    return Action.ADJUST


def _disturbs(pf: Pf, wish: Wish, action: Action, changes: tuple[Change, ...]) -> Disturbs:
    reboot = any(change.field.startswith(("linkType", "firmware ")) for change in changes)
    seconds = ADJUST_SECONDS
    if action in (Action.CREATE, *_DESTROYING):
        seconds = creation_seconds(int(wish.num_vfs.value or 0))
    seconds += REBOOT_SECONDS if reboot else 0
    return Disturbs(drain=bool(pf.numvfs), reboot=reboot, seconds=round(seconds, 1))


def _disturbed_holders(pf: Pf, wish: Wish, action: Action) -> tuple[str, ...]:
    if action in _DESTROYING:
        return _holders(pf.vfs)
    touched = {i for g in wish.groups for *_, at in _differences(pf, g) for i in at}
    return _holders(pf.vfs, touched)


def _holders(vfs: VfTable, among: Container[int] | None = None) -> tuple[str, ...]:
    return tuple(
        f"vf {index}: {holder}"
        for index, holder in vfs.columns("index", "holder")
        if holder and (among is None or index in among)
    )
