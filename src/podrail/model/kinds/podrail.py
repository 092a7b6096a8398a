"""podrail.io/v1alpha1: what is podrail's own. A HostProfile tunes hosts, and only those asked."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from podrail.model.kinds.sriov import NonNegative, Positive
from podrail.model.wire import Object, Wire


def _read_request(size: int) -> int:
    """Max_Read_Request_Size is three bits that count from 128 (PCI Express 6.0, 7.5.3.4)."""
    if size not in (128, 256, 512, 1024, 2048, 4096):
        raise ValueError("128, 256, 512, 1024, 2048 or 4096")
    return size


class ProfileNicSelector(Wire):
    vendor: str | None = None
    device_id: str | None = Field(None, alias="deviceID")
    root_devices: list[str] | None = None
    pf_names: list[str] | None = None


class Roce(Wire):
    trust: Literal["dscp", "pcp"] | None = None
    priority: Annotated[int, Field(ge=0, le=7)] | None = None
    dscp: Annotated[int, Field(ge=0, le=63)] | None = None
    ecn: bool | None = None
    tos: Annotated[int, Field(ge=0, le=255)] | None = None


class Rings(Wire):
    rx: Positive | None = None
    tx: Positive | None = None


class Coalescing(Wire):
    adaptive_rx: bool | None = None
    adaptive_tx: bool | None = None
    rx_usecs: NonNegative | None = None
    rx_frames: NonNegative | None = None
    tx_usecs: NonNegative | None = None
    tx_frames: NonNegative | None = None


class Pcie(Wire):
    relaxed_ordering: bool | None = None
    max_read_request: Annotated[int, AfterValidator(_read_request)] | None = None


class Cpu(Wire):
    governor: Annotated[str, Field(pattern=r"^[a-z_]+$")] | None = None


class HostProfileSpec(Wire):
    node_selector: dict[str, str] | None = None
    nic_selector: ProfileNicSelector | None = None
    roce: Roce | None = None
    rings: Rings | None = None
    coalescing: Coalescing | None = None
    pcie: Pcie | None = None
    cpu: Cpu | None = None
    memlock: Literal["unlimited"] | None = None


class HostProfile(Object):
    spec: HostProfileSpec | None = None
    status: Any = None


KINDS: tuple[type[Object], ...] = (HostProfile,)
