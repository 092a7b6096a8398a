"""mellanox.com/v1alpha1: NVIDIA's Network Operator."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from podrail.model.kinds.pod import EnvVar, Quantity
from podrail.model.wire import Object, Wire

NonNegative = Annotated[int, Field(ge=0)]


class NamedResources(Wire):
    name: str
    limits: dict[str, Quantity] | None = None
    requests: dict[str, Quantity] | None = None


class Image(Wire):
    """Optional here because `spec.global` can supply repository and version."""

    image: str | None = None
    repository: str | None = None
    version: str | None = None
    image_pull_secrets: list[str] | None = None
    container_resources: list[NamedResources] | None = None


class Probe(Wire):
    initial_delay_seconds: int
    period_seconds: int
    failure_threshold: int | None = None
    timeout_seconds: int | None = None


class NameReference(Wire):
    name: str | None = None


class WaitForCompletion(Wire):
    pod_selector: str | None = None
    timeout_seconds: NonNegative | None = None


class Drain(Wire):
    enable: bool | None = None
    force: bool | None = None
    pod_selector: str | None = None
    timeout_seconds: NonNegative | None = None
    delete_empty_dir: bool | None = None


class UpgradePolicy(Wire):
    auto_upgrade: bool | None = None
    max_parallel_upgrades: NonNegative | None = None
    wait_for_completion: WaitForCompletion | None = None
    drain: Drain | None = None
    safe_load: bool | None = None


class OfedDriver(Image):
    env: list[EnvVar] | None = None
    startup_probe: Probe | None = None
    liveness_probe: Probe | None = None
    readiness_probe: Probe | None = None
    upgrade_policy: UpgradePolicy | None = None
    cert_config: NameReference | None = None
    repo_config: NameReference | None = None
    termination_grace_period_seconds: NonNegative | None = None
    force_precompiled: bool | None = None


class DevicePlugin(Image):
    config: str | None = None
    use_cdi: bool | None = None


class IbKubernetes(Image):
    periodic_update_seconds: NonNegative | None = None
    pkey_guid_pool_range_start: str | None = Field(None, alias="pKeyGUIDPoolRangeStart")
    pkey_guid_pool_range_end: str | None = Field(None, alias="pKeyGUIDPoolRangeEnd")
    ufm_secret: str | None = None


class Multus(Image):
    config: str | None = None


class SecondaryNetwork(Wire):
    multus: Multus | None = None
    cni_plugins: Image | None = None
    ipoib: Image | None = None
    ipam_plugin: Any = None
    """Until 25.7, for whereabouts."""


class NvIpam(Image):
    enable_webhook: bool | None = None


class TelemetryConfig(Wire):
    from_config_map: str | None = None


class DocaTelemetry(Image):
    config: TelemetryConfig | None = None


class FirmwareStorage(Wire):
    create: bool | None = None
    pvc_name: str | None = None
    storage_class_name: str | None = None
    available_storage_size: str | None = None


class NicConfigurationOperator(Wire):
    operator: Image | None = None
    configuration_daemon: Image | None = None
    env: list[EnvVar] | None = None
    nic_firmware_storage: FirmwareStorage | None = None
    log_level: Literal["info", "debug"] | None = None


class SpectrumXOperator(Image):
    x_plane: Any = Field(None, alias="xPlane")


class Global(Wire):
    repository: str | None = None
    version: str | None = None
    image_pull_secrets: list[str] | None = None


class NicClusterPolicySpec(Wire):
    ofed_driver: OfedDriver | None = None
    rdma_shared_device_plugin: DevicePlugin | None = None
    sriov_device_plugin: DevicePlugin | None = None
    ib_kubernetes: IbKubernetes | None = None
    secondary_network: SecondaryNetwork | None = None
    nv_ipam: NvIpam | None = None
    nic_feature_discovery: Image | None = None
    doca_telemetry_service: DocaTelemetry | None = None
    nic_configuration_operator: NicConfigurationOperator | None = None
    spectrum_x_operator: SpectrumXOperator | None = None
    psp: Any = None
    """Until 23.10: Kubernetes 1.25 dropped PodSecurityPolicy."""
    node_affinity: Any = None
    tolerations: list[Any] | None = None
    deployment_node_affinity: Any = None
    deployment_tolerations: list[Any] | None = None
    global_: Global | None = Field(None, alias="global")


class NicClusterPolicy(Object):
    spec: NicClusterPolicySpec | None = None
    status: Any = None


class NicNodePolicySpec(Wire):
    ofed_driver: OfedDriver | None = None
    rdma_shared_device_plugin: DevicePlugin | None = None
    sriov_device_plugin: DevicePlugin | None = None
    node_selector: dict[str, str] | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    tolerations: list[Any] | None = None


class NicNodePolicy(Object):
    spec: NicNodePolicySpec | None = None
    status: Any = None


class MacvlanSpec(Wire):
    network_namespace: str | None = None
    master: str | None = None
    mode: Literal["bridge", "private", "vepa", "passthru"] | None = None
    mtu: NonNegative | None = None
    ipam: str | None = None
    meta_plugins: str | None = None


class MacvlanNetwork(Object):
    spec: MacvlanSpec | None = None
    status: Any = None


class HostDeviceSpec(Wire):
    network_namespace: str | None = None
    resource_name: str | None = None
    ipam: str | None = None
    meta_plugins: str | None = None


class HostDeviceNetwork(Object):
    spec: HostDeviceSpec | None = None
    status: Any = None


class IPoIBSpec(Wire):
    network_namespace: str | None = None
    master: str | None = None
    ipam: str | None = None


class IPoIBNetwork(Object):
    spec: IPoIBSpec | None = None
    status: Any = None


KINDS: tuple[type[Object], ...] = (
    NicClusterPolicy,
    NicNodePolicy,
    MacvlanNetwork,
    HostDeviceNetwork,
    IPoIBNetwork,
)
