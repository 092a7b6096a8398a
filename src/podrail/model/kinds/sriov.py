"""sriovnetwork.openshift.io/v1: what VFs there are and what networks they form."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from podrail.model.wire import Object, Open, Wire

NonNegative = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
LinkType = Literal["eth", "ETH", "ib", "IB"]
EswitchMode = Literal["legacy", "switchdev"]
OnOff = Literal["on", "off"]
LinkState = Literal["auto", "enable", "disable"]


class NicSelector(Wire):
    vendor: str | None = None
    device_id: str | None = Field(None, alias="deviceID")
    root_devices: list[str] | None = None
    pf_names: list[str] | None = None
    net_filter: str | None = None


class OvsBridge(Wire):
    datapath_type: str | None = None
    external_ids: dict[str, str] | None = Field(None, alias="externalIDs")
    other_config: dict[str, str] | None = None
    fail_mode: Literal["standalone", "secure"] | None = None


class OvsInterface(Wire):
    type: str | None = None
    options: dict[str, str] | None = None
    external_ids: dict[str, str] | None = Field(None, alias="externalIDs")
    other_config: dict[str, str] | None = None
    mtu_request: Positive | None = None


class OvsUplink(Wire):
    interface: OvsInterface | None = None


class Ovs(Wire):
    bridge: OvsBridge | None = None
    uplink: OvsUplink | None = None


class Bridge(Wire):
    ovs: Ovs | None = None


class PolicySpec(Wire):
    resource_name: str
    node_selector: dict[str, str]
    num_vfs: NonNegative
    nic_selector: NicSelector
    priority: Annotated[int, Field(ge=0, le=99)] | None = None
    mtu: Positive | None = None
    device_type: Literal["netdevice", "vfio-pci"] | None = None
    is_rdma: bool | None = None
    link_type: LinkType | None = None
    e_switch_mode: EswitchMode | None = Field(None, alias="eSwitchMode")
    vdpa_type: Literal["virtio", "vhost"] | None = None
    need_vhost_net: bool | None = None
    exclude_topology: bool | None = None
    externally_managed: bool | None = None
    bridge: Bridge | None = None


class SriovNetworkNodePolicy(Object):
    spec: PolicySpec
    status: Any = None


class VfGroup(Wire):
    resource_name: str | None = None
    device_type: str | None = None
    vf_range: str | None = None
    policy_name: str | None = None
    mtu: int | None = None
    is_rdma: bool | None = None
    vdpa_type: str | None = None


class StateInterface(Wire):
    pci_address: str
    num_vfs: int | None = None
    mtu: int | None = None
    name: str | None = None
    link_type: str | None = None
    e_switch_mode: str | None = Field(None, alias="eSwitchMode")
    vf_groups: list[VfGroup] | None = None
    externally_managed: bool | None = None


class StateVf(Wire):
    name: str | None = None
    mac: str | None = None
    assigned: str | None = None
    driver: str | None = None
    pci_address: str
    vendor: str | None = None
    device_id: str | None = Field(None, alias="deviceID")
    vlan: int | None = Field(None, alias="Vlan")
    mtu: int | None = None
    vf_id: int = Field(alias="vfID")
    vdpa_type: str | None = None
    representor_name: str | None = None
    guid: str | None = None


class StateInterfaceExt(Wire):
    name: str | None = None
    mac: str | None = None
    driver: str | None = None
    pci_address: str
    vendor: str | None = None
    device_id: str | None = Field(None, alias="deviceID")
    net_filter: str | None = None
    mtu: int | None = None
    num_vfs: int | None = None
    link_speed: str | None = None
    link_type: str | None = None
    link_admin_state: str | None = None
    e_switch_mode: str | None = Field(None, alias="eSwitchMode")
    externally_managed: bool | None = None
    totalvfs: int | None = Field(None, alias="totalvfs")
    vfs: list[StateVf] | None = Field(None, alias="Vfs")
    alt_names: list[str] | None = None


class System(Wire):
    rdma_mode: Literal["shared", "exclusive"] | None = None


class NodeStateSpec(Wire):
    interfaces: list[StateInterface] | None = None
    bridges: Any = None
    system: System | None = None


class NodeStateStatus(Open):
    interfaces: list[StateInterfaceExt] | None = None
    bridges: Any = None
    system: System | None = None
    sync_status: Literal["Succeeded", "Failed", "InProgress", ""] | None = None
    last_sync_error: str | None = None


class SriovNetworkNodeState(Object):
    spec: NodeStateSpec | None = None
    status: NodeStateStatus | None = None


class NetworkSpec(Wire):
    network_namespace: str | None = None
    resource_name: str
    capabilities: str | None = None
    ipam: str | None = Field(None, alias="ipam")
    vlan: Annotated[int, Field(ge=0, le=4094)] | None = None
    vlan_qos: Annotated[int, Field(ge=0, le=7)] | None = Field(None, alias="vlanQoS")
    vlan_proto: Literal["802.1q", "802.1Q", "802.1ad", "802.1AD"] | None = None
    spoof_chk: OnOff | None = None
    trust: OnOff | None = None
    link_state: LinkState | None = None
    min_tx_rate: NonNegative | None = None
    max_tx_rate: NonNegative | None = None
    meta_plugins: str | None = None
    log_level: Literal["panic", "error", "warning", "info", "debug", ""] | None = None
    log_file: str | None = None


class SriovNetwork(Object):
    spec: NetworkSpec
    status: Any = None


class IBNetworkSpec(Wire):
    network_namespace: str | None = None
    resource_name: str
    capabilities: str | None = None
    ipam: str | None = None
    link_state: LinkState | None = None
    meta_plugins: str | None = None


class SriovIBNetwork(Object):
    spec: IBNetworkSpec
    status: Any = None


class OperatorConfigSpec(Wire):
    config_daemon_node_selector: dict[str, str] | None = None
    enable_injector: bool | None = None
    enable_operator_webhook: bool | None = None
    log_level: Annotated[int, Field(ge=0, le=2)] | None = None
    disable_drain: bool | None = None
    enable_ovs_offload: bool | None = None
    configuration_mode: Literal["daemon", "systemd"] | None = None
    use_cdi: bool | None = Field(None, alias="useCDI")
    disable_plugins: list[Literal["mellanox"]] | None = None
    feature_gates: dict[str, bool] | None = None
    config_daemon_env_vars: dict[str, str] | None = None


class SriovOperatorConfig(Object):
    spec: OperatorConfigSpec | None = None
    status: Any = None


class LabelRequirement(Wire):
    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: list[str] | None = None


class LabelSelector(Wire):
    match_labels: dict[str, str] | None = None
    match_expressions: list[LabelRequirement] | None = None


class OvsOffload(Wire):
    name: str | None = None


class PoolConfigSpec(Wire):
    node_selector: LabelSelector | None = None
    max_unavailable: int | str | None = None
    rdma_mode: Literal["shared", "exclusive"] | None = None
    ovs_hardware_offload_config: OvsOffload | None = None


class SriovNetworkPoolConfig(Object):
    spec: PoolConfigSpec | None = None
    status: Any = None


KINDS: tuple[type[Object], ...] = (
    SriovNetworkNodePolicy,
    SriovNetworkNodeState,
    SriovNetwork,
    SriovIBNetwork,
    SriovOperatorConfig,
    SriovNetworkPoolConfig,
)
