"""What a policy selects: PCI ids, PF names, VF ranges, addresses and node labels."""

from __future__ import annotations

import re
from collections.abc import Iterator

from podrail.model import pciids
from podrail.model.bundle import Bundle
from podrail.model.finding import Status
from podrail.model.kinds.sriov import NicSelector
from podrail.model.policy import pf_name
from podrail.planning.lint.registry import Hit, rule
from podrail.planning.lint.view import Policy, is_mellanox, policies

_HEX_ID = re.compile(r"^[0-9a-f]{4}$")
_ADDRESS = re.compile(r"^[0-9a-f]{4}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]$")
_SHORT = re.compile(r"^(?:0x)?([0-9a-f]{1,2}):([0-9a-f]{1,2})(?:\.([0-7]))?$", re.IGNORECASE)
_NFD_LABEL = re.compile(r"^(?:network-sriov|pci-[0-9a-f]{4})\.")
_VENDOR_NAMES = {
    "mellanox": pciids.MELLANOX, "nvidia": pciids.MELLANOX, "intel": pciids.INTEL,
}  # fmt: skip

NIC = ("spec", "nicSelector")


@rule("policy.empty-selector", Status.FAIL, "an empty nicSelector matches no NIC at all")
def empty_selector(bundle: Bundle) -> Iterator[Hit]:
    for policy in policies(bundle):
        if not _given(policy.model.spec.nic_selector):
            yield Hit(
                policy.resource, NIC, "nicSelector selects nothing",
                "at least one of vendor, deviceID, rootDevices, pfNames, netFilter",
                'name the card, such as vendor: "15b3" and pfNames: [ens3f0]', key=True,
            )  # fmt: skip


def _given(nic: NicSelector) -> list[str]:
    fields = {
        "vendor": nic.vendor, "deviceID": nic.device_id, "rootDevices": nic.root_devices,
        "pfNames": nic.pf_names, "netFilter": nic.net_filter,
    }  # fmt: skip
    return [name for name, value in fields.items() if value]


@rule(
    "policy.net-filter",
    Status.FAIL,
    "netFilter selects virtual NICs of a cloud by their network and excludes everything else",
)
def net_filter(bundle: Bundle) -> Iterator[Hit]:
    for policy in policies(bundle):
        beside = _beside_net_filter(policy)
        if policy.model.spec.nic_selector.net_filter and beside:
            yield Hit(
                policy.resource, (*NIC, "netFilter"), f"netFilter beside {', '.join(beside)}",
                "netFilter alone", f"delete netFilter, or delete {', '.join(beside)}",
                # OpenShift's pages for OpenStack write it beside these two
                status=Status.WARN if {"vendor", "deviceID"}.issuperset(beside) else None,
            )  # fmt: skip


def _beside_net_filter(policy: Policy) -> list[str]:
    spec = policy.model.spec
    beside = [name for name in _given(spec.nic_selector) if name != "netFilter"]
    beside += ["eSwitchMode"] if spec.e_switch_mode else []
    beside += ["bridge"] if spec.bridge else []
    return beside + (["linkType"] if (spec.link_type or "eth").lower() != "eth" else [])


@rule(
    "policy.id-format",
    Status.FAIL,
    "PCI ids are compared as text with what the kernel reports: four lower-case hex digits",
)
def id_format(bundle: Bundle) -> Iterator[Hit]:
    for policy in policies(bundle):
        nic = policy.model.spec.nic_selector
        for name, value in (("vendor", nic.vendor), ("deviceID", nic.device_id)):
            if value and not _HEX_ID.match(value):
                meant = _VENDOR_NAMES.get(value.lower(), value.lower().removeprefix("0x"))
                better = meant if _HEX_ID.match(meant) else "15b3" if name == "vendor" else "1021"
                yield Hit(
                    policy.resource, (*NIC, name), f"{name}: {value}",
                    f'four lower-case hex digits, such as "{better}"',
                    f'write {name}: "{better}" (lspci -nn shows vendor:device in brackets)',
                )  # fmt: skip


@rule(
    "policy.vf-device-id",
    Status.FAIL,
    "nicSelector names physical functions; this id is carried by virtual functions only, so it "
    "selects nothing and the webhook refuses it",
    errata=("E08", "E07"),
)
def vf_device_id(bundle: Bundle) -> Iterator[Hit]:
    for policy in policies(bundle):
        nic = policy.model.spec.nic_selector
        vendor = (nic.vendor or pciids.MELLANOX).lower()
        device = (nic.device_id or "").lower()
        if (vendor, device) in pciids.VF_IDS:
            cards = [f"{pf} ({pciids.name(vendor, pf)})" for pf in pciids.pfs_of_vf(vendor, device)]
            yield Hit(
                policy.resource, (*NIC, "deviceID"), f"{device} is a virtual function's id",
                f"the id of the card: {', '.join(cards)}",
                f'write deviceID: "{pciids.pfs_of_vf(vendor, device)[0]}" or whichever of them '
                "`lspci -nn` shows on the node",
            )  # fmt: skip


@rule(
    "policy.unknown-device",
    Status.WARN,
    "the operator works only with the ids of its supported-nic-ids list",
    errata=("E08",),
)
def unknown_device(bundle: Bundle) -> Iterator[Hit]:
    for policy in policies(bundle):
        device = (policy.model.spec.nic_selector.device_id or "").lower()
        known = (pciids.MELLANOX, device) in pciids.VF_OF_PF.keys() | pciids.VF_IDS
        if is_mellanox(policy) and _HEX_ID.match(device) and not known:
            cards = (f"{pf} {pciids.name(v, pf)}" for v, pf in pciids.VF_OF_PF if v == "15b3")
            yield Hit(
                policy.resource, (*NIC, "deviceID"),
                f"15b3:{device} is not a card podrail knows{_other_maker(device)}",
                f"one of {', '.join(cards)}",
                "compare with `lspci -nn -d 15b3:` on the node; a new card must be in the "
                "operator's ConfigMap supported-nic-ids",
            )  # fmt: skip


def _other_maker(device: str) -> str:
    maker = next((vendor for vendor, pf in pciids.VF_OF_PF if pf == device), None)
    return f" ({maker}:{device} is {pciids.name(maker, device)})" if maker else ""


@rule(
    "policy.pf-range",
    Status.FAIL,
    "the webhook takes one range `name#first-last` for each entry, counted from 0, below numVfs",
)
def pf_range(bundle: Bundle) -> Iterator[Hit]:
    for policy in policies(bundle):
        spec = policy.model.spec
        for at, text in enumerate(spec.nic_selector.pf_names or ()):
            wrong, better = _range_fault(text, spec.num_vfs)
            if wrong:
                yield Hit(
                    policy.resource, (*NIC, "pfNames", at), f"`{text}`: {wrong}",
                    f"`name#first-last` with first ≤ last < numVfs ({spec.num_vfs})",
                    f"write {better}",
                )  # fmt: skip


def _range_fault(text: str, num_vfs: int) -> tuple[str, str]:
    """What is wrong with an entry of pfNames, and what to write instead."""
    name, mark, vfs = text.partition("#")
    if not name:
        return "no name", f"ens3f0{mark}{vfs}, with the name of the interface"
    if not mark:
        return "", ""
    found = pf_name(text)
    if found is None or found.range is None:
        return _unreadable(name, vfs, num_vfs)
    first, last = found.range.first, found.range.last
    if last >= num_vfs:
        return f"VF {last} of {num_vfs}", f"{name}#{first}-{num_vfs - 1}, or raise numVfs"
    return "", ""


def _unreadable(name: str, vfs: str, num_vfs: int) -> tuple[str, str]:
    first, dash, last = vfs.partition("-")
    if first.isdecimal() and not dash:
        return "a single index is refused", f"{name}#{vfs}-{vfs}"
    if first.isdecimal() and last.isdecimal():
        return f"{first} is after {last}", f"{name}#{last}-{first}"
    pieces = (f"{name}#{p if '-' in p else f'{p}-{p}'}" for p in vfs.split(",") if p)
    return "not one range of numbers", " and ".join(pieces) or f"{name}#0-{num_vfs - 1}"


@rule(
    "policy.root-device",
    Status.FAIL,
    "rootDevices are compared as text with the kernel's full PCI address",
)
def root_device(bundle: Bundle) -> Iterator[Hit]:
    for policy in policies(bundle):
        for at, text in enumerate(policy.model.spec.nic_selector.root_devices or ()):
            if not _ADDRESS.match(text):
                yield Hit(
                    policy.resource, (*NIC, "rootDevices", at), f"`{text}`",
                    "domain:bus:device.function in lower case, such as 0000:3c:00.0",
                    f'write "{_full_address(text)}"',
                )  # fmt: skip


def _full_address(text: str) -> str:
    short = _SHORT.match(text.strip())
    if short is None:
        return text.lower() if _ADDRESS.match(text.lower()) else "0000:3c:00.0"
    return f"0000:{short[1].lower():0>2}:{short[2].lower():0>2}.{short[3] or 0}"


@rule(
    "policy.label-without-prefix",
    Status.WARN,
    "node feature discovery sets its labels below feature.node.kubernetes.io/; a bare key matches "
    "no node, and nothing happens without a message",
    errata=("E102",),
)
def label_without_prefix(bundle: Bundle) -> Iterator[Hit]:
    for policy in policies(bundle):
        for key in policy.model.spec.node_selector:
            if _NFD_LABEL.match(key):
                yield Hit(
                    policy.resource, ("spec", "nodeSelector", key), f"the label `{key}`",
                    f"feature.node.kubernetes.io/{key}",
                    f'write feature.node.kubernetes.io/{key}: "true"', key=True,
                )  # fmt: skip
