"""The 120 mistakes of the published documents: the rule that finds each, or why none can.

A reason begins with where the mistake is met instead: `machine` (only a node or a fabric can tell),
`shell` (a command typed by hand, in no manifest), `prose` (a claim or a comment in a text).
"""

from __future__ import annotations

import pytest

from podrail.planning.lint import rules
from podrail.planning.lint.registry import Rule

READER = {
    "schema.misplaced-key", "schema.missing", "schema.unknown-key", "schema.value",
    "yaml.boolean-trap", "yaml.duplicate-key", "yaml.lost-indentation", "yaml.number-trap",
    "yaml.syntax",
}  # fmt: skip
"""Found while reading, before any rule."""

ERRATA: dict[str, str] = {
    # manifests that are rejected, or accepted and silently wrong
    "E01": "yaml.lost-indentation yaml.syntax yaml.duplicate-key",
    "E02": "yaml.syntax",
    "E03": "schema.misplaced-key",
    "E04": "policy.link-type-missing policy.ib-without-rdma network.ib-kind-on-ethernet",
    "E05": "machine: whether linkType differs from the port is known on the node",
    "E06": "policy.link-type-eth",
    "E07": "plugin.vf-id plugin.pf-id policy.vf-device-id",
    "E08": "policy.vf-device-id policy.unknown-device profile.nic-id",
    "E09": "plugin.shared-vf-id",
    "E10": "plugin.two-plugins",
    "E11": (
        "pod.resource-prefix network.nad-resource-prefix "
        "policy.resource-prefix network.resource-prefix policy.two-operators"
    ),
    "E12": "prose: NicClusterPolicy is said to create VFs",
    "E13": "network.ethernet-kind-on-ib network.ib-kind-on-ethernet network.nad-type",
    "E14": (
        "network.capability network.meta-plugins "
        "network.rdma-chained-shared network.rdma-chained-to-ib"
    ),
    "E15": "schema.misplaced-key",
    "E16": "ofed.env-name",
    "E17": "ofed.ifnames-udev",
    "E18": "ofed.restore-on-termination",
    "E19": "ofed.storage-modules",
    "E20": "machine: whether NVMe modules are loaded is known on the node",
    "E21": "ofed.mixed-release",
    "E22": "ofed.outdated ofed.version-format",
    "E23": "plugin.config plugin.resource-name policy.resource-dash",
    "E24": "gpu.open-modules-field command.dead-selector",
    "E25": "gpu.image-path gpu.image-partial",
    "E26": "prose: an image suffix that does not exist, in a comment",
    "E27": "gpu.driver-branch",
    "E28": "schema.unknown-key",
    "E29": "schema.missing",
    "E30": "gpu.default-runtime",
    "E31": "gpu.configmap-missing",
    "E32": "prose: GDRCopy is called the peer memory module",
    "E33": "prose: nvidia-peermem is called necessary; with DMA-BUF it is a choice",
    "E34": "schema.missing schema.unknown-key",
    "E35": "yaml.syntax pod.placeholder",
    "E36": "pod.missing-vf-resource network.nad-resource pod.too-few-vfs",
    "E37": "pod.scc pod.scc-too-narrow",
    "E38": "pod.ipc-lock pod.shared-memory pod.ipc-lock-non-root",
    "E39": "shell: kubectl exec without the namespace",
    "E40": "pod.unattached-vf pod.unknown-resource pod.missing-vf-resource",
    "E41": "ipam.pool-too-small",
    "E42": (
        "policy.namespace network.namespace-twice network.no-target-namespace policy.two-operators"
    ),
    "E43": "ofed.no-wait",
    "E44": "plugin.no-config nic.policy-name",
    # addresses and routes
    "E45": "ipam.wide-range ipam.cluster-overlap ipam.outside-range ipam.gateway-outside",
    "E46": "ipam.default-route pod.default-route",
    "E47": "ipam.pool-too-small ipam.block-too-small",
    "E48": "ipam.host-local-many-nodes",
    "E49": "ipam.gateway-handed-out",
    "E50": "nic.ipam-not-deployed nic.removed-field",
    "E51": "policy.pooled-rails",
    "E52": "machine: whether a route is missing depends on where the peers are",
    # drivers, kernel and GPUs
    "E53": "command.no-such-module command.lsmod-alias",
    "E54": "command.no-such-module command.lsmod-alias",
    "E55": "command.dmabuf-sysfs",
    "E56": "command.peermem-proof",
    "E57": "command.peermem-proof",
    "E58": "command.peermem-proof",
    "E59": "gpu.gpudirect-impossible",
    "E60": "gpu.gpudirect-impossible",
    "E61": "shell: modinfo on a host whose driver is in a container",
    "E62": "command.dead-selector",
    "E63": "command.dead-selector",
    "E64": "prose: an order of installation that is handy and not required",
    "E65": "prose: KFD named as a consumer",
    "E66": "machine.iommu-not-passthrough",
    "E67": "command.setpci-unmasked",
    "E68": "profile.adaptive profile.ring-size",
    "E69": "command.mlxconfig",
    "E70": "command.mlxconfig",
    "E71": "machine: which way data took is read from the counters of nvidia-fs",
    "E72": "command.staged-read",
    "E73": "command.dd-cached",
    "E74": "gpu.gds-proprietary",
    # NFS over RDMA
    "E75": "machine.mount-unit-name",
    "E76": "machine.mount-through-symlink",
    "E77": "machine.mount-before-driver machine.openibd",
    "E78": "mount.nconnect-rdma",
    "E79": "shell: what nfsstat prints",
    "E80": "prose: a fallback to TCP that does not happen",
    "E81": "command.rdma-client",
    "E82": "network.vlan-storage",
    "E83": "prose: rates above what the link carries",
    "E84": "pod.mount-propagation",
    "E85": "machine.role-without-pool",
    # NCCL, MPI and test tools
    "E86": "pod.nccl-gdr-level",
    "E87": "pod.nccl-noop",
    "E88": "pod.nccl-socket-ifname",
    "E89": "command.mpirun-env",
    "E90": "command.gdr-proof",
    "E91": "command.rping-device",
    "E92": "command.perftest-option",
    "E93": "prose: a host memory test taken for proof of GPU traffic",
    "E94": "prose: printed output that was edited by hand",
    "E95": "machine: which fabric a port is in is known from its subnet manager",
    "E96": "prose: what lshw shows",
    "E97": "shell: `ip a` where `ip link show` is needed",
    "E98": "shell: a filter on the text sriov",
    # claims, concepts and limits
    "E99": "policy.too-many-vfs policy.many-ib-vfs",
    "E100": "prose: who reboots the nodes",
    "E101": "machine: why VFs are missing is read from firmware and the daemon's log",
    "E102": "policy.label-without-prefix",
    "E103": "prose: netdevice VFs called PCI passthrough",
    "E104": "policy.vfio-with-rdma policy.vfio-on-mellanox",
    "E105": "machine: which nodes have a PF of that name and id",
    "E106": "machine: how many pods share a port under load",
    "E107": "prose: a VF said to have bandwidth of its own",
    "E108": "policy.shared-plugin-exclusive-mode",
    "E109": "plugin.shared-overlap",
    "E110": "prose: times and rates without a source",
    "E111": "prose: a gain without a source",
    "E112": "prose: rates without a source",
    "E113": "prose: a latency without a source",
    "E114": "policy.ib-mtu policy.rdma-mtu",
    "E115": "prose: a subnet prefix two bytes short",
    "E116": "prose: the newest speed of InfiniBand",
    "E117": "machine: partitions and GUIDs are set in the fabric",
    "E118": "machine: flow control is set on switch and host",
    "E119": "prose: how GPUs schedule threads",
    "E120": "pod.placeholder",
}

REASONS = ("machine: ", "prose: ", "shell: ")
KNOWN = {rule.id for rule in rules()} | READER


def _is_reason(entry: str) -> bool:
    return entry.startswith(REASONS)


def test_every_mistake_is_in_the_table() -> None:
    assert list(ERRATA) == [f"E{n:02d}" for n in range(1, 121)]


@pytest.mark.parametrize("number", ERRATA)
def test_rules_of_the_table_exist(number: str) -> None:
    named = [] if _is_reason(ERRATA[number]) else ERRATA[number].split()
    assert set(named) - KNOWN == set()


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule.id)
def test_what_a_rule_claims_is_in_the_table(rule: Rule) -> None:
    assert [e for e in rule.errata if rule.id not in ERRATA[e].split()] == []
