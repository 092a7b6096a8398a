"""What a machine and manifests have to give: ports for VFs, pools of addresses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from podrail.model.bundle import Bundle
from podrail.model.inventory import Inventory
from podrail.planning.lint.ranges import Range, Source, network, ranges, sources
from podrail.planning.planner import Planner
from podrail.planning.size import Pool, Port


def ports(inventory: Inventory, bundle: Bundle) -> list[Port]:
    """The PFs that policies select, with the VFs these make; without policies, every rail."""
    chosen = [
        Port(pf.name or pf.pci, pf.totalvfs or 0, int(wish.num_vfs.value or 0))
        for pf, wish in Planner.of(bundle).wishes(inventory)
    ]
    if chosen:
        return chosen
    able = [pf for pf in inventory.pfs if pf.totalvfs and not pf.management]
    rails = [pf for pf in able if pf.rdma] or able
    return [Port(pf.name or pf.pci, pf.totalvfs or 0) for pf in rails]


def pools(bundle: Bundle) -> Iterator[Pool]:
    """The address pools of the networks in a bundle."""
    for source in sources(bundle):
        found = ranges(source)
        block = _per_node(source)
        if block is not None:
            yield Pool(str(source.resource.subject), block, per_node=True)
        elif found:
            per_node = source.type == "host-local"
            yield Pool(str(source.resource.subject), _addresses(found), per_node)


def _per_node(source: Source) -> int | None:
    """What nv-ipam gives each node: a block of an IPPool, or a network of a CIDRPool."""
    if source.type == "IPPool":
        block = source.get("perNodeBlockSize")
        return block if isinstance(block, int) else None
    if source.type == "CIDRPool":
        prefix, net = source.get("perNodeNetworkPrefix"), network(str(source.get("cidr")))
        if isinstance(prefix, int) and net and net.prefixlen <= prefix <= net.max_prefixlen:
            size: int = 2 ** (net.max_prefixlen - prefix)
            return size if size <= 2 else size - 2
    return None


def _addresses(found: Sequence[Range]) -> int:
    """A dual-stack pool lasts as long as its smaller family."""
    families = {r.net.version for r in found}
    return min(sum(r.size for r in found if r.net.version == family) for family in families)
