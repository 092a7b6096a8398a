"""One look at a host: every collector in order, and what none of them could read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from podrail.host.seam import Host
from podrail.inventory import (
    distance,
    functions,
    gpu,
    holders,
    links,
    modules,
    mounts,
    pci,
    rdma,
    stack,
    system,
)
from podrail.inventory.labels import labels_of
from podrail.inventory.reader import Reader
from podrail.model.inventory import Inventory


def discover(host: Host, labels: Mapping[str, str] | None = None) -> Inventory:
    """All facts of a host, read only; `labels` are added to those NFD would set.

    Never raises on an odd machine: what cannot be read is None and stands in `unknown`.
    """
    reader = Reader(host)
    node = system.node_of(reader)
    tree = pci.scan(reader)
    net = links.read_links(reader)
    told = rdma.tell(reader)
    verbs = rdma.read_devices(reader, tree, net, told)
    loaded = modules.read_modules(reader)
    around = functions.Around(
        tree=tree,
        links=net,
        stack=stack.build(reader, net),
        rdma=rdma.by_function(verbs, net, told),
        holders=holders.gather(reader, tree, told.resources),
        recorded=functions.recorded_by_upstream(reader),
    )
    pfs = functions.read_pfs(reader, around)
    gpus = gpu.read_gpus(reader, tree)
    named = labels_of(node, system.os_release(reader), tree.devices, pfs, labels or {})
    return Inventory(
        node=replace(node, labels=named),
        pfs=pfs,
        rdma=verbs,
        rdma_netns=rdma.netns_mode(reader) if verbs else None,
        fabrics=rdma.fabrics_of(verbs, tree),
        gpus=gpus,
        gpu_stack=gpu.read_stack(reader, gpus, loaded, node.kernel),
        pairs=distance.pair(tree.devices, gpus, pfs, len(node.numa)),
        pci=tree.devices,
        modules=loaded or (),
        mounts=mounts.read_mounts(reader),
        unknown=reader.unknown,
    )
