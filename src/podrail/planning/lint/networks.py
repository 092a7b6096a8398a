"""SriovNetwork and SriovIBNetwork: the right kind for the policy, and settings that take effect."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from podrail.model.bundle import Bundle
from podrail.model.finding import Status
from podrail.model.kinds.configs import JsonProblem, embedded_json
from podrail.model.kinds.sriov import SriovIBNetwork, SriovNetwork, SriovNetworkPoolConfig
from podrail.planning.lint.attachments import chained
from podrail.planning.lint.homes import is_application, is_operator_home, operator_homes
from podrail.planning.lint.mounts import nfs_mounts
from podrail.planning.lint.registry import Hit, rule, some
from podrail.planning.lint.view import Network, is_ib, networks, policies, policies_for

_EVERY = {"ips", "CNIDeviceInfoFile", "deviceID"}
_CAPABILITIES = {"SriovNetwork": _EVERY | {"mac"}, "SriovIBNetwork": _EVERY | {"infinibandGUID"}}


@rule(
    "network.ethernet-kind-on-ib",
    Status.FAIL,
    "a SriovNetwork runs the Ethernet CNI, which sets a MAC and a VLAN that an InfiniBand VF does "
    "not have; the pod stays in ContainerCreating",
    errata=("E13",),
)
def ethernet_kind_on_ib(bundle: Bundle) -> Iterator[Hit]:
    for network in bundle.of(SriovNetwork):
        for policy in filter(is_ib, policies_for(bundle, network.model.spec.resource_name)):
            yield Hit(
                network.resource, ("kind",),
                f"a SriovNetwork for `{network.model.spec.resource_name}`, which "
                f"{policy.resource.subject} makes with linkType {policy.model.spec.link_type}",
                "kind: SriovIBNetwork",
                "write kind: SriovIBNetwork and delete vlan, spoofChk, trust and rates",
                evidence=(
                    f"{policy.resource.subject} at {policy.resource.where('spec', 'linkType')}",
                ),
            )  # fmt: skip


@rule(
    "network.ib-kind-on-ethernet",
    Status.FAIL,
    "a SriovIBNetwork runs the InfiniBand CNI, which looks for a GUID that an Ethernet VF does not "
    "have",
    errata=("E13", "E04"),
)
def ib_kind_on_ethernet(bundle: Bundle) -> Iterator[Hit]:
    for network in bundle.of(SriovIBNetwork):
        for policy in policies_for(bundle, network.model.spec.resource_name):
            if policy.model.spec.link_type in ("eth", "ETH"):
                yield Hit(
                    network.resource, ("kind",),
                    f"a SriovIBNetwork for `{network.model.spec.resource_name}`, which "
                    f"{policy.resource.subject} makes with linkType {policy.model.spec.link_type}",
                    "kind: SriovNetwork on Ethernet, or linkType: IB in the policy",
                    "write kind: SriovNetwork, or correct the policy's linkType",
                    evidence=(
                        f"{policy.resource.subject} at {policy.resource.where('spec', 'linkType')}",
                    ),
                )  # fmt: skip


@rule(
    "network.capabilities-json",
    Status.FAIL,
    "the string is pasted into the CNI config; anything but a JSON object breaks the whole config",
)
def capabilities_json(bundle: Bundle) -> Iterator[Hit]:
    for network in networks(bundle):
        if not network.model.spec.capabilities:
            continue
        found = embedded_json(network.resource, ("spec", "capabilities"))
        where = found.where if isinstance(found, JsonProblem) else None
        if isinstance(found, JsonProblem) or not isinstance(found.data, dict):
            yield Hit(
                network.resource, ("spec", "capabilities"),
                found.actual if isinstance(found, JsonProblem) else f"{found.data!r}",
                "a JSON object", 'write it as \'{"ips": true}\'', where=where,
            )  # fmt: skip


@rule(
    "network.capability",
    Status.WARN,
    "a capability names an argument the CNI plugin takes from the pod; one it does not know "
    "switches nothing on. RDMA comes from isRdma: true in the policy",
    errata=("E14",),
)
def capability(bundle: Bundle) -> Iterator[Hit]:
    for network in networks(bundle):
        found = embedded_json(network.resource, ("spec", "capabilities"))
        if isinstance(found, JsonProblem) or not isinstance(found.data, dict):
            continue
        known = _CAPABILITIES[network.resource.kind]
        for name in sorted(found.data.keys() - known):
            yield Hit(
                network.resource, ("spec", "capabilities"), f"capability `{name}`",
                f"one of {', '.join(sorted(known))}", _instead(name),
                where=found.where(name, key=True),
            )  # fmt: skip


def _instead(name: str) -> str:
    if name.lower() != "rdma":
        return f"delete `{name}`"
    return (
        "delete it and set isRdma: true in the policy; to give each pod only its own RDMA device "
        'use rdmaMode: exclusive in a SriovNetworkPoolConfig and metaPlugins: \'{"type":"rdma"}\''
    )


@rule(
    "network.meta-plugins",
    Status.FAIL,
    "the operator pastes the text behind its own plugin in a JSON list; it must be one object, or "
    "several with commas, and no brackets of its own",
    errata=("E14",),
)
def meta_plugins(bundle: Bundle) -> Iterator[Hit]:
    for network in networks(bundle):
        text = network.model.spec.meta_plugins
        if text and chained(network.resource) is None:
            bracket = text.strip().startswith("[")
            yield Hit(
                network.resource, ("spec", "metaPlugins"),
                "a list in brackets" if bracket else f"`{text.strip()[:40]}` is not a JSON object",
                'an object such as {"type": "rdma"}',
                "take the outer brackets away" if bracket else 'write \'{"type": "rdma"}\'',
            )  # fmt: skip


def _chains_rdma(network: Network) -> bool:
    return any(item.get("type") == "rdma" for item in chained(network.resource) or ())


@rule(
    "network.rdma-chained-to-ib",
    Status.FAIL,
    "ib-sriov re-binds the VF, which makes its RDMA device anew; rdma-cni then moves a device that "
    "is gone. ib-sriov moves the RDMA device itself",
    errata=("E14",),
)
def rdma_chained_to_ib(bundle: Bundle) -> Iterator[Hit]:
    for network in bundle.of(SriovIBNetwork):
        if _chains_rdma(network):
            yield Hit(
                network.resource, ("spec", "metaPlugins"), "the rdma plugin behind ib-sriov",
                "no rdma plugin on InfiniBand", "delete metaPlugins", key=True,
            )  # fmt: skip


@rule(
    "network.rdma-chained-shared",
    Status.WARN,
    "rdma-cni works only while the RDMA subsystem of the node is in exclusive mode and fails every "
    "pod otherwise; shared is the kernel's default",
    errata=("E14",),
)
def rdma_chained_shared(bundle: Bundle) -> Iterator[Hit]:
    modes = [p.model.spec and p.model.spec.rdma_mode for p in bundle.of(SriovNetworkPoolConfig)]
    if "exclusive" in modes or not policies(bundle):
        return
    for network in bundle.of(SriovNetwork):
        if _chains_rdma(network):
            yield Hit(
                network.resource, ("spec", "metaPlugins"),
                "the rdma plugin, and no SriovNetworkPoolConfig here sets rdmaMode: exclusive",
                "rdmaMode: exclusive on the nodes of this network",
                "add a SriovNetworkPoolConfig with rdmaMode: exclusive (the nodes reboot), or "
                "delete metaPlugins", key=True,
            )  # fmt: skip


@rule(
    "network.resource-prefix",
    Status.FAIL,
    "the operator puts its own prefix in front, and the result matches no resource",
    errata=("E11",),
)
def resource_prefix(bundle: Bundle) -> Iterator[Hit]:
    for network in networks(bundle):
        name = network.model.spec.resource_name
        if "/" in name:
            bare = name.rpartition("/")[2]
            yield Hit(
                network.resource, ("spec", "resourceName"), f"`{name}` carries a prefix",
                f"`{bare}`, as in the policy", f"write resourceName: {bare}",
            )  # fmt: skip


@rule(
    "network.unknown-resource",
    Status.WARN,
    "no policy of these files makes VFs for it; a pod of this network then waits for ever for a "
    "resource that no node has",
)
def unknown_resource(bundle: Bundle) -> Iterator[Hit]:
    made = dict.fromkeys(policy.model.spec.resource_name for policy in policies(bundle))
    for network in networks(bundle) if made else ():
        name = network.model.spec.resource_name
        if name not in made and "/" not in name:
            near = difflib.get_close_matches(name, made, n=1)
            yield Hit(
                network.resource, ("spec", "resourceName"), f"`{name}` is in no policy here",
                f"one of {some(made)}",
                f"write resourceName: {near[0]}" if near else "correct the name, or lint the "
                "policy that makes it together with this file",
            )  # fmt: skip


@rule(
    "network.namespace-twice",
    Status.FAIL,
    "a network in an application's namespace makes its NAD there; naming another is refused",
    errata=("E42",),
)
def namespace_twice(bundle: Bundle) -> Iterator[Hit]:
    for network in networks(bundle):
        home, target = network.resource.namespace, network.model.spec.network_namespace
        if target and home is not None and _not_the_operators(bundle, home, target):
            yield Hit(
                network.resource, ("spec", "networkNamespace"),
                f"networkNamespace {target} in an object of namespace {home}",
                "networkNamespace only in an object of the operator's namespace",
                "delete networkNamespace, or move the object to the operator's namespace",
                key=True,
            )  # fmt: skip


def _not_the_operators(bundle: Bundle, home: str, target: str) -> bool:
    """The operator may be installed anywhere: it must be known elsewhere, or pods known here."""
    homes = operator_homes(bundle)
    if is_operator_home(bundle, home) or home in homes:
        return False
    return bool(homes) or home == target or is_application(bundle, home)


@rule(
    "network.no-target-namespace",
    Status.WARN,
    "without networkNamespace the NAD is made in the operator's own namespace, where no pod of "
    "yours looks for it",
    errata=("E42",),
)
def no_target_namespace(bundle: Bundle) -> Iterator[Hit]:
    for network in networks(bundle):
        home = network.resource.namespace
        if is_operator_home(bundle, home) and not network.model.spec.network_namespace:
            yield Hit(
                network.resource, ("spec", "networkNamespace"),
                f"no networkNamespace, so the NAD lands in {home}", "the namespace of the pods",
                "add networkNamespace: with the namespace of the pods",
            )  # fmt: skip


@rule(
    "network.qos-without-vlan",
    Status.FAIL,
    "priority and protocol are fields of the VLAN tag; without one the CNI refuses the config",
)
def qos_without_vlan(bundle: Bundle) -> Iterator[Hit]:
    for network in bundle.of(SriovNetwork):
        spec = network.model.spec
        asked = {"vlanQoS": spec.vlan_qos, "vlanProto": _tagged(spec.vlan_proto)}
        for name in (name for name, value in asked.items() if value and not spec.vlan):
            yield Hit(
                network.resource, ("spec", name), f"{name}: {asked[name]} without a vlan",
                "vlan from 1 to 4094 beside it", f"add vlan, or delete {name}",
            )  # fmt: skip


def _tagged(proto: str | None) -> str | None:
    """802.1q is what an untagged VF says anyway."""
    return proto if proto is not None and proto.lower() != "802.1q" else None


@rule("network.rates", Status.FAIL, "the guaranteed rate cannot be above the limit")
def rates(bundle: Bundle) -> Iterator[Hit]:
    for network in bundle.of(SriovNetwork):
        low, high = network.model.spec.min_tx_rate, network.model.spec.max_tx_rate
        if low and high and low > high:  # 0 means no limit
            yield Hit(
                network.resource, ("spec", "minTxRate"),
                f"minTxRate {low} above maxTxRate {high} (Mb/s)",
                "minTxRate ≤ maxTxRate", "exchange the two",
            )  # fmt: skip


@rule(
    "network.vlan-storage",
    Status.WARN,
    "Linux carries NFS over RDMA on a VLAN without trouble, but some storage arrays serve it on "
    "untagged ports only: a rule of your site, to be asked of the vendor",
    errata=("E82",),
)
def vlan_storage(bundle: Bundle) -> Iterator[Hit]:
    mount = next((mount for mount in nfs_mounts(bundle) if mount.rdma), None)
    for network in bundle.of(SriovNetwork) if mount else ():
        if mount and network.model.spec.vlan:
            yield Hit(
                network.resource, ("spec", "vlan"),
                f"vlan {network.model.spec.vlan}, and {mount.resource.subject} mounts NFS over "
                "RDMA",
                "a word from the storage vendor that tagged RDMA ports are served",
                "if the mount uses this network and the array wants untagged ports, delete vlan",
            )  # fmt: skip
