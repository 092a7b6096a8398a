"""nv-ipam.nvidia.com/v1alpha1: address pools cut into a block for each node."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from podrail.model.wire import Object, Wire


class ExcludeRange(Wire):
    start_ip: str = Field(alias="startIP")
    end_ip: str = Field(alias="endIP")


class ExcludeIndexes(Wire):
    start_index: Annotated[int, Field(ge=0)]
    end_index: Annotated[int, Field(ge=0)]


class PoolRoute(Wire):
    dst: str


class IPPoolSpec(Wire):
    subnet: str
    per_node_block_size: Annotated[int, Field(ge=1)]
    gateway: str | None = None
    exclusions: list[ExcludeRange] | None = None
    per_node_exclusions: list[ExcludeIndexes] | None = None
    node_selector: Any = None
    default_gateway: bool | None = None
    routes: list[PoolRoute] | None = None


class IPPool(Object):
    spec: IPPoolSpec
    status: Any = None


class StaticAllocation(Wire):
    prefix: str
    node_name: str | None = None
    gateway: str | None = None


class CIDRPoolSpec(Wire):
    cidr: str
    per_node_network_prefix: Annotated[int, Field(ge=0, le=128)]
    gateway_index: int | None = None
    exclusions: list[ExcludeRange] | None = None
    per_node_exclusions: list[ExcludeIndexes] | None = None
    static_allocations: list[StaticAllocation] | None = None
    node_selector: Any = None
    default_gateway: bool | None = None
    routes: list[PoolRoute] | None = None


class CIDRPool(Object):
    spec: CIDRPoolSpec
    status: Any = None


KINDS: tuple[type[Object], ...] = (IPPool, CIDRPool)
