"""SriovNetworkNodePolicy alone: fields that contradict each other or cannot do what they say."""

from __future__ import annotations

import re
from collections.abc import Iterator

from podrail.model.bundle import Bundle
from podrail.model.finding import Status
from podrail.planning.lint.registry import Hit, rule
from podrail.planning.lint.view import Policy, is_ib, is_mellanox, networks_for, policies

MELLANOX_VFS = 128
"""Above it the upstream webhook refuses a policy, whatever the firmware says."""
IB_VFS = 16
"""NVIDIA's advice for InfiniBand mode (Network Operator 25.1.0 release notes)."""
IPOIB_MTU = 4092
"""Largest MTU of IPoIB in datagram mode: 4096 less the 4-byte encapsulation header."""
ROCE_4096 = 4192
"""Smallest netdev MTU that carries a 4096-byte RoCE payload: 96 bytes go to headers
(iboe_get_mtu in the kernel's ib_addr.h)."""

_NAME = re.compile(r"^[a-zA-Z0-9]([a-zA-Z0-9_-]*[a-zA-Z0-9])?$")


@rule(
    "policy.vfio-with-rdma",
    Status.FAIL,
    "a VF bound to vfio-pci has no kernel driver and so no RDMA device; the webhook refuses both",
    errata=("E104",),
)
def vfio_with_rdma(bundle: Bundle) -> Iterator[Hit]:
    for policy in policies(bundle):
        spec = policy.model.spec
        if spec.device_type == "vfio-pci" and spec.is_rdma:
            yield Hit(
                policy.resource, ("spec", "deviceType"),
                "deviceType vfio-pci together with isRdma: true",
                "netdevice for RDMA in a pod, or vfio-pci without isRdma for a virtual machine",
                "set deviceType: netdevice",
            )  # fmt: skip


@rule(
    "policy.vfio-on-mellanox",
    Status.WARN,
    "on ConnectX even DPDK uses the kernel driver and verbs; vfio-pci takes both away and serves "
    "virtual machines only",
    errata=("E104",),
)
def vfio_on_mellanox(bundle: Bundle) -> Iterator[Hit]:
    for policy in policies(bundle):
        spec = policy.model.spec
        if spec.device_type == "vfio-pci" and not spec.is_rdma and is_mellanox(policy):
            yield Hit(
                policy.resource, ("spec", "deviceType"),
                "deviceType vfio-pci on a Mellanox NIC",
                "deviceType netdevice with isRdma: true, unless the VF goes into a virtual machine",
                "set deviceType: netdevice and isRdma: true (also for DPDK)",
            )  # fmt: skip


@rule(
    "policy.resource-prefix",
    Status.FAIL,
    "the operator puts its own prefix in front; a slash in the name is refused by the webhook",
    errata=("E11",),
)
def resource_prefix(bundle: Bundle) -> Iterator[Hit]:
    for policy in policies(bundle):
        name = policy.model.spec.resource_name
        if "/" in name:
            bare = name.rpartition("/")[2]
            yield Hit(
                policy.resource, ("spec", "resourceName"), f"`{name}` carries a prefix",
                f"`{bare}`: the name without prefix", f"write resourceName: {bare}",
            )  # fmt: skip


@rule(
    "policy.resource-name",
    Status.FAIL,
    "the webhook refuses the policy, and the kubelet would refuse the resource",
)
def resource_name(bundle: Bundle) -> Iterator[Hit]:
    for policy in policies(bundle):
        name = policy.model.spec.resource_name
        if "/" not in name and (len(name) > 63 or not _NAME.match(name)):
            better = re.sub(r"[^a-zA-Z0-9_]+", "_", name)[:63].strip("_")
            yield Hit(
                policy.resource, ("spec", "resourceName"), f"`{name}` ({len(name)} characters)",
                "at most 63 letters, digits, `_` and `-`, a letter or digit at both ends",
                f"write resourceName: {better or 'rail0'} (also in the network and the pods)",
            )  # fmt: skip


@rule(
    "policy.resource-dash",
    Status.WARN,
    "the VF's address reaches the pod as PCIDEVICE_<PREFIX>_<NAME>; with a dash in it no shell can "
    "read that variable, and the Network Operator refuses such a name in its plugin config",
    errata=("E23",),
)
def resource_dash(bundle: Bundle) -> Iterator[Hit]:
    for policy in policies(bundle):
        name = policy.model.spec.resource_name
        if "-" in name and _NAME.match(name):
            yield Hit(
                policy.resource, ("spec", "resourceName"), f"a dash in `{name}`",
                "letters, digits and `_`",
                f"write resourceName: {name.replace('-', '_')} (also in the network and the pods)",
            )  # fmt: skip


@rule("policy.zero-vfs", Status.FAIL, "a policy without VFs is refused by the webhook")
def zero_vfs(bundle: Bundle) -> Iterator[Hit]:
    for policy in policies(bundle):
        if policy.model.spec.num_vfs == 0:
            yield Hit(
                policy.resource, ("spec", "numVfs"), "numVfs: 0", "at least 1 VF for each PF",
                "set numVfs to the pods that share a PF at one time; to remove the VFs delete the "
                "policy instead",
            )  # fmt: skip


@rule(
    "policy.too-many-vfs",
    Status.FAIL,
    "the webhook refuses more than 128 VFs on a Mellanox PF",
    errata=("E99",),
)
def too_many_vfs(bundle: Bundle) -> Iterator[Hit]:
    for policy in policies(bundle):
        count = policy.model.spec.num_vfs
        if count > MELLANOX_VFS and is_mellanox(policy):
            yield Hit(
                policy.resource, ("spec", "numVfs"), f"numVfs: {count} for each PF",
                f"at most {MELLANOX_VFS}, and at most sriov_totalvfs of the card",
                "size it by the pods of one node that share a PF; 8 or 16 is usual",
            )  # fmt: skip


@rule(
    "policy.many-ib-vfs",
    Status.WARN,
    "in InfiniBand mode NVIDIA advises at most 16 VFs for each PF: with more, `ip link` fails with "
    "`Message too long` and the CNI cannot set the VF up",
    errata=("E99",),
)
def many_ib_vfs(bundle: Bundle) -> Iterator[Hit]:
    for policy in policies(bundle):
        count = policy.model.spec.num_vfs
        if is_ib(policy) and IB_VFS < count <= MELLANOX_VFS:
            yield Hit(
                policy.resource, ("spec", "numVfs"), f"numVfs: {count} with linkType IB",
                f"at most {IB_VFS}", f"set numVfs: {IB_VFS} or less",
            )  # fmt: skip


@rule(
    "policy.link-type-eth",
    Status.WARN,
    "OpenShift's documentation asks to leave linkType out on Ethernet: the device plugin may "
    "report a wrong number of VFs. On a card that can change, it also rewrites the firmware",
    errata=("E06",),
)
def link_type_eth(bundle: Bundle) -> Iterator[Hit]:
    for policy in policies(bundle):
        written = policy.model.spec.link_type
        if written in ("eth", "ETH"):
            yield Hit(
                policy.resource, ("spec", "linkType"), f"linkType: {written}",
                "no linkType for Ethernet", "delete the line", key=True,
            )  # fmt: skip


@rule(
    "policy.link-type-missing",
    Status.FAIL,
    "without linkType the VFs are treated as Ethernet: no GUIDs are set, isRdma is not switched "
    "on, and the pod's InfiniBand port never comes up",
    errata=("E04",),
)
def link_type_missing(bundle: Bundle) -> Iterator[Hit]:
    for policy in policies(bundle):
        spec = policy.model.spec
        served = networks_for(bundle, spec.resource_name)
        ib = next((n.resource for n in served if n.resource.kind == "SriovIBNetwork"), None)
        if ib is not None and spec.link_type is None:
            yield Hit(
                policy.resource, ("spec", "linkType"),
                f"no linkType, while {ib.subject} makes an InfiniBand network of "
                f"`{spec.resource_name}`",
                "linkType: IB and isRdma: true", "add linkType: IB to the policy's spec",
                evidence=(f"{ib.subject} at {ib.where('spec', 'resourceName')}",),
            )  # fmt: skip


@rule(
    "policy.ib-without-rdma",
    Status.WARN,
    "only the admission webhook turns isRdma on for InfiniBand, and NVIDIA's chart installs the "
    "operator without it; then the pod gets a VF and no /dev/infiniband",
    errata=("E04",),
)
def ib_without_rdma(bundle: Bundle) -> Iterator[Hit]:
    for policy in policies(bundle):
        spec = policy.model.spec
        if is_ib(policy) and not spec.is_rdma and spec.device_type != "vfio-pci":
            yield Hit(
                policy.resource, ("spec", "isRdma" if spec.is_rdma is False else "linkType"),
                f"linkType: {spec.link_type} and isRdma is "
                f"{'false' if spec.is_rdma is False else 'not set'}",
                "isRdma: true", "set isRdma: true", key=True,
            )  # fmt: skip


@rule(
    "policy.ib-mtu",
    Status.FAIL,
    "an IPoIB interface in datagram mode carries at most 4092 bytes; the daemon fails to set more",
    errata=("E114",),
)
def ib_mtu(bundle: Bundle) -> Iterator[Hit]:
    for policy in policies(bundle):
        mtu = policy.model.spec.mtu
        if is_ib(policy) and mtu is not None and mtu > IPOIB_MTU:
            yield Hit(
                policy.resource, ("spec", "mtu"), f"mtu: {mtu} with linkType IB",
                f"at most {IPOIB_MTU}", f"set mtu: {IPOIB_MTU} or delete the line",
            )  # fmt: skip


@rule(
    "policy.rdma-mtu",
    Status.WARN,
    "RoCE takes the largest of 256…4096 bytes that fits below the interface's MTU; a small one "
    "costs bandwidth",
    errata=("E114",),
)
def rdma_mtu(bundle: Bundle) -> Iterator[Hit]:
    for policy in policies(bundle):
        spec, mtu = policy.model.spec, policy.model.spec.mtu
        served = networks_for(bundle, spec.resource_name)
        ethernet = not is_ib(policy) and all(n.resource.kind == "SriovNetwork" for n in served)
        if ethernet and spec.is_rdma and mtu is not None and mtu < ROCE_4096:
            yield Hit(
                policy.resource, ("spec", "mtu"), f"mtu: {mtu} gives an RDMA MTU of {_roce(mtu)}",
                f"an mtu of at least {ROCE_4096}, for an RDMA MTU of 4096",
                "set mtu: 9000 here and jumbo frames on the switch ports",
            )  # fmt: skip


def _roce(mtu: int) -> int:
    fits = [size for size in (256, 512, 1024, 2048, 4096) if size <= mtu - (ROCE_4096 - 4096)]
    return max(fits, default=0)


@rule(
    "policy.switchdev-ib",
    Status.FAIL,
    "switchdev is an Ethernet switch inside the NIC; the webhook refuses it with linkType IB",
)
def switchdev_ib(bundle: Bundle) -> Iterator[Hit]:
    for policy in policies(bundle):
        if is_ib(policy) and policy.model.spec.e_switch_mode == "switchdev":
            yield Hit(
                policy.resource, ("spec", "eSwitchMode"), "eSwitchMode: switchdev and linkType IB",
                "eSwitchMode legacy on InfiniBand", "delete eSwitchMode",
            )  # fmt: skip


@rule(
    "policy.vdpa",
    Status.FAIL,
    "vDPA needs the kernel driver on a switchdev port of a Mellanox NIC; the webhook refuses "
    "anything else",
)
def vdpa(bundle: Bundle) -> Iterator[Hit]:
    for policy in policies(bundle):
        lacks = _vdpa_lacks(policy)
        if policy.model.spec.vdpa_type is not None and lacks:
            yield Hit(
                policy.resource, ("spec", "vdpaType"),
                f"vdpaType: {policy.model.spec.vdpa_type} without {' and '.join(lacks)}",
                'deviceType netdevice, eSwitchMode switchdev and nicSelector.vendor "15b3"',
                f"set {', '.join(lacks)}, or delete vdpaType",
            )  # fmt: skip


def _vdpa_lacks(policy: Policy) -> list[str]:
    spec = policy.model.spec
    lacks = {
        "deviceType: netdevice": spec.device_type == "vfio-pci",
        "eSwitchMode: switchdev": spec.e_switch_mode != "switchdev",
        'vendor: "15b3"': spec.nic_selector.vendor not in (None, "15b3"),
    }
    return [text for text, missing in lacks.items() if missing]


@rule(
    "policy.bridge",
    Status.FAIL,
    "the operator builds an OVS bridge only over a switchdev PF that it manages itself",
)
def bridge(bundle: Bundle) -> Iterator[Hit]:
    for policy in policies(bundle):
        spec = policy.model.spec
        if spec.bridge is None or spec.bridge.ovs is None:
            continue
        if spec.e_switch_mode != "switchdev" or spec.externally_managed:
            found = f"eSwitchMode {spec.e_switch_mode or 'legacy'}"
            outside = " and externallyManaged: true" if spec.externally_managed else ""
            yield Hit(
                policy.resource, ("spec", "bridge"), f"a bridge with {found}{outside}",
                "eSwitchMode: switchdev and externallyManaged not set",
                "set eSwitchMode: switchdev and delete externallyManaged, or delete bridge",
                key=True,
            )  # fmt: skip
