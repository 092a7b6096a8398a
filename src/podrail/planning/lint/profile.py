"""HostProfile: settings that contradict each other, reach nothing, or cannot hold."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations
from typing import Any

from podrail.model import pciids
from podrail.model.bundle import Bundle, Typed
from podrail.model.finding import Status
from podrail.model.kinds.podrail import HostProfile, HostProfileSpec
from podrail.model.profile import ECT, tos_of
from podrail.planning.lint.memo import once
from podrail.planning.lint.registry import Hit, rule

Profile = tuple[Typed[HostProfile], HostProfileSpec]

_NIC_PARTS = ("roce", "rings", "coalescing", "pcie")
_HEX_ID = re.compile(r"^[0-9a-f]{4}$")
_ADAPTED = {"adaptiveRx": ("rxUsecs", "rxFrames"), "adaptiveTx": ("txUsecs", "txFrames")}


@once
def profiles(bundle: Bundle) -> list[Profile]:
    """Every HostProfile that says something."""
    return [(t, t.model.spec) for t in bundle.of(HostProfile) if t.model.spec is not None]


def _said(part: Any) -> dict[str, Any]:
    """The keys of a part of the spec that were written, in their wire form."""
    return part.model_dump(by_alias=True, exclude_none=True) if part is not None else {}


@rule(
    "profile.empty-selector",
    Status.FAIL,
    "an empty nicSelector matches no NIC, as in a SriovNetworkNodePolicy: nothing is tuned",
)
def empty_selector(bundle: Bundle) -> Iterator[Hit]:
    for profile, spec in profiles(bundle):
        tuned = [part for part in _NIC_PARTS if _said(getattr(spec, part))]
        if tuned and not any(_said(spec.nic_selector).values()):
            yield Hit(
                profile.resource, ("spec", tuned[0]),
                f"{', '.join(tuned)} without a nicSelector",
                "at least one of vendor, deviceID, rootDevices, pfNames",
                'name the card, such as nicSelector: {vendor: "15b3", pfNames: [ens8f0]}', key=True,
            )  # fmt: skip


@rule(
    "profile.nic-id",
    Status.FAIL,
    "PCI ids are compared as text with what the kernel reports of the physical function: four "
    "lower-case hex digits, and never the id that only VFs carry",
    errata=("E08",),
)
def nic_id(bundle: Bundle) -> Iterator[Hit]:
    for profile, spec in profiles(bundle):
        nic = _said(spec.nic_selector)
        for key in ("vendor", "deviceID"):
            value = str(nic.get(key, "15b3"))
            vf = key == "deviceID" and (nic.get("vendor", pciids.MELLANOX), value) in pciids.VF_IDS
            if vf or not _HEX_ID.match(value):
                better = "1021" if key == "deviceID" else "15b3"
                yield Hit(
                    profile.resource, ("spec", "nicSelector", key),
                    f"{value} is a virtual function's id" if vf else f"{key}: {value}",
                    f'the id of the card in four lower-case hex digits, such as "{better}"',
                    f'write {key}: "{better}" or what `lspci -nn` shows on the node',
                )  # fmt: skip


@rule(
    "profile.pf-range",
    Status.FAIL,
    "a profile tunes a port, and all its VFs share the port: it cannot be tuned for some of them",
)
def pf_range(bundle: Bundle) -> Iterator[Hit]:
    for profile, spec in profiles(bundle):
        names = spec.nic_selector.pf_names if spec.nic_selector else None
        for at, name in enumerate(names or ()):
            bare, mark, _ = name.partition("#")
            if mark:
                yield Hit(
                    profile.resource, ("spec", "nicSelector", "pfNames", at),
                    f"`{name}` names a part of its VFs", f"`{bare}`", f"write {bare}",
                )  # fmt: skip


@rule(
    "profile.no-priority",
    Status.FAIL,
    "a DSCP is mapped to a priority, and ECN is switched per priority: without one neither is set",
)
def no_priority(bundle: Bundle) -> Iterator[Hit]:
    for profile, spec in profiles(bundle):
        roce = _said(spec.roce)
        wanting = [key for key in ("dscp", "ecn") if key in roce]
        if wanting and "priority" not in roce and roce.get("trust") != "pcp":
            yield Hit(
                profile.resource, ("spec", "roce", wanting[0]),
                f"{' and '.join(wanting)} without a priority", "the lossless priority beside it",
                "add priority: 3, or the one your switches use", key=True,
            )  # fmt: skip


@rule(
    "profile.dscp-under-pcp",
    Status.FAIL,
    "a port that trusts PCP reads the priority from the VLAN tag and ignores the DSCP; on mlx5 a "
    "mapped DSCP would even change what it trusts",
)
def dscp_under_pcp(bundle: Bundle) -> Iterator[Hit]:
    for profile, spec in profiles(bundle):
        roce = _said(spec.roce)
        if roce.get("trust") == "pcp" and "dscp" in roce:
            yield Hit(
                profile.resource, ("spec", "roce", "dscp"),
                f"dscp: {roce['dscp']} beside trust: pcp", "trust: dscp, or no dscp",
                "write trust: dscp (it survives routing and needs no VLAN), or delete dscp",
                key=True,
            )  # fmt: skip


@rule(
    "profile.trust-without-dscp",
    Status.WARN,
    "mlx5 trusts DSCP from the first entry of its map on, and has no other switch for it",
)
def trust_without_dscp(bundle: Bundle) -> Iterator[Hit]:
    for profile, spec in profiles(bundle):
        roce = _said(spec.roce)
        if roce.get("trust") == "dscp" and "dscp" not in roce:
            yield Hit(
                profile.resource, ("spec", "roce", "trust"), "trust: dscp, and no dscp",
                "the DSCP of RoCE, and the priority it goes to",
                "add dscp: 26 and priority: 3, or what your switches use",
            )  # fmt: skip


@rule(
    "profile.tos",
    Status.WARN,
    "the traffic class carries the DSCP in its upper six bits and ECN in the lower two: what is "
    "marked otherwise lands in another priority, and what is not ECN-capable is dropped instead "
    "of marked",
)
def tos(bundle: Bundle) -> Iterator[Hit]:
    for profile, spec in profiles(bundle):
        roce = _said(spec.roce)
        if "tos" not in roce:
            continue
        value, dscp = roce["tos"], roce.get("dscp", roce["tos"] >> 2)
        if value >> 2 != dscp or not value & 0b11:
            marks = f"DSCP {value >> 2}, {'' if value & 0b11 else 'not '}ECN-capable"
            yield Hit(
                profile.resource, ("spec", "roce", "tos"), f"tos: {value} ({marks})",
                f"{tos_of(dscp)}: DSCP {dscp} and the ECN-capable bits {ECT:02b}",
                f"write tos: {tos_of(dscp)}" + (", or leave it out" if "dscp" in roce else ""),
            )  # fmt: skip


@rule(
    "profile.adaptive",
    Status.WARN,
    "a driver that adapts its coalescing chooses these numbers itself",
    errata=("E68",),
)
def adaptive(bundle: Bundle) -> Iterator[Hit]:
    for profile, spec in profiles(bundle):
        wanted = _said(spec.coalescing)
        for by, keys in _ADAPTED.items():
            fixed = [key for key in keys if key in wanted]
            if fixed and wanted.get(by) is not False:
                yield Hit(
                    profile.resource, ("spec", "coalescing", fixed[0]),
                    f"{' and '.join(fixed)} "
                    + (f"beside {by}: true" if by in wanted else f"without {by}: false"),
                    f"{by}: false beside the numbers, or {by}: true without them",
                    f"set {by}: false", key=True,
                )  # fmt: skip


@rule(
    "profile.ring-size",
    Status.WARN,
    "mlx5 rounds a ring up to a power of two, so what is asked for would never stand",
    errata=("E68",),
)
def ring_size(bundle: Bundle) -> Iterator[Hit]:
    for profile, spec in profiles(bundle):
        for key, size in _said(spec.rings).items():
            if size & (size - 1):
                better = 1 << size.bit_length()
                yield Hit(
                    profile.resource, ("spec", "rings", key), f"{key}: {size}",
                    f"a power of two, such as {better}", f"write {key}: {better}",
                )  # fmt: skip


@rule(
    "profile.disagree",
    Status.WARN,
    "both profiles reach the same port or machine, and of two values the profile whose name comes "
    "later wins",
)
def disagree(bundle: Bundle) -> Iterator[Hit]:
    for (a, ours), (b, theirs) in combinations(profiles(bundle), 2):
        if not _surely_meet(_labels(ours), _labels(theirs)):
            continue
        same_nics = _said(ours.nic_selector) == _said(theirs.nic_selector)
        for path, value in _values(theirs, nics=same_nics):
            other = dict(_values(ours, nics=same_nics)).get(path, value)
            if other != value:
                name = ".".join(path)
                yield Hit(
                    b.resource, ("spec", *path),
                    f"{name}: {value} here, {other} in {a.resource.subject}",
                    "one value", f"delete {name} from one of the two",
                    evidence=(f"{a.resource.subject} at {a.resource.where('spec', *path)}",),
                )  # fmt: skip


def _labels(spec: HostProfileSpec) -> dict[str, str]:
    return spec.node_selector or {}


def _surely_meet(ours: dict[str, str], theirs: dict[str, str]) -> bool:
    return ours.items() <= theirs.items() or theirs.items() <= ours.items()


def _values(spec: HostProfileSpec, *, nics: bool) -> Iterator[tuple[tuple[str, ...], Any]]:
    for part in (*(_NIC_PARTS if nics else ()), "cpu"):
        for key, value in _said(getattr(spec, part)).items():
            yield (part, key), value
