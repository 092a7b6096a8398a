"""type `static`: the addresses stand in the configuration, or the pod brings them.

As the plugin of that name has it: what the pod asks for through Multus replaces the configured
addresses, IP= and GATEWAY= of CNI_ARGS are added to them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from ipaddress import ip_interface
from typing import Any

from podrail.attach.ipam.facts import Facts, Pooled, routes_and_dns
from podrail.attach.ipam.fields import Fields, address, interface
from podrail.attach.result import Address, wrong


def static_plan(ipam: Mapping[str, Any], facts: Facts) -> Pooled:
    """The plan of a `static` configuration; CniError 7 where it holds no address."""
    asked = [_address(text, "config.runtimeConfig.ips") for text in facts.asked]
    fixed = tuple(asked or written(ipam, facts))
    if not fixed:
        raise wrong("ipam.addresses", None, "an address: list one, or let the pod ask with `ips`")
    routes, dns = routes_and_dns(ipam)
    return Pooled(facts.owner, fixed=fixed, routes=routes, dns=dns)


def written(ipam: Mapping[str, Any], facts: Facts) -> list[Address]:
    """`addresses` of the configuration and those of CNI_ARGS; whereabouts knows both too."""
    listed = [_listed(one) for one in Fields(ipam, "ipam").each("addresses")]
    listed += [_address(text, "CNI_ARGS IP") for text in _split(facts.args.get("IP", ""))]
    for text in _split(facts.args.get("GATEWAY", "")):
        listed = _with_gateway(listed, text)
    return listed


def _listed(one: Fields) -> Address:
    gateway = one.address("gateway")
    found = _address(one.text("address"), f"{one.where}.address")
    return replace(found, gateway=str(gateway) if gateway else "")


def _address(text: str, where: str) -> Address:
    ip, net = interface(text, where)
    return Address(f"{ip}/{net.prefixlen}")


def _with_gateway(listed: list[Address], text: str) -> list[Address]:
    gateway = address(text, "CNI_ARGS GATEWAY")
    return [
        replace(one, gateway=str(gateway)) if gateway in ip_interface(one.address).network else one
        for one in listed
    ]


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
