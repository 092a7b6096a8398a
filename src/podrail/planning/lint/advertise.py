"""Device plugins against policies: one VF, one owner, and ids that VFs really carry."""

from __future__ import annotations

from collections.abc import Iterator

from podrail.model import pciids
from podrail.model.bundle import Bundle
from podrail.model.finding import Status
from podrail.model.kinds.configs import DeviceSelectors
from podrail.planning.lint.plugins import Pool, pools, shared_pools
from podrail.planning.lint.registry import Hit, rule
from podrail.planning.lint.view import Policy, pf_parts, policies


def _vf_id(policy: Policy) -> str | None:
    nic = policy.model.spec.nic_selector
    if nic.device_id is None:
        return None
    return pciids.VF_OF_PF.get((nic.vendor or pciids.MELLANOX, nic.device_id.lower()))


def _same_vendor(selectors: DeviceSelectors, policy: Policy) -> bool:
    vendor = policy.model.spec.nic_selector.vendor
    return not selectors.vendors or vendor is None or vendor in selectors.vendors


def _may_share(selectors: DeviceSelectors, policy: Policy) -> bool:
    """Whether a VF of the policy could match the selectors."""
    names = {n.partition("#")[0] for n in selectors.pf_names or ()}
    apart = bool(names) and names.isdisjoint({part.name for part in pf_parts(policy)})
    made = _vf_id(policy)
    other_id = made is not None and made not in (selectors.devices or [made])
    return _same_vendor(selectors, policy) and not apart and not other_id


@rule(
    "plugin.two-plugins",
    Status.FAIL,
    "the SR-IOV operator runs its own device plugin from the policies: with a second one the same "
    "VF is advertised twice and can go to two pods, or both fight for one socket",
    errata=("E10",),
)
def two_plugins(bundle: Bundle) -> Iterator[Hit]:
    for pool in pools(bundle):
        for policy in policies(bundle):
            same_name = policy.model.spec.resource_name == pool.entry.resource_name
            chosen = pool.entry.selector_list() or [DeviceSelectors()]
            near = any(_same_vendor(s, policy) for s in chosen)
            if (same_name and near) or any(_may_share(s, policy) for s in chosen):
                yield pool.hit(
                    "resourceName",
                    actual=f"{pool.full_name} is also fed by {policy.resource.subject}",
                    expected="one device plugin for one set of VFs",
                    fix="delete this plugin configuration: the SR-IOV operator serves the "
                    "policy's VFs by itself",
                )
                break


@rule(
    "plugin.vf-id",
    Status.FAIL,
    "no VF of that policy carries one of these ids, so the pool stays empty",
    errata=("E07",),
)
def vf_id(bundle: Bundle) -> Iterator[Hit]:
    for pool in pools(bundle):
        for policy in policies(bundle):
            made = _vf_id(policy)
            if made is None or policy.model.spec.resource_name != pool.entry.resource_name:
                continue
            chosen = [set(s.devices or ()) for s in pool.entry.selector_list()]
            if chosen and all(ids and made not in ids for ids in chosen):
                device = policy.model.spec.nic_selector.device_id
                yield pool.hit(
                    "selectors",
                    actual=f"devices {', '.join(sorted(set().union(*chosen)))}, while "
                    f"{policy.resource.subject} splits {device}",
                    expected=f"{made}, the VF id of "
                    f"{pciids.name(pciids.MELLANOX, (device or '').lower())}",
                    fix=f'write "devices": ["{made}"]',
                )


@rule(
    "plugin.pf-id",
    Status.FAIL,
    "the plugin skips a PF that has VFs, and these policies make VFs on it: the pool stays empty",
    errata=("E07",),
)
def pf_id(bundle: Bundle) -> Iterator[Hit]:
    for pool in pools(bundle):
        for number, selectors in enumerate(pool.entry.selector_list()):
            for place, device in enumerate(selectors.devices or ()):
                policy = _splitting(bundle, device)
                if policy is None:
                    continue
                many = isinstance(pool.entry.selectors, list)
                inside = ("selectors", number) if many else ("selectors",)
                yield pool.hit(
                    *inside,
                    "devices",
                    place,
                    actual=f"{device} is the PF that {policy.resource.subject} splits",
                    expected=f"{_vf_id(policy)}, the id of its VFs",
                    fix=f'write "{_vf_id(policy)}"',
                )


def _splitting(bundle: Bundle, device: str) -> Policy | None:
    known = (p for p in policies(bundle) if _vf_id(p) is not None)
    return next((p for p in known if p.model.spec.nic_selector.device_id == device), None)


@rule(
    "plugin.same-devices",
    Status.WARN,
    "the first entry that matches a device owns it, so the second stays empty",
)
def same_devices(bundle: Bundle) -> Iterator[Hit]:
    seen: dict[tuple[int, str], Pool] = {}
    for pool in pools(bundle):
        selectors = repr(pool.entry.selector_list())
        config = id(pool.config.resource.data)
        first = seen.setdefault((config, selectors), pool)
        if first.index != pool.index:
            yield pool.hit(
                "selectors",
                actual=f"{pool.full_name} selects the same devices as {first.full_name}",
                expected="selectors that share no device",
                fix="tell them apart by pfNames, rootDevices or pciAddresses",
            )


# --- the shared plugin ------------------------------------------------------------------------


@rule(
    "plugin.shared-vf-id",
    Status.WARN,
    "the shared plugin hands one device to many pods; a VF in it may belong to one pod already. "
    "Beside ifNames of PFs the id has no effect",
    errata=("E09",),
)
def shared_vf_id(bundle: Bundle) -> Iterator[Hit]:
    virtual = {device for _, device in pciids.VF_IDS}
    for pool in shared_pools(bundle):
        ids = (pool.entry.selectors and pool.entry.selectors.device_ids) or []
        for place, device in enumerate(ids):
            if device.lower() in virtual:
                parents = ", ".join(pciids.pfs_of_vf(pciids.MELLANOX, device.lower()))
                yield pool.hit(
                    "selectors",
                    "deviceIDs",
                    place,
                    actual=f"{device} is an id of virtual functions",
                    expected=f"ids of physical functions ({parents})",
                    fix=f"delete {device}; ConnectX-7 is 1021",
                )


@rule(
    "plugin.shared-overlap",
    Status.WARN,
    "pods on the shared PF and pods on its VFs compete for one port, and neither sees the other",
    errata=("E109",),
)
def shared_overlap(bundle: Bundle) -> Iterator[Hit]:
    split = {part.name: policy for policy in policies(bundle) for part in pf_parts(policy)}
    for pool in shared_pools(bundle):
        names = (pool.entry.selectors and pool.entry.selectors.if_names) or []
        for place, name in enumerate(names):
            if name in split:
                yield pool.hit(
                    "selectors",
                    "ifNames",
                    place,
                    actual=f"{name} is shared here and split by {split[name].resource.subject}",
                    expected="a PF used in one way",
                    fix=f"delete {name} from ifNames, or leave it out of the policy",
                )
