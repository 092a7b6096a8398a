"""Owners, pools and requests to test with."""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from typing import Any

from podrail.attach.ipam.addresses import AddressRequest, Owner
from podrail.attach.ipam.facts import Facts
from podrail.attach.ipam.pool import Range, whole

POD = {"K8S_POD_NAMESPACE": "train", "K8S_POD_NAME": "a", "K8S_POD_UID": "uid-a"}


def owner(number: int | str = 0, ifname: str = "net1") -> Owner:
    return Owner(f"c{number}", ifname, f"uid-{number}", f"train/pod-{number}")


def pool(network: str = "10.0.0.0/24", name: str = "", **more: Any) -> Range:
    for key in ("first", "last", "gateway"):
        if key in more:
            more[key] = ip_address(more[key])
    more["exclusions"] = [(ip_address(a), ip_address(b)) for a, b in more.get("exclusions", ())]
    return whole(ip_network(network), name or network, **more)


def ask(number: int | str = 0, *pools: Range, static: tuple[str, ...] = ()) -> AddressRequest:
    return AddressRequest(owner(number), pools or (pool(),), static)


def facts(
    ipam: object = None, *, args: dict[str, str] | None = None, **more: Any
) -> Facts:  # fmt: skip
    config = {"cniVersion": "1.0.0", "name": "rail0", "type": "podrail", "ipam": ipam}
    config |= more.pop("config", {})
    return Facts(owner(), config, args or {}, **more)
