"""The core and neighbouring kinds of which a rule reads a field or two."""

from __future__ import annotations

from typing import Any

from podrail.model.wire import Object, Open, OpenObject


class ConfigMap(OpenObject):
    data: dict[str, str] | None = None


class NfsVolume(Open):
    server: str
    path: str
    read_only: bool | None = None


class PersistentVolumeSpec(Open):
    mount_options: list[str] | None = None
    nfs: NfsVolume | None = None
    csi: Any = None
    access_modes: list[str] | None = None
    capacity: dict[str, Any] | None = None
    storage_class_name: str | None = None


class PersistentVolume(OpenObject):
    spec: PersistentVolumeSpec


class StorageClass(OpenObject):
    provisioner: str
    mount_options: list[str] | None = None
    parameters: dict[str, str] | None = None


class Namespace(OpenObject):
    pass


class ServiceAccount(OpenObject):
    pass


class SecurityContextConstraints(OpenObject):
    allowed_capabilities: list[str] | None = None
    default_add_capabilities: list[str] | None = None
    required_drop_capabilities: list[str] | None = None
    allow_host_dir_volume_plugin: bool | None = None
    allow_privileged_container: bool | None = None
    users: list[str] | None = None
    groups: list[str] | None = None
    volumes: list[str] | None = None


class RoleRef(Open):
    api_group: str | None = None
    kind: str
    name: str


class RoleSubject(Open):
    kind: str
    name: str
    namespace: str | None = None


class RoleBinding(OpenObject):
    role_ref: RoleRef
    subjects: list[RoleSubject] | None = None


CORE: tuple[type[Object], ...] = (ConfigMap, PersistentVolume, Namespace, ServiceAccount)
