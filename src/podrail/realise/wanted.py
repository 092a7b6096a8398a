"""A wish, spelled out: every step that makes it true, in upstream's order. Pure.

The whole wish is always spelled out; a step that already holds is skipped when it comes to it. So
the same steps make a PF, mend one that drifted, and take one over that somebody else has made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from podrail.model.inventory import Pf
from podrail.model.plan import VfGroup
from podrail.model.vf import pci_address, pci_number
from podrail.planning.decide import firmware_needs
from podrail.planning.merge import Wish
from podrail.realise.functions import USERSPACE
from podrail.realise.guids import Pool, guids_for
from podrail.realise.kinds.driver import NETDEVICE
from podrail.realise.kinds.files import nm_unmanaged_rule, pf_name_rule
from podrail.realise.kinds.firmware import NUM_OF_VFS
from podrail.realise.kinds.vf_settings import EFFECTIVE
from podrail.realise.step import Step

MANY = 16
"""From so many VFs on they are made without drivers and then bound: the write that makes them
holds the PF's lock, and a probe of each VF inside it takes a minute for 125."""

_LINK_TYPES = {"ib": 1, "eth": 2}
"""What `mstconfig` calls IB(1) and ETH(2)."""
_RULES = "/etc/udev/rules.d"


def steps(
    pf: Pf, wish: Wish, pools: Sequence[Pool] = (), *, unmanage: bool = False,
    card_vfs: int | None = None,
) -> tuple[Step, ...]:  # fmt: skip
    """Everything a PF needs; `unmanage` where NetworkManager would grab the VFs, `card_vfs` what
    the ports of its card want at most."""
    firmware = tuple(_firmware(pf, wish, card_vfs))
    if firmware:
        return firmware  # nothing else can be done before the reboot
    spelled = _Spelling(pf, wish, pools, unmanage)
    return tuple(spelled.pf_steps() if not wish.external else spelled.vf_steps())


def _firmware(pf: Pf, wish: Wish, card_vfs: int | None) -> Iterator[Step]:
    needs: dict[str, object] = {k: new for k, (_, new, _) in firmware_needs(pf, wish).items()}
    if NUM_OF_VFS in needs:
        needs[NUM_OF_VFS] = {"least": card_vfs or needs[NUM_OF_VFS]}
    link = wish.link_type
    if link.value is not None and link.value != pf.link_type and not wish.external:
        needs[f"LINK_TYPE_P{int(pf.pci[-1]) + 1}"] = _LINK_TYPES[str(link.value)]
    if needs:
        yield Step("firmware", pf.pci, needs, wish.num_vfs.set_by)


class _Spelling:
    def __init__(self, pf: Pf, wish: Wish, pools: Sequence[Pool], unmanage: bool) -> None:
        self.pf, self.wish, self.unmanage = pf, wish, unmanage
        self.count = int(wish.num_vfs.value or 0)
        self.guids = guids_for(pf, self.count, pools) if pf.link_type == "ib" else {}
        self.creating = pf.numvfs != self.count

    def pf_steps(self) -> Iterator[Step]:
        if self.unmanage:
            yield from self._unmanaged()
        yield from self._eswitch()
        by = self.wish.num_vfs.set_by
        if self._set_up_before_probe():
            yield self._step("autoprobe", False, by)
        yield self._step("vfs", self.count, by)
        yield from self._before_probe()
        if self.creating or self._lacks_probe():
            yield self._step("autoprobe", self._probed(), by)
        if self.wish.mtu.value is not None:
            yield self._step("mtu", {"least": int(self.wish.mtu.value)}, self.wish.mtu.set_by)
        yield from self._after_probe()
        yield self._step("link", "up", by)

    def vf_steps(self) -> Iterator[Step]:
        """`externallyManaged`: somebody else made the VFs and has the PF."""
        yield from self._before_probe()
        yield from self._after_probe()

    def _step(self, kind: str, to: object, by: str) -> Step:
        return Step(kind, self.pf.pci, to, by)

    def _set_up_before_probe(self) -> bool:
        if not self.creating or self.pf.autoprobe is None:
            return False
        vfio = any(g.device_type == "vfio-pci" for g in self.wish.groups)
        return vfio or self.pf.link_type == "ib" or self.count >= MANY

    def _probed(self) -> bool:
        """The kernel must probe what is to be a netdev; else autoprobe goes back to what it was."""
        wanted = any(g.device_type != "vfio-pci" for g in self.wish.groups)
        return wanted or self.pf.autoprobe is not False

    def _eswitch(self) -> Iterator[Step]:
        mode, now = self.wish.eswitch, self.pf.eswitch
        wanted = str(mode.value or "legacy")
        if now is None and wanted == "legacy":
            return
        if wanted == "switchdev":
            path = f"{_RULES}/69-podrail-name-{self.pf.pci}.rules"
            yield Step("file", path, pf_name_rule(self.pf.pci, self.pf.name), mode.set_by)
        yield self._step("eswitch", wanted, mode.set_by)
        if now != wanted and self.pf.name:
            yield self._step("name", self.pf.name, mode.set_by)

    def _unmanaged(self) -> Iterator[Step]:
        addresses = vf_addresses(self.pf, self.count)
        if addresses:
            path = f"{_RULES}/70-podrail-nm-{self.pf.pci}.rules"
            yield Step("file", path, nm_unmanaged_rule(addresses), self.wish.num_vfs.set_by)

    def _before_probe(self) -> Iterator[Step]:
        """What a VF's driver reads when it takes the VF."""
        by = self.wish.num_vfs.set_by
        if self.guids:
            mine = {str(i) for g in self.wish.groups for i in g.range}
            yield self._step("vf-guid", {k: v for k, v in self.guids.items() if k in mine}, by)
            yield self._step("vf-state", {k: "auto" for k in self.guids if k in mine}, by)

    def _lacks_probe(self) -> bool:
        """VFs made while autoprobe was off are offered to no driver (pci_device_can_probe)."""
        netdevs = {i for g in self.wish.groups if g.device_type != "vfio-pci" for i in g.range}
        bound = self.pf.vfs.columns("index", "driver")
        return self.pf.autoprobe is False and any(
            i in netdevs and (driver is None or driver in USERSPACE) for i, driver in bound
        )

    def _after_probe(self) -> Iterator[Step]:
        if self._set_up_before_probe() and self.pf.autoprobe:
            yield from self._of_nobody()
        for group in sorted(self.wish.groups, key=lambda g: g.range):
            yield from self._group(group)

    def _of_nobody(self) -> Iterator[Step]:
        """VFs in no group get the driver they would have had, had autoprobe stayed on."""
        grouped = {i for g in self.wish.groups for i in g.range}
        rest = [str(i) for i in range(self.count) if i not in grouped]
        if rest:
            by = self.wish.num_vfs.set_by
            yield self._step("vf-driver", dict.fromkeys(rest, NETDEVICE), by)

    def _group(self, group: VfGroup) -> Iterator[Step]:
        keys = [str(i) for i in group.range if i < self.count]
        vfio = group.device_type == "vfio-pci"
        yield self._step(
            "vf-driver", dict.fromkeys(keys, "vfio-pci" if vfio else NETDEVICE), group.policy
        )
        if vfio:
            return
        if self.pf.link_type == "eth":
            yield self._step("vf-mac", dict.fromkeys(keys, EFFECTIVE), group.policy)
        if self.pf.link_type == "eth" and group.rdma:
            yield self._step("vf-node-guid", dict.fromkeys(keys, True), group.policy)
        if group.mtu is not None:
            yield self._step("vf-mtu", dict.fromkeys(keys, group.mtu), group.policy)


def vf_addresses(pf: Pf, count: int) -> list[str]:
    """Where the VFs are, or will be: PCIe base specification, First VF Offset and VF Stride."""
    if pf.vf_offset is None or pf.vf_stride is None:
        return [vf.pci for vf in pf.vfs]
    first = pci_number(pf.pci) + pf.vf_offset
    return [pci_address(first + i * pf.vf_stride) for i in range(count)]
