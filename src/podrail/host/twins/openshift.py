"""What OpenShift puts on every node: RHCOS, and OVN-Kubernetes on the management port."""

from __future__ import annotations

from podrail.host.twins.parts import kubeconfig
from podrail.host.twins.spec import Route, Virtual

KERNEL = "5.14.0-427.50.1.el9_4.x86_64"
CMDLINE = (
    "BOOT_IMAGE=(hd0,gpt3)/boot/ostree/rhcos/vmlinuz-5.14.0-427.50.1.el9_4.x86_64 "
    "ignition.platform.id=metal ostree=/ostree/boot.1/rhcos/0 root=UUID=0f1d7d60 rw "
    "intel_iommu=on iommu=pt systemd.unified_cgroup_hierarchy=1"
)
BOOTLOADER = "rpm-ostree"
OS_RELEASE = (
    'NAME="Red Hat Enterprise Linux CoreOS"\nID="rhcos"\nID_LIKE="rhel fedora"\n'
    'VERSION="418.94.202501221927-0"\nVERSION_ID="4.18"\nVARIANT="CoreOS"\nVARIANT_ID=coreos\n'
    'PRETTY_NAME="Red Hat Enterprise Linux CoreOS 418.94.202501221927-0"\n'
    'OPENSHIFT_VERSION="4.18"\nRHEL_VERSION=9.4\nOSTREE_VERSION="418.94.202501221927-0"\n'
)
MODULES: dict[str, tuple[str, ...]] = {"i40e": (), "geneve": (), "openvswitch": ("geneve",)}


def virtual(mac: str, address: str) -> tuple[Virtual, ...]:
    """The netdevs of OVN-Kubernetes; the node's address sits on br-ex, not on the port."""
    return (
        Virtual("ovs-system", "openvswitch", "ce:1f:3a:00:01:01", up=False),
        Virtual("br-ex", "openvswitch", mac, addresses=(address, "169.254.169.2/29")),
        Virtual("br-int", "openvswitch", "ce:1f:3a:00:01:02", mtu=1400, up=False),
        Virtual(
            "ovn-k8s-mp0", "openvswitch", "0a:58:0a:80:02:02", 1400, addresses=("10.128.2.2/23",)
        ),
        Virtual("genev_sys_6081", "geneve", "ce:1f:3a:00:01:03", 65000, master="ovs-system"),
    )


def bridges(port: str, node: str) -> dict[str, tuple[str, ...]]:
    """Open vSwitch bridges and their ports."""
    return {
        "br-ex": (port, f"patch-br-ex_{node}-to-br-int"),
        "br-int": ("ovn-k8s-mp0", f"patch-br-int-to-br-ex_{node}"),
    }


def routes(gateway: str) -> tuple[Route, ...]:
    return (
        Route("default", "br-ex", gateway, "dhcp", 48),
        Route("10.128.0.0/14", "ovn-k8s-mp0", "10.128.2.1"),
        Route("172.30.0.0/16", "br-ex", "169.254.169.4"),
    )


# The internal name of the API: the installer puts it into every kubelet's kubeconfig, and the
# node's resolver answers it; it is in no file.
NAMES = {
    "api-int.roce.example.com": "10.0.0.5",
    "api-int.ib.example.com": "10.20.0.2",
}


def files(server: str) -> dict[str, str]:
    """`server` is the API by its address; the kubelet gets it by name."""
    for name, address in NAMES.items():
        server = server.replace(f"//{address}:", f"//{name}:")
    return {
        "/var/lib/kubelet/kubeconfig": kubeconfig(server),
        "/etc/kubernetes/kubelet.conf": "kind: KubeletConfiguration\n",
    }
