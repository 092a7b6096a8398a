"""The machine: platform, IOMMU, limits, modules, mounts, labels."""

from __future__ import annotations

import errno

import pytest

from podrail.host.memory import MemoryHost
from podrail.inventory import discover
from podrail.model.inventory import Mount, Node
from tests.inventory.machines import bare, function, lab_text, lab_vm

SECURE_BOOT = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
NFD = "feature.node.kubernetes.io"


def node(**files: str | bytes | int) -> Node:
    host = bare()
    for path, content in files.items():
        host.put(path, content)
    return discover(host).node


@pytest.mark.parametrize(
    ("flags", "vendor", "expected"),
    [
        ("fpu vmx", "Dell Inc.", "none"),
        ("fpu hypervisor", "QEMU", "kvm"),
        ("fpu hypervisor", "VMware, Inc.", "vmware"),
        ("fpu hypervisor", "Nobody", "vm"),
        ("fpu", "QEMU", "none"),
    ],
)
def test_virtualisation(flags: str, vendor: str, expected: str) -> None:
    cpuinfo = f"processor\t: 0\nvendor_id\t: GenuineIntel\nflags\t\t: {flags}\n\nprocessor\t: 1\n"
    found = node(**{"/proc/cpuinfo": cpuinfo, "/sys/class/dmi/id/sys_vendor": vendor})
    assert (found.virtualisation, found.cpu_vendor) == (expected, "GenuineIntel")


@pytest.mark.parametrize(
    ("text", "mode"),
    [("[none] integrity confidentiality\n", "none"), ("none [integrity] x\n", "integrity")],
)
def test_lockdown(text: str, mode: str) -> None:
    assert node(**{"/sys/kernel/security/lockdown": text}).lockdown == mode


@pytest.mark.parametrize(
    ("raw", "expected"),
    [(b"\x06\0\0\0\x01", True), (b"\x06\0\0\0\x00", False), (b"\x06", None)],
)
def test_secure_boot(raw: bytes, expected: bool | None) -> None:
    assert node(**{SECURE_BOOT: raw}).secure_boot is expected


def test_iommu() -> None:
    files = {f"/sys/kernel/iommu_groups/{i}/type": "identity\n" for i in range(3)}
    found = node(**{**files, "/sys/kernel/iommu_groups/3/type": "DMA\n"}).iommu
    assert found is not None
    assert (found.units, found.groups, found.default) == ((), 4, "identity")


def test_numa() -> None:
    at = "/sys/devices/system/node/node1"
    files = {f"{at}/cpulist": "8-15\n", f"{at}/distance": "20 10\n"}
    (found,) = node(**files, **{f"{at}/hugepages/hugepages-2048kB/nr_hugepages": "64\n"}).numa
    assert (found.id, found.cpus, found.distances) == (1, "8-15", (20, 10))
    assert found.hugepages == {"2048kB": 64}


def test_memlock_of_the_runtime() -> None:
    limits = "Limit  Soft  Hard  Units\nMax locked memory         {}        {}        bytes\n"
    found = node(
        **{
            "/proc/1/limits": limits.format("8388608", "8388608"),
            "/proc/77/comm": "containerd\n",
            "/proc/77/limits": limits.format("unlimited", "unlimited"),
            "/proc/78/comm": "bash\n",
            "/proc/78/limits": limits.format("1", "1"),
        }
    )
    assert found.memlock == {"init": "8388608", "containerd": "unlimited"}


def test_governors_that_differ_are_all_named() -> None:
    at = "/sys/devices/system/cpu/cpufreq"
    files = {f"{at}/policy0/scaling_governor": "powersave\n"}
    found = node(**files, **{f"{at}/policy1/scaling_governor": "performance\n"})
    assert found.governor == "performance,powersave"


def test_modules_with_their_users() -> None:
    host = bare()
    text = (
        "ib_core 1 3 mlx5_ib,rdma_cm, Live 0x0\nigb 1 0 - Live 0x0\nx 1 1 [permanent], Live 0x0\n"
    )
    host.put("/proc/modules", text)
    host.put("/sys/module/ib_core/version", "24.10\n")
    found = {module.name: module for module in discover(host).modules}
    assert found["ib_core"].used_by == ("mlx5_ib", "rdma_cm")
    assert found["ib_core"].version == "24.10"
    assert (found["igb"].used_by, found["x"].used_by) == ((), ())


# --- mounts -------------------------------------------------------------------------------------


def mount(line: str, mountstats: str = "") -> Mount:
    host = bare()
    host.put("/proc/mounts", f"proc /proc proc rw 0 0\n{line}\n")
    host.put("/proc/self/mountstats", mountstats)
    (found,) = discover(host).mounts
    return found


def lab_mount_line() -> str:
    lines = lab_text("nfsordma-client.txt").splitlines()
    return next(line for line in lines if line.startswith("10.6.0.2:/ /mnt/n nfs4"))


def test_the_labs_nfs_over_rdma() -> None:
    xprt = next(x for x in lab_text("nfsordma-client.txt").splitlines() if x.startswith("\txprt:"))
    stats = f"device 10.6.0.2:/ mounted on /mnt/n with fstype nfs4 statvers=1.1\n\tage: 1\n{xprt}\n"
    found = mount(lab_mount_line(), stats)
    assert (found.target, found.source, found.fstype) == ("/mnt/n", "10.6.0.2:/", "nfs4")
    assert (found.transport, found.connections) == ("rdma", 1)


def test_the_transport_in_use_wins_over_the_one_asked_for() -> None:
    stats = "device a:/ mounted on /m with fstype nfs\n" + "\txprt:\ttcp 0 1\n" * 4
    found = mount("a:/ /m nfs rw,proto=rdma,nconnect=4 0 0", stats)
    assert (found.transport, found.connections) == ("tcp", 4)


def test_without_mountstats_the_option_tells() -> None:
    found = mount("a:/ /mnt/two\\040words nfs rw,proto=tcp,mountproto=udp 0 0")
    assert (found.target, found.transport, found.connections) == ("/mnt/two words", "tcp", None)


@pytest.mark.parametrize(
    ("nid", "transport"), [("10.0.0.1@o2ib", "rdma"), ("10.0.0.1@o2ib1", "rdma"), ("a@tcp", "tcp")]
)
def test_lustre(nid: str, transport: str) -> None:
    assert mount(f"{nid}:/fs /lustre lustre rw 0 0").transport == transport


# --- labels -------------------------------------------------------------------------------------


def labelled(host: MemoryHost, **given: str) -> dict[str, str]:
    return dict(discover(host, given).node.labels)


def test_labels_of_the_lab() -> None:
    host = lab_vm()
    host.put("/etc/os-release", 'ID=rhcos\nVERSION_ID="4.16"\n')
    found = labelled(host)
    assert found["kubernetes.io/hostname"] == "n1"
    assert found[f"{NFD}/network-sriov.capable"] == "true"
    assert found[f"{NFD}/network-sriov.configured"] == "true"
    assert found[f"{NFD}/pci-8086.sriov.capable"] == "true"
    assert found[f"{NFD}/system-os_release.ID"] == "rhcos"
    assert f"{NFD}/pci-1af4.sriov.capable" not in found


def test_a_machine_without_sriov_is_not_labelled_so() -> None:
    host = bare()
    function(host, "pci0000:00/0000:00:02.0", vendor="15b3")
    found = labelled(host)
    assert f"{NFD}/pci-15b3.present" in found
    assert not any("sriov" in key for key in found)


def test_given_labels_win() -> None:
    found = labelled(bare(), **{"kubernetes.io/hostname": "other", "rack": "7"})
    assert (found["kubernetes.io/hostname"], found["rack"]) == ("other", "7")


def test_a_value_the_api_refuses_is_left_out() -> None:
    host = bare()
    host.put("/proc/sys/kernel/osrelease", "6.12.107+deb13-amd64\n")
    found = labelled(host)
    assert f"{NFD}/kernel-version.full" not in found
    assert found[f"{NFD}/kernel-version.major"] == "6"


def test_what_cannot_be_read_is_unknown_with_its_reason() -> None:
    host = bare()
    host.put("/proc/cmdline", errno.EPERM)
    found = discover(host)
    reasons = {fact.path: fact.reason for fact in found.unknown}
    assert found.node.cmdline is None
    assert reasons["/proc/cmdline"] == "Operation not permitted (EPERM)"
