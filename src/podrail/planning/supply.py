"""What a machine and manifests have to give: ports for VFs, pools of addresses."""

from __future__ import annotations

from collections.abc import Iterator

from podrail.model.bundle import Bundle
from podrail.model.inventory import Inventory
from podrail.planning.lint.ranges import Range, Source, ranges, sources
from podrail.planning.planner import Planner
from podrail.planning.size import Pool, Port


def ports(inventory: Inventory, bundle: Bundle) -> list[Port]:
    """The PFs that policies select, with the VFs these make; without policies, all that could."""
    chosen = [
        Port(pf.name or pf.pci, pf.totalvfs or 0, int(wish.num_vfs.value or 0))
        for pf, wish in Planner.of(bundle).wishes(inventory)
    ]
    if chosen:
        return chosen
    return [
        Port(pf.name or pf.pci, pf.totalvfs)
        for pf in inventory.pfs
        if pf.totalvfs and not pf.management
    ]


def pools(bundle: Bundle) -> Iterator[Pool]:
    """The address pools of the networks in a bundle."""
    for source in sources(bundle):
        found = ranges(source)
        if found:
            block = source.get("perNodeBlockSize") if source.type == "IPPool" else None
            per_node = source.type == "host-local" or isinstance(block, int)
            yield Pool(str(source.resource.subject), _addresses(source, found, block), per_node)


def _addresses(source: Source, found: list[Range], block: object) -> int:
    """A dual-stack pool lasts as long as its smaller family."""
    if isinstance(block, int):
        return block
    families = {r.net.version for r in found}
    return min(sum(r.size for r in found if r.net.version == family) for family in families)
