"""Which of the ways to addresses an `ipam` object means."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from podrail.attach.ipam.addresses import Addresses
from podrail.attach.ipam.delegate import Delegated
from podrail.attach.ipam.facts import Facts, Plan, Pooled
from podrail.attach.ipam.fields import Fields
from podrail.attach.ipam.nvipam import nvipam_plan
from podrail.attach.ipam.static import static_plan
from podrail.attach.ipam.whereabouts import whereabouts_plan
from podrail.attach.result import wrong

_OURS: dict[str, Callable[[Mapping[str, Any], Facts], Plan]] = {
    "whereabouts": whereabouts_plan,
    "nv-ipam": nvipam_plan,
    "static": static_plan,
}
_INSTALLED = ("host-local", "dhcp")


def plan_addresses(ipam: object, facts: Facts) -> Plan:
    """How to serve an `ipam` object; without one, or without a type in it, nothing is to be had."""
    kind = _type(ipam)
    if not kind:
        return Pooled(facts.owner)
    if kind in _INSTALLED:
        return Delegated(kind, facts)
    if kind not in _OURS:
        raise wrong("ipam.type", kind, f"one of {', '.join(sorted([*_OURS, *_INSTALLED]))}")
    assert isinstance(ipam, Mapping)
    return _OURS[kind](ipam, facts)


def forget_addresses(ipam: object, facts: Facts, addresses: Addresses) -> None:
    """Give up whatever an owner has: for DEL, which must not fail because somebody has since
    broken the configuration or taken the pool away."""
    addresses.release(facts.owner)
    if isinstance(ipam, Mapping) and ipam.get("type") in _INSTALLED:
        Delegated(str(ipam["type"]), facts).remove(addresses)


def _type(ipam: object) -> str:
    return "" if ipam is None else Fields(ipam, "ipam").text("type")
