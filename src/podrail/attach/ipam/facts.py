"""What a CNI request tells about itself that addresses depend on, and the shape of a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from podrail.attach.ipam.addresses import Addresses, AddressRequest, Lease, Owner
from podrail.attach.ipam.fields import Fields, address
from podrail.attach.ipam.pool import Range
from podrail.attach.request import Request
from podrail.attach.result import Address, CniError, Code, Dns, Result, Route, parse, wrong
from podrail.model.kinds.nvipam import CIDRPool, IPPool


@dataclass(frozen=True, slots=True)
class Facts:
    """One request."""

    owner: Owner
    config: Mapping[str, Any]
    """The whole network configuration, as it came on stdin."""
    args: Mapping[str, str] = field(default_factory=dict)
    """CNI_ARGS."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """The CNI_* variables, for plugins that are run."""
    node: str = ""
    node_index: int | None = None
    """Which block of an nv-ipam pool is this node's, where the pool itself does not say."""
    pools: Sequence[IPPool | CIDRPool] = ()

    @property
    def network(self) -> str:
        name = self.config.get("name")
        return name if isinstance(name, str) else ""

    @property
    def asked(self) -> list[str]:
        """The addresses the pod named through Multus: `runtimeConfig.ips`, else `args.cni.ips`."""
        config = Fields(self.config, "config")
        return config.inside("runtimeConfig").texts("ips") or self.cni_args.texts("ips")

    @property
    def cni_args(self) -> Fields:
        return Fields(self.config, "config").inside("args").inside("cni")


def facts_of(
    request: Request, *, node: str = "", node_index: int | None = None,
    pools: Sequence[IPPool | CIDRPool] = (),
) -> Facts:  # fmt: skip
    """The facts of a request that was read."""
    return Facts(
        owner_of(request), request.config, request.args, _environment(request), node, node_index,
        pools,
    )  # fmt: skip


def owner_of(request: Request) -> Owner:
    """Whose addresses they are: the kubelet's names for the pod stand in CNI_ARGS."""
    args = request.args
    space, name = args.get("K8S_POD_NAMESPACE", ""), args.get("K8S_POD_NAME", "")
    pod = f"{space}/{name}" if space and name else ""
    return Owner(request.container_id, request.ifname, args.get("K8S_POD_UID", ""), pod)


def _environment(request: Request) -> dict[str, str]:
    return {
        "CNI_COMMAND": request.command,
        "CNI_CONTAINERID": request.container_id,
        "CNI_NETNS": request.netns,
        "CNI_IFNAME": request.ifname,
        "CNI_ARGS": ";".join(f"{key}={value}" for key, value in request.args.items()),
        "CNI_PATH": ":".join(request.path),
    }


class Plan(Protocol):
    """How the addresses of one interface are had, given up and looked after."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What in the configuration has no effect here, and why."""

    def add(self, addresses: Addresses) -> Result:
        """Have them: `ips`, `routes` and `dns` of the result. Once more gives the same."""

    def remove(self, addresses: Addresses) -> None:
        """Give them up; also when there are none."""

    def check(self, addresses: Addresses) -> None:
        """CniError where they are no longer had."""


@dataclass(frozen=True, slots=True)
class Pooled:
    """Addresses from our own leases, and some that are simply written down."""

    owner: Owner
    requests: tuple[AddressRequest, ...] = ()
    fixed: tuple[Address, ...] = ()
    routes: tuple[Route, ...] = ()
    dns: Dns = field(default_factory=Dns)
    notes: tuple[str, ...] = ()

    def add(self, addresses: Addresses) -> Result:
        leases = addresses.allocate_all(self.requests) if self.requests else []
        ips = (Address(lease.address, lease.gateway) for lease in leases)
        return Result(ips=(*ips, *self.fixed), routes=self.routes, dns=self.dns)

    def remove(self, addresses: Addresses) -> None:
        addresses.release(self.owner)

    def check(self, addresses: Addresses) -> None:
        held = addresses.held(self.owner) if self.requests else []
        for request in self.requests:
            names = {range_.name for range_ in request.pools}
            if not any(lease.pool in names for lease in held):
                raise _lost(self.owner, request, held)


def _lost(owner: Owner, request: AddressRequest, held: Sequence[Lease]) -> CniError:
    has = ", ".join(lease.address for lease in held) or "none"
    return CniError(
        Code.REFUSED,
        f"{owner.shown} has no address of pool {request.pools[0].name} any more (it has {has}): "
        "restart the pod, somebody else may get its address",
    )


def routes_and_dns(ipam: Mapping[str, Any]) -> tuple[tuple[Route, ...], Dns]:
    """The routes and resolver settings an `ipam` object carries."""
    carried = {key: ipam[key] for key in ("routes", "dns") if key in ipam}
    found = parse(carried, "ipam")
    return found.routes, found.dns


def spread(facts: Facts, asked: Sequence[str], ranges: Sequence[Range]) -> list[AddressRequest]:
    """A request for every range. Each takes one of the addresses the pod asked for, if any is in
    its network; one that no range takes is an error, as in nv-ipam."""
    left = {
        text: address(text.partition("/")[0].strip(), "the address asked for") for text in asked
    }
    requests = []
    for range_ in ranges:
        mine = next((text for text, ip in left.items() if ip in range_.network), None)
        static = () if mine is None else (str(left.pop(mine)),)
        requests.append(AddressRequest(facts.owner, (range_,), static))
    for text in left:
        nets = ", ".join(str(range_.network) for range_ in ranges)
        raise wrong("the address asked for", text, f"one address of each of {nets}")
    return requests
