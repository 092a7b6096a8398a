"""A minimal valid object of every kind podrail knows, written as upstream's users write them."""

from __future__ import annotations

from podrail.model.bundle import Bundle, read
from podrail.model.finding import Finding, Where


def bundle(text: str) -> Bundle:
    return read([("m.yaml", text)])


def findings(text: str) -> list[tuple[str, str]]:
    """(id, path) of everything wrong."""
    return [(f.id, f.where.path if f.where else "") for f in bundle(text).findings]


def only(text: str) -> tuple[Finding, Where]:
    found = bundle(text).findings
    assert len(found) == 1, [f"{f.id}: {f.actual}" for f in found]
    assert found[0].where is not None
    return found[0], found[0].where


POLICY = """\
apiVersion: sriovnetwork.openshift.io/v1
kind: SriovNetworkNodePolicy
metadata:
  name: rail0
  namespace: openshift-sriov-network-operator
spec:
  resourceName: rail0
  nodeSelector:
    feature.node.kubernetes.io/pci-15b3.present: "true"
  numVfs: 8
  nicSelector:
    vendor: "15b3"
    deviceID: "1021"
    pfNames: ["ens8f0#0-3"]
  isRdma: true
"""

NODE_STATE = """\
apiVersion: sriovnetwork.openshift.io/v1
kind: SriovNetworkNodeState
metadata: {name: node-1}
spec:
  interfaces:
  - pciAddress: 0000:3c:00.0
    numVfs: 2
    vfGroups: [{resourceName: rail0, vfRange: 0-1, deviceType: netdevice}]
status:
  syncStatus: Succeeded
  interfaces:
  - pciAddress: 0000:3c:00.0
    totalvfs: 16
    Vfs: [{pciAddress: "0000:3c:00.2", vfID: 0, Vlan: 0}]
"""

NETWORK = """\
apiVersion: sriovnetwork.openshift.io/v1
kind: SriovNetwork
metadata: {name: rail0}
spec:
  resourceName: rail0
  networkNamespace: train
  trust: "on"
  ipam: |
    {
      "type": "whereabouts",
      "range": "192.168.100.0/24"
    }
"""

IB_NETWORK = """\
apiVersion: sriovnetwork.openshift.io/v1
kind: SriovIBNetwork
metadata: {name: ib0}
spec:
  resourceName: ib0
  capabilities: '{"infinibandGUID": true}'
  linkState: enable
"""

OPERATOR_CONFIG = """\
apiVersion: sriovnetwork.openshift.io/v1
kind: SriovOperatorConfig
metadata: {name: default}
spec: {enableInjector: true, useCDI: false, logLevel: 2}
"""

POOL_CONFIG = """\
apiVersion: sriovnetwork.openshift.io/v1
kind: SriovNetworkPoolConfig
metadata: {name: pool}
spec:
  maxUnavailable: 10%
  rdmaMode: exclusive
  nodeSelector: {matchLabels: {a: b}}
"""

HOST_PROFILE = """\
apiVersion: podrail.io/v1alpha1
kind: HostProfile
metadata: {name: roce}
spec:
  nodeSelector: {a: b}
  nicSelector: {pfNames: [ens8f0]}
  roce: {trust: dscp, priority: 3, dscp: 26}
  rings: {rx: 8192}
"""

NAD = """\
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata:
  name: rail0
  namespace: train
  annotations: {k8s.v1.cni.cncf.io/resourceName: nvidia.com/rail0}
spec:
  config: '{"cniVersion": "1.0.0", "name": "rail0", "type": "sriov", "ipam": {}}'
"""

NIC_CLUSTER_POLICY = """\
apiVersion: mellanox.com/v1alpha1
kind: NicClusterPolicy
metadata: {name: nic-cluster-policy}
spec:
  global: {repository: registry.example/nvidia, version: v1}
  ofedDriver:
    image: doca-driver
    repository: registry.example/nvidia
    version: "24.10-0.7.0.0-0"
    forcePrecompiled: false
    terminationGracePeriodSeconds: 300
    env: [{name: ENABLE_NFSRDMA, value: "true"}]
    startupProbe: {initialDelaySeconds: 10, periodSeconds: 20}
    upgradePolicy: {autoUpgrade: true, maxParallelUpgrades: 1, drain: {enable: true}}
  rdmaSharedDevicePlugin:
    image: k8s-rdma-shared-dev-plugin
    useCdi: true
    config: |
      {"configList": [{"resourceName": "shared", "rdmaHcaMax": 63}]}
  sriovDevicePlugin:
    image: sriov-network-device-plugin
    config: |
      {
        "resourceList": [
          {
            "resourceName": "rail0",
            "selectors": {"vendors": ["15b3"], "IsRdma": true}
          }
        ]
      }
  ibKubernetes:
    pKeyGUIDPoolRangeStart: "02:00:00:00:00:00:00:00"
    pKeyGUIDPoolRangeEnd: "02:FF:FF:FF:FF:FF:FF:FF"
    ufmSecret: ufm
  secondaryNetwork: {multus: {image: multus}, cniPlugins: {image: plugins}, ipoib: {image: ipoib}}
  nvIpam: {image: nvidia-k8s-ipam, enableWebhook: false}
  docaTelemetryService: {image: doca_telemetry, config: {fromConfigMap: telemetry}}
  nicConfigurationOperator: {operator: {image: op}, configurationDaemon: {image: d}, logLevel: info}
  spectrumXOperator: {image: spectrum-x-operator}
  tolerations: [{key: nvidia.com/gpu, operator: Exists}]
"""

NIC_NODE_POLICY = """\
apiVersion: mellanox.com/v1alpha1
kind: NicNodePolicy
metadata: {name: gpu-nodes}
spec:
  nodeSelector: {pool: gpu}
  ofedDriver: {image: doca-driver, repository: r, version: v1}
"""

MACVLAN = """\
apiVersion: mellanox.com/v1alpha1
kind: MacvlanNetwork
metadata: {name: macvlan}
spec: {networkNamespace: train, master: ens8f0, mode: bridge, mtu: 1500, ipam: "{}"}
"""

HOST_DEVICE = """\
apiVersion: mellanox.com/v1alpha1
kind: HostDeviceNetwork
metadata: {name: hostdev}
spec: {networkNamespace: train, resourceName: hostdev, ipam: "{}"}
"""

IPOIB = """\
apiVersion: mellanox.com/v1alpha1
kind: IPoIBNetwork
metadata: {name: ipoib}
spec: {networkNamespace: train, master: ibs1f0, ipam: "{}"}
"""

IP_POOL = """\
apiVersion: nv-ipam.nvidia.com/v1alpha1
kind: IPPool
metadata: {name: rail0, namespace: nvidia-network-operator}
spec:
  subnet: 192.168.0.0/16
  perNodeBlockSize: 32
  gateway: 192.168.0.1
  exclusions: [{startIP: 192.168.0.1, endIP: 192.168.0.9}]
  perNodeExclusions: [{startIndex: 0, endIndex: 1}]
  routes: [{dst: 10.0.0.0/8}]
"""

CIDR_POOL = """\
apiVersion: nv-ipam.nvidia.com/v1alpha1
kind: CIDRPool
metadata: {name: rail0}
spec:
  cidr: 192.168.0.0/16
  perNodeNetworkPrefix: 27
  gatewayIndex: 1
  staticAllocations: [{prefix: 192.168.1.0/27, nodeName: node-1}]
"""

CLUSTER_POLICY = """\
apiVersion: nvidia.com/v1
kind: ClusterPolicy
metadata: {name: gpu-cluster-policy}
spec:
  operator: {use_ocp_driver_toolkit: true, runtimeClass: nvidia}
  daemonsets: {updateStrategy: RollingUpdate, rollingUpdate: {maxUnavailable: "1"}}
  driver:
    enabled: true
    kernelModuleType: open
    useOpenKernelModules: true
    useNvidiaDriverCRD: false
    version: 570.86.15
    rdma: {enabled: true, useHostMofed: false}
    licensingConfig: {nlsEnabled: false, secretName: ""}
  toolkit: {enabled: true, installDir: /usr/local/nvidia}
  devicePlugin: {config: {name: plugin-config, default: any}}
  dcgm: {enabled: true}
  dcgmExporter: {config: {name: metrics}, serviceMonitor: {enabled: true}}
  nodeStatusExporter: {enabled: true}
  gfd: {enabled: true}
  gds: {enabled: true}
  gdrcopy: {enabled: true}
  mig: {strategy: single}
  migManager: {enabled: true, config: {name: default-mig-parted-config, default: all-disabled}}
  sandboxWorkloads: {enabled: false, defaultWorkload: container}
  kataSandboxDevicePlugin: {enabled: true}
"""

MACHINE_CONFIG = """\
apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfig
metadata:
  name: 99-worker-rdma
  labels: {machineconfiguration.openshift.io/role: worker}
spec:
  config:
    ignition: {version: 3.2.0}
    systemd:
      units:
      - name: rdma.service
        enabled: true
        contents: |
          [Unit]
          Description=RDMA
        dropins: [{name: 10-a.conf, contents: x}]
    storage: {files: [{path: /etc/a, contents: {source: "data:,"}}]}
  kernelArguments: [intel_iommu=on, iommu=pt]
  kernelType: realtime
  extensions: [kernel-devel]
  fips: false
  osImageURL: ""
"""

MACHINE_CONFIG_POOL = """\
apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfigPool
metadata: {name: gpu}
spec:
  machineConfigSelector: {matchLabels: {a: b}}
  nodeSelector: {matchLabels: {node-role.kubernetes.io/gpu: ""}}
  paused: false
"""

POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: train
  namespace: ml
  annotations:
    k8s.v1.cni.cncf.io/networks: rail0
spec:
  hostIPC: false
  securityContext: {runAsNonRoot: true, seLinuxOptions: {level: s0}}
  containers:
  - name: app
    image: registry.example/app:1
    securityContext: {runAsUser: 1000, capabilities: {add: [IPC_LOCK]}}
    resources:
      limits: {nvidia.com/gpu: 8, nvidia.com/rail0: "1", memory: 64Gi, cpu: 0.5}
    env: [{name: NCCL_DEBUG, value: INFO}]
    volumeMounts: [{name: shm, mountPath: /dev/shm}]
  volumes:
  - {name: shm, emptyDir: {medium: Memory, sizeLimit: 16Gi}}
  - {name: host, hostPath: {path: /dev/infiniband}}
  - {name: info, downwardAPI: {items: []}}
"""


def workload(kind: str) -> str:
    return f"""\
apiVersion: apps/v1
kind: {kind}
metadata: {{name: app}}
spec:
  replicas: 3
  selector: {{matchLabels: {{app: a}}}}
  template:
    metadata: {{annotations: {{k8s.v1.cni.cncf.io/networks: rail0}}}}
    spec:
      containers: [{{name: a, image: b}}]
"""


JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {name: job}
spec:
  parallelism: 4
  template:
    spec: {restartPolicy: Never, containers: [{name: a, image: b}]}
"""

CRON_JOB = """\
apiVersion: batch/v1
kind: CronJob
metadata: {name: cron}
spec:
  schedule: "0 4 * * *"
  jobTemplate:
    spec:
      template:
        spec: {containers: [{name: a, image: b}]}
"""

CONFIG_MAP = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: metrics}
data: {dcgm-metrics.csv: "a, b"}
"""

PERSISTENT_VOLUME = """\
apiVersion: v1
kind: PersistentVolume
metadata: {name: data}
spec:
  capacity: {storage: 1Ti}
  accessModes: [ReadWriteMany]
  mountOptions: [proto=rdma, port=20049]
  nfs: {server: 10.0.0.1, path: /export}
"""

STORAGE_CLASS = """\
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: nfs}
provisioner: nfs.csi.k8s.io
mountOptions: [rdma]
parameters: {server: 10.0.0.1}
"""

NAMESPACE = "apiVersion: v1\nkind: Namespace\nmetadata: {name: train}\n"
SERVICE_ACCOUNT = "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: rdma}\n"

SCC = """\
apiVersion: security.openshift.io/v1
kind: SecurityContextConstraints
metadata: {name: rdma}
allowedCapabilities: [IPC_LOCK]
allowHostDirVolumePlugin: false
users: ["system:serviceaccount:train:rdma"]
volumes: [emptyDir]
"""

ROLE_BINDING = """\
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: rdma}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: scc-rdma}
subjects: [{kind: ServiceAccount, name: rdma, namespace: train}]
"""

ALL = (
    POLICY, NODE_STATE, NETWORK, IB_NETWORK, OPERATOR_CONFIG, POOL_CONFIG, NAD, HOST_PROFILE,
    NIC_CLUSTER_POLICY, NIC_NODE_POLICY, MACVLAN, HOST_DEVICE, IPOIB, IP_POOL, CIDR_POOL,
    CLUSTER_POLICY, MACHINE_CONFIG, MACHINE_CONFIG_POOL, POD, workload("Deployment"),
    workload("StatefulSet"), workload("DaemonSet"), workload("ReplicaSet"), JOB, CRON_JOB,
    CONFIG_MAP, PERSISTENT_VOLUME, STORAGE_CLASS, NAMESPACE, SERVICE_ACCOUNT, SCC, ROLE_BINDING,
)  # fmt: skip
