"""What an Ubuntu 22.04 node of a vanilla cluster has."""

from __future__ import annotations

from podrail.host.twins.parts import kubeconfig
from podrail.host.twins.spec import Process

KERNEL = "5.15.0-130-generic"
BOOTLOADER = "update-grub"
OS_RELEASE = (
    'PRETTY_NAME="Ubuntu 22.04.5 LTS"\nNAME="Ubuntu"\nVERSION_ID="22.04"\n'
    'VERSION="22.04.5 LTS (Jammy Jellyfish)"\nVERSION_CODENAME=jammy\nID=ubuntu\nID_LIKE=debian\n'
)
PROCESSES = (
    Process(1, "systemd", "8388608"),
    Process(1820, "containerd"),
    Process(2044, "kubelet", "8388608"),
)


def cmdline(iommu: str) -> str:
    return (
        f"BOOT_IMAGE=/boot/vmlinuz-{KERNEL} root=/dev/mapper/ubuntu--vg-root ro {iommu} "
        "pci=realloc=off numa_balancing=disable"
    )


def files(server: str) -> dict[str, str]:
    return {"/etc/kubernetes/kubelet.conf": kubeconfig(server)}
