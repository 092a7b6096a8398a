"""nvidia.com/v1: NVIDIA's GPU Operator.

There is no `nfd` here: node feature discovery is a value of the Helm chart, never of the object.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from podrail.model.kinds.pod import Quantity
from podrail.model.wire import Object, Open, Wire


class GpuEnvVar(Wire):
    name: str
    value: str | None = None


class GpuResources(Wire):
    limits: dict[str, Quantity] | None = None
    requests: dict[str, Quantity] | None = None


class GpuImage(Wire):
    repository: str | None = None
    image: str | None = None
    version: str | None = None
    image_pull_policy: str | None = None
    image_pull_secrets: list[str] | None = None


class Component(GpuImage):
    """What the operator runs as a DaemonSet."""

    enabled: bool | None = None
    resources: GpuResources | None = None
    args: list[str] | None = None
    env: list[GpuEnvVar] | None = None
    host_network: bool | None = None


class OpenComponent(Open):
    enabled: bool | None = None


class Operator(Wire):
    default_runtime: Literal["docker", "crio", "containerd"] | None = None
    runtime_class: str | None = None
    init_container: GpuImage | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    use_ocp_driver_toolkit: bool | None = Field(None, alias="use_ocp_driver_toolkit")


class Daemonsets(Wire):
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    tolerations: list[Any] | None = None
    priority_class_name: str | None = None
    update_strategy: Literal["RollingUpdate", "OnDelete"] | None = None
    rolling_update: Any = None
    pod_security_context: Any = None


class GpuDirectRdma(Wire):
    enabled: bool | None = None
    use_host_mofed: bool | None = None


class DriverManager(GpuImage):
    env: list[GpuEnvVar] | None = None


class ConfigMapName(Wire):
    name: str | None = None


class RepoConfig(Wire):
    config_map_name: str | None = None


class Licensing(Wire):
    config_map_name: str | None = None
    secret_name: str | None = None
    nls_enabled: bool | None = None


class VirtualTopology(Wire):
    config: str | None = None


class Driver(Component):
    use_nvidia_driver_crd: bool | None = Field(None, alias="useNvidiaDriverCRD")
    use_precompiled: bool | None = None
    use_open_kernel_modules: bool | None = None
    kernel_module_type: Literal["auto", "open", "proprietary"] | None = None
    rdma: GpuDirectRdma | None = None
    startup_probe: Any = None
    liveness_probe: Any = None
    readiness_probe: Any = None
    upgrade_policy: Any = None
    manager: DriverManager | None = None
    repo_config: RepoConfig | None = None
    cert_config: ConfigMapName | None = None
    licensing_config: Licensing | None = None
    virtual_topology: VirtualTopology | None = None
    kernel_module_config: ConfigMapName | None = None
    secret_env: str | None = None


class Toolkit(Component):
    install_dir: str | None = None


class NamedConfig(Wire):
    name: str | None = None
    default: str | None = None


class GpuDevicePlugin(Component):
    config: NamedConfig | None = None
    mps: Any = None


class Dcgm(Component):
    host_port: int | None = None


class DcgmExporter(Component):
    config: ConfigMapName | None = None
    service_monitor: Any = None
    service: Any = None
    host_pid: bool | None = Field(None, alias="hostPID")
    hpc_job_mapping: Any = None
    pod_annotations: dict[str, str] | None = None
    pod_labels: dict[str, str] | None = None


class Mig(Wire):
    strategy: Literal["none", "single", "mixed"] | None = None


class MigManager(Component):
    config: NamedConfig | None = None
    gpu_clients_config: ConfigMapName | None = None


class ClusterPolicySpec(Wire):
    operator: Operator
    daemonsets: Daemonsets
    driver: Driver
    toolkit: Toolkit
    device_plugin: GpuDevicePlugin
    dcgm: Dcgm
    dcgm_exporter: DcgmExporter
    node_status_exporter: Component
    gfd: Component
    mig: Mig | None = None
    mig_manager: MigManager | None = None
    gds: Component | None = None
    gdrcopy: Component | None = None
    cdi: Any = None
    validator: Any = None
    psp: Any = None
    psa: Any = None
    sandbox_workloads: OpenComponent | None = None
    sandbox_device_plugin: OpenComponent | None = None
    vfio_manager: OpenComponent | None = None
    vgpu_manager: OpenComponent | None = None
    vgpu_device_manager: OpenComponent | None = None
    kata_manager: OpenComponent | None = None
    kata_sandbox_device_plugin: OpenComponent | None = None
    cc_manager: OpenComponent | None = None
    host_paths: Any = None


class ClusterPolicy(Object):
    spec: ClusterPolicySpec
    status: Any = None


KINDS: tuple[type[Object], ...] = (ClusterPolicy,)
