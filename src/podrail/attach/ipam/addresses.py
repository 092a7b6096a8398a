"""Who gets which address: what every pool of addresses, on one machine or in a cluster, answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from podrail.attach.ipam.pool import Range


@dataclass(frozen=True, slots=True)
class Owner:
    """One interface of one sandbox."""

    container_id: str
    ifname: str
    pod_uid: str = ""
    pod: str = ""
    """`namespace/name`."""

    @property
    def identity(self) -> str:
        """What stays the same when the pod's sandbox is made anew; whereabouts knows the name only,
        which the next pod of a StatefulSet has too."""
        return self.pod_uid or self.pod or self.container_id

    @property
    def shown(self) -> str:
        return f"{self.pod or self.pod_uid or self.container_id} {self.ifname}"


@dataclass(frozen=True, slots=True)
class AddressRequest:
    """One address for one owner: of the first range that has one free, as in host-local's range
    set. Dual stack is two requests.

    Of the addresses in `static` the one that lies in a range's network is given instead, inside
    first … last or not; so does nv-ipam.
    """

    owner: Owner
    pools: tuple[Range, ...]
    static: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Lease:
    """An address somebody has."""

    owner: Owner
    address: str
    """With its prefix length: `10.0.0.5/24`."""
    gateway: str
    """Empty where there is none."""
    pool: str


class Addresses(Protocol):
    """A place leases are kept. An answer that came survives a crash."""

    def allocate(self, request: AddressRequest) -> Lease:
        """An address; the same again for an owner who has one. CniError where there is none."""

    def allocate_all(self, requests: Sequence[AddressRequest]) -> list[Lease]:
        """Several at once: all of them, or none and a CniError."""

    def release(self, owner: Owner) -> list[Lease]:
        """Give up all an owner has; of somebody unknown that is nothing."""

    def held(self, owner: Owner) -> list[Lease]:
        """What an owner has."""

    def leases(self) -> list[Lease]:
        """Everything that is given out."""

    def reclaim(self, alive: Callable[[Owner], bool]) -> list[Lease]:
        """Give up what belongs to owners who are no more. `alive` must look when it is asked: in a
        list made beforehand, a pod that came since would be missing."""
