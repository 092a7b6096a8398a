"""The selectors of upstream's two device plugins: which candidates an entry means.

All keys of one selector must hold; of a list of selectors one must.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from podrail.attach.deviceplugin.candidates import Candidate
from podrail.model.kinds.configs import DeviceSelectors, SharedSelectors

_LINKS = {
    "ether": "eth", "ethernet": "eth", "eth": "eth",
    "infiniband": "ib", "ib": "ib",
}  # fmt: skip
_INDEXES = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")

Test = Callable[[Candidate, Sequence[str]], bool]


def matches(selector: DeviceSelectors, one: Candidate) -> bool:
    """Whether a selector of sriov-network-device-plugin means a candidate."""
    if selector.is_rdma and not one.has_rdma:
        return False
    if selector.vdpa_type and selector.vdpa_type != one.vdpa:
        return False
    given = ((test, getattr(selector, name)) for name, test in _TESTS.items())
    return all(test(one, wanted) for test, wanted in given if wanted)


def matches_shared(selector: SharedSelectors, one: Candidate) -> bool:
    """Whether a selector of k8s-rdma-shared-dev-plugin means a candidate."""
    given = ((test, getattr(selector, name)) for name, test in _SHARED_TESTS.items())
    return all(test(one, wanted) for test, wanted in given if wanted)


def faults(selector: DeviceSelectors) -> Iterator[str]:
    """What keeps a selector from ever matching, in words."""
    if selector.ddp_profiles:
        yield "ddpProfiles: podrail does not read DDP profiles, so this selector matches nothing"
    if selector.is_rdma and selector.vdpa_type:
        yield "isRdma and vdpaType exclude each other, so this selector matches nothing"
    for entry in (*(selector.pf_names or ()), *(selector.root_devices or ())):
        if _indexes(entry) is None:
            yield f"{entry!r} is no NAME or NAME#0,2-3, so it matches nothing"
    for link in selector.link_types or ():
        if link.lower() not in _LINKS:
            yield f"linkTypes {link!r} is neither ether nor infiniband, so it matches nothing"


def _id(value: str) -> str:
    return value.lower().removeprefix("0x")


def _vendors(one: Candidate, wanted: Sequence[str]) -> bool:
    return one.vendor in map(_id, wanted)


def _devices(one: Candidate, wanted: Sequence[str]) -> bool:
    return one.device in map(_id, wanted)


def _drivers(one: Candidate, wanted: Sequence[str]) -> bool:
    return one.driver in wanted


def _addresses(one: Candidate, wanted: Sequence[str]) -> bool:
    return one.id in (address.lower() for address in wanted)


def _acpi(one: Candidate, wanted: Sequence[str]) -> bool:
    return one.acpi_index in wanted


def _types(one: Candidate, wanted: Sequence[str]) -> bool:
    return one.auxiliary in wanted


def _links(one: Candidate, wanted: Sequence[str]) -> bool:
    return one.link_type in [_LINKS.get(link.lower()) for link in wanted] and bool(one.link_type)


def _keys(one: Candidate, wanted: Sequence[str]) -> bool:
    return one.link_type == "ib" and one.pkey in [_number(key) for key in wanted if _number(key)]


def _number(text: str) -> int | None:
    try:
        return int(text, 0)
    except ValueError:
        return None


def _never(one: Candidate, wanted: Sequence[str]) -> bool:
    return False


def _pf_names(one: Candidate, wanted: Sequence[str]) -> bool:
    return _of_pf(one, wanted, one.pf_names)


def _root_devices(one: Candidate, wanted: Sequence[str]) -> bool:
    return _of_pf(one, [entry.lower() for entry in wanted], (one.pf,) if one.pf else ())


def _of_pf(one: Candidate, wanted: Sequence[str], names: Iterable[str]) -> bool:
    """The first entry that names the PF counts, as upstream has it, with its list of indexes."""
    known = set(names)
    entry = next((entry for entry in wanted if entry.partition("#")[0] in known), None)
    if entry is None:
        return False
    indexes = _indexes(entry)
    return indexes is not None and ("#" not in entry or one.index in indexes)


def _indexes(entry: str) -> set[int] | None:
    """`ens1#0,2-3` → {0, 2, 3}; empty without `#`, None where it cannot be read."""
    _, hash_, listed = entry.partition("#")
    found: set[int] = set()
    for part in listed.split(",") if hash_ else ():
        match = _INDEXES.fullmatch(part.strip())
        if match is None:
            return None
        found.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return found


def _if_names(one: Candidate, wanted: Sequence[str]) -> bool:
    own = one.pf_names if one.index is None else ()
    return one.netdev in wanted or any(name in wanted for name in own)


_TESTS: dict[str, Test] = {
    "vendors": _vendors,
    "devices": _devices,
    "drivers": _drivers,
    "pci_addresses": _addresses,
    "acpi_indexes": _acpi,
    "aux_types": _types,
    "pf_names": _pf_names,
    "root_devices": _root_devices,
    "link_types": _links,
    "ddp_profiles": _never,
    "p_keys": _keys,
}
_SHARED_TESTS: dict[str, Test] = {
    "vendors": _vendors,
    "device_ids": _devices,
    "drivers": _drivers,
    "if_names": _if_names,
    "link_types": _links,
}
