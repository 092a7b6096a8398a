"""The SR-IOV operator's own objects: where they must live, and settings that exclude each other."""

from __future__ import annotations

import re
from collections.abc import Iterator

from podrail.model.bundle import Bundle, Resource
from podrail.model.finding import Status
from podrail.model.kinds.sriov import (
    SriovNetworkNodePolicy,
    SriovNetworkPoolConfig,
    SriovOperatorConfig,
)
from podrail.model.reach import at
from podrail.planning.lint.homes import (
    OPERATOR_PREFIX,
    config_homes,
    is_application,
    is_operator_home,
    of_kind,
    operator_namespaces,
)
from podrail.planning.lint.registry import Hit, rule
from podrail.planning.lint.view import IGNORED, policies

GATES = frozenset({
    "blockDevicePluginUntilConfigured", "manageSoftwareBridges", "mellanoxFirmwareReset",
    "metricsExporter", "parallelNicConfig", "resourceInjectorMatchCondition",
})  # fmt: skip


@rule(
    "policy.namespace",
    Status.WARN,
    "the operator reads policies of its own namespace only; elsewhere one is stored and not used",
    errata=("E42",),
)
def namespace(bundle: Bundle) -> Iterator[Hit]:
    for policy in policies(bundle):
        where = policy.resource.namespace
        if where is not None and _stray(bundle, where):
            yield Hit(
                policy.resource, ("metadata", "namespace"), f"namespace {where}",
                _homes_text(bundle),
                "set metadata.namespace to where the operator runs: "
                "kubectl get pods -A -l name=sriov-network-operator",
            )  # fmt: skip


def _stray(bundle: Bundle, where: str) -> bool:
    """The operator may be installed anywhere, so another place, or pods here, must prove it."""
    if is_operator_home(bundle, where):
        return False
    elsewhere = bool(config_homes(bundle) or operator_namespaces(bundle))
    return elsewhere or is_application(bundle, where)


def _homes_text(bundle: Bundle) -> str:
    homes = " or ".join(config_homes(bundle))
    return f"{homes}, where the SriovOperatorConfig is" if homes else (
        "the operator's: openshift-sriov-network-operator on OpenShift, "
        "nvidia-network-operator or sriov-network-operator under Helm"
    )  # fmt: skip


@rule(
    "policy.default-ignored",
    Status.WARN,
    "the operator ignores a policy called default: it makes an empty one of that name itself, and "
    "what this one says never takes effect",
)
def default_ignored(bundle: Bundle) -> Iterator[Hit]:
    for policy in bundle.of(SriovNetworkNodePolicy):
        spec = policy.model.spec
        content = spec.num_vfs or spec.resource_name or any(dict(spec.nic_selector).values())
        if policy.resource.name == IGNORED and content:
            yield Hit(
                policy.resource, ("metadata", "name"), "a policy called default",
                "a name of its own, such as the rail's", "rename the policy",
            )  # fmt: skip


@rule(
    "policy.two-operators",
    Status.WARN,
    "one cluster runs one SR-IOV operator, and it reads one namespace",
    errata=("E42", "E11"),
)
def two_operators(bundle: Bundle) -> Iterator[Hit]:
    homes: dict[str, Resource] = {}
    for policy in policies(bundle):
        if policy.resource.namespace in OPERATOR_PREFIX:
            homes.setdefault(policy.resource.namespace, policy.resource)
    for where, resource in list(homes.items())[1:]:
        first, other = next(iter(homes.items()))
        yield Hit(
            resource, ("metadata", "namespace"),
            f"namespace {where}, while {other.subject.name} is in {first}",
            "all policies in the namespace of the operator",
            f"write namespace: {first}, or keep the two clusters in separate folders",
            evidence=(f"{other.subject} at {other.where('metadata', 'namespace')}",),
        )  # fmt: skip


@rule(
    "policy.operator-config-name",
    Status.FAIL,
    "the operator reads exactly one SriovOperatorConfig: `default` in its own namespace",
)
def operator_config_name(bundle: Bundle) -> Iterator[Hit]:
    for config in bundle.of(SriovOperatorConfig):
        if config.resource.name != "default":
            yield Hit(
                config.resource, ("metadata", "name"), f"name {config.resource.name}", "default",
                "write name: default",
            )  # fmt: skip


@rule(
    "policy.feature-gate",
    Status.WARN,
    "a gate the operator does not know changes nothing",
)
def feature_gate(bundle: Bundle) -> Iterator[Hit]:
    for config in bundle.of(SriovOperatorConfig):
        for gate in (config.model.spec and config.model.spec.feature_gates) or ():
            if gate not in GATES:
                yield Hit(
                    config.resource, ("spec", "featureGates", gate), f"gate `{gate}`",
                    f"one of {', '.join(sorted(GATES))}", "correct the name or delete the line",
                    key=True,
                )  # fmt: skip


@rule(
    "policy.bridge-gate",
    Status.WARN,
    "the operator ignores `bridge` until the gate manageSoftwareBridges is on; it is off by "
    "default",
)
def bridge_gate(bundle: Bundle) -> Iterator[Hit]:
    configs = list(bundle.of(SriovOperatorConfig))
    gates = [(c.model.spec and c.model.spec.feature_gates) or {} for c in configs]
    if not configs or any(on.get("manageSoftwareBridges") for on in gates):
        return
    for policy in policies(bundle):
        if policy.model.spec.bridge is not None:
            yield Hit(
                policy.resource, ("spec", "bridge"),
                f"a bridge, while {configs[0].resource.subject} leaves the gate off",
                "featureGates: {manageSoftwareBridges: true}",
                "add it to the SriovOperatorConfig", key=True,
            )  # fmt: skip


def _pools(bundle: Bundle) -> Iterator[tuple[Resource, SriovNetworkPoolConfig]]:
    return ((pool.resource, pool.model) for pool in bundle.of(SriovNetworkPoolConfig))


@rule(
    "policy.pool-offload",
    Status.FAIL,
    "a pool either drains nodes or switches OVS offload on; the webhook refuses both in one",
)
def pool_offload(bundle: Bundle) -> Iterator[Hit]:
    for resource, pool in _pools(bundle):
        if pool.spec is None or pool.spec.ovs_hardware_offload_config is None:
            continue
        for name in ("maxUnavailable", "nodeSelector"):
            if at(resource.data, "spec", name) is not None:
                yield Hit(
                    resource, ("spec", name), f"{name} beside ovsHardwareOffloadConfig",
                    "two SriovNetworkPoolConfig objects",
                    f"move {name} to a pool of its own", key=True,
                )  # fmt: skip


@rule(
    "policy.pool-percent",
    Status.FAIL,
    "the webhook takes a whole number, or a percentage from 1% to 100%",
)
def pool_percent(bundle: Bundle) -> Iterator[Hit]:
    for resource, pool in _pools(bundle):
        value = None if pool.spec is None else pool.spec.max_unavailable
        if value is not None and not _sensible(value):
            yield Hit(
                resource, ("spec", "maxUnavailable"), f"maxUnavailable: {value}",
                "a number ≥ 0, or text such as 10%", "write maxUnavailable: 1",
            )  # fmt: skip


def _sensible(value: int | str) -> bool:
    if isinstance(value, int):
        return value >= 0
    found = re.fullmatch(r"(\d+)%", value)
    return found is not None and 1 <= int(found[1]) <= 100


@rule(
    "policy.pool-unlimited",
    Status.WARN,
    "a pool without maxUnavailable has no limit: a change may drain and reboot all its nodes at "
    "the same time",
)
def pool_unlimited(bundle: Bundle) -> Iterator[Hit]:
    for resource, pool in _pools(bundle):
        spec = pool.spec
        offload = spec is not None and spec.ovs_hardware_offload_config is not None
        if not offload and (spec is None or spec.max_unavailable is None):
            yield Hit(
                resource, ("spec",), "no maxUnavailable", "a limit", "add maxUnavailable: 1",
                key=True,
            )  # fmt: skip


@rule(
    "policy.shared-plugin-exclusive-mode",
    Status.FAIL,
    "the RDMA shared device plugin works only while the RDMA subsystem is in shared mode and exits "
    "otherwise; a node has one mode",
    errata=("E108",),
)
def shared_plugin_exclusive_mode(bundle: Bundle) -> Iterator[Hit]:
    for resource, pool in _pools(bundle):
        if pool.spec is None or pool.spec.rdma_mode != "exclusive":
            continue
        for other in of_kind(bundle, "NicClusterPolicy", "NicNodePolicy"):
            if at(other.data, "spec", "rdmaSharedDevicePlugin") is not None:
                yield Hit(
                    resource, ("spec", "rdmaMode"),
                    f"rdmaMode: exclusive, and {other.subject} deploys rdmaSharedDevicePlugin",
                    "exclusive with SR-IOV alone, or shared with the shared plugin",
                    "delete rdmaSharedDevicePlugin, or set rdmaMode: shared",
                    evidence=(
                        f"{other.subject} at {other.where('spec', 'rdmaSharedDevicePlugin')}",
                    ),
                )  # fmt: skip
