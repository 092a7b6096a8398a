"""The kubelet's messages, typed, and its methods by name.

The `_pb2` modules beside this one are generated (`python -m tools.protos`); nothing else imports
them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from google.protobuf.message import Message

from podrail.attach.deviceplugin.api.deviceplugin_pb2 import (
    AllocateRequest,
    AllocateResponse,
    CDIDevice,
    ContainerAllocateRequest,
    ContainerAllocateResponse,
    ContainerPreferredAllocationRequest,
    ContainerPreferredAllocationResponse,
    Device,
    DevicePluginOptions,
    DeviceSpec,
    Empty,
    ListAndWatchResponse,
    NUMANode,
    PreferredAllocationRequest,
    PreferredAllocationResponse,
    PreStartContainerRequest,
    PreStartContainerResponse,
    RegisterRequest,
    TopologyInfo,
)
from podrail.attach.deviceplugin.api.pluginregistration_pb2 import (
    InfoRequest,
    PluginInfo,
    RegistrationStatus,
    RegistrationStatusResponse,
)

__all__ = [
    "ALLOCATE",
    "DEVICE_PLUGIN",
    "GET_INFO",
    "GET_OPTIONS",
    "GET_PREFERRED",
    "HEALTHY",
    "LIST_AND_WATCH",
    "NOTIFY",
    "PRE_START",
    "REGISTER",
    "UNHEALTHY",
    "VERSION",
    "AllocateRequest",
    "AllocateResponse",
    "CDIDevice",
    "ContainerAllocateRequest",
    "ContainerAllocateResponse",
    "ContainerPreferredAllocationRequest",
    "ContainerPreferredAllocationResponse",
    "Device",
    "DevicePluginOptions",
    "DeviceSpec",
    "Empty",
    "InfoRequest",
    "ListAndWatchResponse",
    "Method",
    "NUMANode",
    "PluginInfo",
    "PreStartContainerRequest",
    "PreStartContainerResponse",
    "PreferredAllocationRequest",
    "PreferredAllocationResponse",
    "RegisterRequest",
    "RegistrationStatus",
    "RegistrationStatusResponse",
    "TopologyInfo",
]

VERSION = "v1beta1"
DEVICE_PLUGIN = "DevicePlugin"
HEALTHY, UNHEALTHY = "Healthy", "Unhealthy"

Q = TypeVar("Q", bound=Message)
A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class Method(Generic[Q, A]):
    """One method of a service; `A` of a streaming one is an iterator of `reply`."""

    service: str
    name: str
    request: type[Q]
    reply: type[Message]
    streams: bool = False

    @property
    def path(self) -> str:
        return f"/{self.service}/{self.name}"


_PLUGIN, _WATCHER = "v1beta1.DevicePlugin", "pluginregistration.Registration"

REGISTER: Method[RegisterRequest, Empty] = Method(
    "v1beta1.Registration", "Register", RegisterRequest, Empty
)
GET_OPTIONS: Method[Empty, DevicePluginOptions] = Method(
    _PLUGIN, "GetDevicePluginOptions", Empty, DevicePluginOptions
)
LIST_AND_WATCH: Method[Empty, Iterator[ListAndWatchResponse]] = Method(
    _PLUGIN, "ListAndWatch", Empty, ListAndWatchResponse, streams=True
)
GET_PREFERRED: Method[PreferredAllocationRequest, PreferredAllocationResponse] = Method(
    _PLUGIN, "GetPreferredAllocation", PreferredAllocationRequest, PreferredAllocationResponse
)
ALLOCATE: Method[AllocateRequest, AllocateResponse] = Method(
    _PLUGIN, "Allocate", AllocateRequest, AllocateResponse
)
PRE_START: Method[PreStartContainerRequest, PreStartContainerResponse] = Method(
    _PLUGIN, "PreStartContainer", PreStartContainerRequest, PreStartContainerResponse
)
GET_INFO: Method[InfoRequest, PluginInfo] = Method(_WATCHER, "GetInfo", InfoRequest, PluginInfo)
NOTIFY: Method[RegistrationStatus, RegistrationStatusResponse] = Method(
    _WATCHER, "NotifyRegistrationStatus", RegistrationStatus, RegistrationStatusResponse
)
