"""core/v1 Pod and what carries a pod template.

Every field name of the core API stands here, so that a key that belongs elsewhere is seen; fields
podrail never reads are `Any`.
"""

from __future__ import annotations

from typing import Any

from pydantic import Field

from podrail.model.wire import Object, Open, OpenObject, Wire

Quantity = int | float | str


class EnvVar(Wire):
    name: str
    value: str | None = None
    value_from: Any = None


class ResourceRequirements(Wire):
    limits: dict[str, Quantity] | None = None
    requests: dict[str, Quantity] | None = None
    claims: list[Any] | None = None


class Capabilities(Wire):
    add: list[str] | None = None
    drop: list[str] | None = None


class SecurityContext(Wire):
    capabilities: Capabilities | None = None
    privileged: bool | None = None
    run_as_user: int | None = None
    run_as_group: int | None = None
    run_as_non_root: bool | None = None
    read_only_root_filesystem: bool | None = None
    allow_privilege_escalation: bool | None = None
    proc_mount: str | None = None
    se_linux_options: Any = Field(None, alias="seLinuxOptions")
    windows_options: Any = None
    seccomp_profile: Any = None
    app_armor_profile: Any = None


class PodSecurityContext(Wire):
    run_as_user: int | None = None
    run_as_group: int | None = None
    run_as_non_root: bool | None = None
    fs_group: int | None = None
    fs_group_change_policy: str | None = None
    supplemental_groups: list[int] | None = None
    supplemental_groups_policy: str | None = None
    sysctls: list[Any] | None = None
    se_linux_options: Any = Field(None, alias="seLinuxOptions")
    se_linux_change_policy: str | None = Field(None, alias="seLinuxChangePolicy")
    windows_options: Any = None
    seccomp_profile: Any = None
    app_armor_profile: Any = None


class VolumeMount(Wire):
    name: str
    mount_path: str
    read_only: bool | None = None
    recursive_read_only: str | None = None
    sub_path: str | None = None
    sub_path_expr: str | None = None
    mount_propagation: str | None = None


class HostPath(Wire):
    path: str
    type: str | None = None


class EmptyDir(Wire):
    medium: str | None = None
    size_limit: Quantity | None = None


class NfsSource(Wire):
    server: str
    path: str
    read_only: bool | None = None


class ClaimSource(Wire):
    claim_name: str
    read_only: bool | None = None


class Volume(Wire):
    name: str
    host_path: HostPath | None = None
    empty_dir: EmptyDir | None = None
    nfs: NfsSource | None = None
    persistent_volume_claim: ClaimSource | None = None
    config_map: Any = None
    secret: Any = None
    projected: Any = None
    csi: Any = None
    ephemeral: Any = None
    image: Any = None
    downward_api: Any = Field(None, alias="downwardAPI")
    aws_elastic_block_store: Any = None
    azure_disk: Any = None
    azure_file: Any = None
    cephfs: Any = None
    cinder: Any = None
    fc: Any = None
    flex_volume: Any = None
    flocker: Any = None
    gce_persistent_disk: Any = None
    git_repo: Any = None
    glusterfs: Any = None
    iscsi: Any = None
    photon_persistent_disk: Any = None
    portworx_volume: Any = None
    quobyte: Any = None
    rbd: Any = None
    scale_io: Any = Field(None, alias="scaleIO")
    storageos: Any = None
    vsphere_volume: Any = None


class Container(Wire):
    name: str
    image: str | None = None
    command: list[str] | None = None
    args: list[str] | None = None
    env: list[EnvVar] | None = None
    resources: ResourceRequirements | None = None
    security_context: SecurityContext | None = None
    volume_mounts: list[VolumeMount] | None = None
    volume_devices: list[Any] | None = None
    ports: list[Any] | None = None
    env_from: list[Any] | None = None
    working_dir: str | None = None
    image_pull_policy: str | None = None
    restart_policy: str | None = None
    restart_policy_rules: list[Any] | None = None
    resize_policy: list[Any] | None = None
    lifecycle: Any = None
    liveness_probe: Any = None
    readiness_probe: Any = None
    startup_probe: Any = None
    termination_message_path: str | None = None
    termination_message_policy: str | None = None
    stdin: bool | None = None
    stdin_once: bool | None = None
    tty: bool | None = None


class EphemeralContainer(Container):
    target_container_name: str | None = None


class PodSpec(Wire):
    containers: list[Container]
    init_containers: list[Container] | None = None
    ephemeral_containers: list[EphemeralContainer] | None = None
    volumes: list[Volume] | None = None
    node_selector: dict[str, str] | None = None
    node_name: str | None = None
    affinity: Any = None
    tolerations: list[Any] | None = None
    topology_spread_constraints: list[Any] | None = None
    security_context: PodSecurityContext | None = None
    service_account_name: str | None = None
    service_account: str | None = None
    automount_service_account_token: bool | None = None
    host_network: bool | None = None
    host_pid: bool | None = Field(None, alias="hostPID")
    host_ipc: bool | None = Field(None, alias="hostIPC")
    host_users: bool | None = None
    share_process_namespace: bool | None = None
    resources: ResourceRequirements | None = None
    resource_claims: list[Any] | None = None
    restart_policy: str | None = None
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None
    dns_policy: str | None = None
    dns_config: Any = None
    image_pull_secrets: list[Any] | None = None
    hostname: str | None = None
    hostname_override: str | None = None
    subdomain: str | None = None
    set_hostname_as_fqdn: bool | None = Field(None, alias="setHostnameAsFQDN")
    host_aliases: list[Any] | None = None
    scheduler_name: str | None = None
    scheduling_gates: list[Any] | None = None
    scheduling_group: Any = None
    workload_ref: Any = None
    priority: int | None = None
    priority_class_name: str | None = None
    preemption_policy: str | None = None
    readiness_gates: list[Any] | None = None
    runtime_class_name: str | None = None
    enable_service_links: bool | None = None
    overhead: Any = None
    os: Any = None


class Pod(Object):
    spec: PodSpec
    status: Any = None


class TemplateMetadata(Open):
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class PodTemplate(Wire):
    metadata: TemplateMetadata | None = None
    spec: PodSpec


class WorkloadSpec(Open):
    replicas: int | None = None
    template: PodTemplate


class Deployment(OpenObject):
    spec: WorkloadSpec


class StatefulSet(OpenObject):
    spec: WorkloadSpec


class DaemonSet(OpenObject):
    spec: WorkloadSpec


class ReplicaSet(OpenObject):
    spec: WorkloadSpec


class JobSpec(Open):
    parallelism: int | None = None
    completions: int | None = None
    template: PodTemplate


class Job(OpenObject):
    spec: JobSpec


class JobTemplate(Open):
    spec: JobSpec


class CronJobSpec(Open):
    schedule: str | None = None
    job_template: JobTemplate


class CronJob(OpenObject):
    spec: CronJobSpec


CORE: tuple[type[Object], ...] = (Pod,)
APPS: tuple[type[Object], ...] = (Deployment, StatefulSet, DaemonSet, ReplicaSet)
BATCH: tuple[type[Object], ...] = (Job, CronJob)
