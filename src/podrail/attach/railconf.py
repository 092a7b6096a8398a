"""What one rail is to be, as its network's configuration says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from podrail.attach.result import Result


@dataclass(frozen=True, slots=True)
class Bandwidth:
    """The `bandwidth` capability: bits per second, and bits."""

    ingress_rate: int | None = None
    ingress_burst: int | None = None
    egress_rate: int | None = None
    egress_burst: int | None = None


@dataclass(frozen=True, slots=True)
class Ipam:
    """Which addresses; `config` is read by whoever serves that type."""

    type: str = ""
    config: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Attachment:
    """One attachment that a GC is to leave alone."""

    container_id: str
    ifname: str


@dataclass(frozen=True, slots=True)
class RailConf:
    """What one rail is to be. None is: leave it as it is."""

    type: str
    name: str
    device: str | None = None
    """PCI address; None on a DEL without one, and where `rdma` has to find it by its interface."""
    vlan: int | None = None
    vlan_qos: int = 0
    vlan_proto: str = "802.1q"
    mac: str | None = None
    min_tx_rate: int | None = None
    max_tx_rate: int | None = None
    spoofchk: bool | None = None
    trust: bool | None = None
    link_state: str | None = None
    mtu: int | None = None
    guid: str | None = None
    pkey: int | None = None
    rdma_isolation: bool = False
    ib_kubernetes: bool = False
    vfio: bool = False
    rdma_name: str | None = None
    ips: tuple[str, ...] = ()
    """Addresses asked for, with or without a prefix."""
    device_info: str | None = None
    """The file network-status is filled from."""
    bandwidth: Bandwidth | None = None
    ipam: Ipam = field(default_factory=Ipam)
    prev: Result | None = None
    log_level: str | None = None
    log_file: str | None = None
    """Noted and never opened: it would be root writing where a NAD's author says."""
    ignored: tuple[str, ...] = ()
    """Keys that nothing acts on."""
    problems: tuple[str, ...] = ()
    """What was wrong, where a DEL went on without it."""
