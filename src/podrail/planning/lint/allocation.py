"""Address pools against what will draw from them: policies, networks, nodes and other pools."""

from __future__ import annotations

from collections.abc import Iterator

from podrail.model.bundle import Bundle
from podrail.model.finding import Status
from podrail.planning.lint.attachments import plugins
from podrail.planning.lint.memo import once_for
from podrail.planning.lint.ranges import (
    Range,
    Source,
    Taken,
    ipams,
    pool_names,
    pools,
    ranges,
    usable,
)
from podrail.planning.lint.registry import Hit, rule
from podrail.planning.lint.view import (
    NAD,
    least_vfs_per_node,
    pf_identities,
    pins_one_node,
    policies_for,
)


def _vfs(bundle: Bundle, source: Source) -> int | None:
    name = source.attachment and source.attachment.resource_name
    return least_vfs_per_node(bundle, name) if name else None


@rule(
    "ipam.pool-too-small",
    Status.FAIL,
    "a whereabouts range serves the whole cluster, and numVfs counts for each PF: when the "
    "addresses are gone, the next pod stays in ContainerCreating",
    errata=("E47", "E41"),
)
def pool_too_small(bundle: Bundle) -> Iterator[Hit]:
    for source in ipams(bundle):
        vfs, found = _vfs(bundle, source), ranges(source)
        if source.type != "whereabouts" or vfs is None or not found:
            continue
        # dual stack: the smaller family decides
        by_family = {r.net.version: 0 for r in found}
        for range_ in found:
            by_family[range_.net.version] += range_.size
        if min(by_family.values()) < vfs:
            yield found[0].hit(
                f"{min(by_family.values())} addresses for the whole cluster, and one node alone "
                f"makes {vfs} VFs of `{source.attachment and source.attachment.resource_name}`",
                f"at least nodes × {vfs} addresses",
                "widen the range, or use a shorter prefix length",
            )  # fmt: skip


@rule(
    "ipam.shared-subnet",
    Status.WARN,
    "a pod on both rails has two interfaces in one subnet: the kernel sends by one of them only "
    "and answers ARP on both, so a rail stays idle or a connection fails",
)
def shared_subnet(bundle: Bundle) -> Iterator[Hit]:
    found = [r for source in ipams(bundle) for r in ranges(source)]
    taken = Taken(found)
    for b in found:
        a = next((a for a in taken.meeting(b) if _two_rails(bundle, a, b)), None)
        if a is not None:
            yield b.hit(
                f"{b.net} overlaps {a.net} of {a.source.resource.subject}",
                "one subnet for each rail", "give this network a subnet of its own",
            )  # fmt: skip
        taken.add(b, b.source.attachment and b.source.attachment.resource_name)


def _two_rails(bundle: Bundle, a: Range, b: Range) -> bool:
    """One rail offered twice (in two namespaces, or a PF in two parts) shares its range rightly."""
    one, two = a.source.attachment, b.source.attachment
    if one is None or two is None or one.resource.subject == two.resource.subject:
        return False
    if one.resource_name == two.resource_name:
        return False
    return not _pfs(bundle, one.resource_name) & _pfs(bundle, two.resource_name)


@once_for
def _pfs(bundle: Bundle, resource_name: str | None) -> set[str]:
    feeding = policies_for(bundle, resource_name or "")
    return {name for policy in feeding for name in pf_identities(policy)}


@rule(
    "ipam.host-local-many-nodes",
    Status.FAIL,
    "host-local keeps its list on each node and starts from the same address everywhere: pods on "
    "different nodes get the same one",
    errata=("E48",),
)
def host_local_many_nodes(bundle: Bundle) -> Iterator[Hit]:
    for source in ipams(bundle):
        name = source.attachment and source.attachment.resource_name
        several = [p for p in policies_for(bundle, name or "") if not pins_one_node(p)]
        if source.type == "host-local" and several:
            yield source.hit(
                ("type",), f"host-local, while {several[0].resource.subject} can match many nodes",
                "an IPAM that knows the cluster: whereabouts or nv-ipam",
                'write "type": "whereabouts" with "range", or nv-ipam with an IPPool',
            )  # fmt: skip


@rule(
    "ipam.dhcp-on-ib",
    Status.FAIL,
    "the InfiniBand CNI has no DHCP: the daemon builds Ethernet frames",
)
def dhcp_on_ib(bundle: Bundle) -> Iterator[Hit]:
    for source in ipams(bundle):
        resource = source.resource
        ib = resource.kind in ("SriovIBNetwork", "IPoIBNetwork") or (
            resource.kind == NAD and any(p.type in ("ib-sriov", "ipoib") for p in plugins(resource))
        )
        if source.type == "dhcp" and ib:
            yield source.hit(
                ("type",), "dhcp on InfiniBand", "whereabouts, nv-ipam or static",
                'write "type": "whereabouts" with a range',
            )  # fmt: skip


# --- nv-ipam ----------------------------------------------------------------------------------


def _block(pool: Source) -> int | None:
    """Addresses one node gets of a pool."""
    if pool.type == "IPPool":
        size = pool.get("perNodeBlockSize")
        return size if isinstance(size, int) else None
    prefix, found = pool.get("perNodeNetworkPrefix"), ranges(pool)
    if not isinstance(prefix, int) or not found or prefix > found[0].net.max_prefixlen:
        return None
    total: int = 2 ** (found[0].net.max_prefixlen - prefix)
    return total if total <= 2 else total - 2


@rule(
    "ipam.block-too-small",
    Status.FAIL,
    "each node hands out only its own block; a VF beyond it gets no address and its pod stays in "
    "ContainerCreating",
    errata=("E47",),
)
def block_too_small(bundle: Bundle) -> Iterator[Hit]:
    by_name = {pool.resource.name: pool for pool in pools(bundle)}
    for source in (s for s in ipams(bundle) if s.type == "nv-ipam"):
        vfs = _vfs(bundle, source)
        for pool in (by_name[name] for name in pool_names(source) if name in by_name):
            block = _block(pool)
            if vfs is not None and block is not None and block < vfs:
                key = "perNodeBlockSize" if pool.type == "IPPool" else "perNodeNetworkPrefix"
                yield pool.hit(
                    (key,), f"{block} addresses for each node, which makes {vfs} VFs of "
                    f"{source.resource.subject}", f"{vfs} addresses or more",
                    f"set perNodeBlockSize: {vfs + 1} or more" if pool.type == "IPPool"
                    else "choose a shorter perNodeNetworkPrefix",
                )  # fmt: skip


@rule(
    "ipam.pool-block",
    Status.FAIL,
    "a block for one node must fit into the pool; as it is no node gets any address",
)
def pool_block(bundle: Bundle) -> Iterator[Hit]:
    for pool in pools(bundle):
        for found in ranges(pool):
            first, last = usable(found.net)
            if pool.type == "IPPool":
                room, size = int(last) - int(first) + 1, pool.get("perNodeBlockSize")
                bad, key = isinstance(size, int) and size > room, "perNodeBlockSize"
                wanted = f"at most {room}, the addresses of {found.net}"
            else:
                size, key = pool.get("perNodeNetworkPrefix"), "perNodeNetworkPrefix"
                long, short = found.net.max_prefixlen, found.net.prefixlen
                bad = isinstance(size, int) and not short <= size <= long
                wanted = f"from {short} to {long}, a part of {found.net}"
            if bad:
                yield pool.hit((key,), f"{key}: {size}", wanted, f"set {key} {wanted}")


@rule(
    "ipam.pools-overlap",
    Status.FAIL,
    "nv-ipam keeps each pool apart: both hand out the same addresses",
)
def pools_overlap(bundle: Bundle) -> Iterator[Hit]:
    found = [r for pool in pools(bundle) for r in ranges(pool)]
    taken = Taken(found)
    for b in found:
        subject = b.source.resource.subject
        others = (a for a in taken.meeting(b) if a.source.resource.subject != subject)
        if a := next(others, None):
            yield b.hit(
                f"{b.net} overlaps {a.net} of {a.source.resource.subject}",
                "pools that share no address", "give one of the two another subnet",
            )  # fmt: skip
        taken.add(b, subject)
