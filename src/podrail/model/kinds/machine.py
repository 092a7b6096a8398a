"""machineconfiguration.openshift.io/v1: what OpenShift writes onto a node's operating system."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from podrail.model.wire import Object, Open, OpenObject, Wire


class Dropin(Wire):
    name: str
    contents: str | None = None


class Unit(Wire):
    """A systemd unit as Ignition 3 spells it."""

    name: str
    enabled: bool | None = None
    mask: bool | None = None
    contents: str | None = None
    dropins: list[Dropin] | None = None


class Systemd(Wire):
    units: list[Unit] | None = None


class IgnitionVersion(Open):
    version: str


class IgnitionConfig(Wire):
    ignition: IgnitionVersion
    systemd: Systemd | None = None
    storage: Any = None
    passwd: Any = None
    kernel_arguments: Any = None


class MachineConfigSpec(Wire):
    config: IgnitionConfig | None = None
    kernel_arguments: list[str] | None = None
    kernel_type: Literal["", "default", "realtime", "64k-pages"] | None = None
    extensions: list[str] | None = None
    fips: bool | None = None
    os_image_url: str | None = Field(None, alias="osImageURL")
    base_os_extensions_container_image: str | None = Field(
        None, alias="baseOSExtensionsContainerImage"
    )


class MachineConfig(Object):
    spec: MachineConfigSpec | None = None


class MachineConfigPoolSpec(Open):
    machine_config_selector: Any = None
    node_selector: Any = None
    paused: bool | None = None
    max_unavailable: int | str | None = None


class MachineConfigPool(OpenObject):
    spec: MachineConfigPoolSpec | None = None


KINDS: tuple[type[Object], ...] = (MachineConfig, MachineConfigPool)
