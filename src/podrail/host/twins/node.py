"""What is not PCI: /proc, /etc, firmware, NUMA, mounts, the NVIDIA driver's files."""

from __future__ import annotations

from podrail.host.twin import TwinHost
from podrail.host.twins import spec

_SECURE_BOOT = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
_BOOT_AND_RUNTIME = b"\x06\x00\x00\x00"  # the attributes every efivar file starts with
_LIMITS = (
    "Limit                     Soft Limit           Hard Limit           Units     \n"
    "Max cpu time              unlimited            unlimited            seconds   \n"
    "Max processes             2061405              2061405              processes \n"
    "Max open files            1048576              1048576              files     \n"
    "Max locked memory         {lock:<20} {lock:<20} bytes     \n"
    "Max pending signals       2061405              2061405              signals   \n"
)
_NODE = "/sys/devices/system/node"


def show(host: TwinHost, machine: spec.Machine) -> None:
    """All files that say what the machine is."""
    host.put("/proc/sys/kernel/hostname", f"{machine.name}\n")
    host.put("/proc/sys/kernel/osrelease", f"{machine.kernel}\n")
    host.put("/proc/cmdline", f"{machine.cmdline}\n")
    host.put("/etc/os-release", machine.os_release)
    _cpuinfo(host, machine)
    _firmware(host, machine)
    _numa(host, machine)
    _clock(host, machine)
    _processes(host, machine)
    _mounts(host, machine)
    _iommu(host, machine)
    if machine.gpu_driver:
        _nvidia(host, machine.gpu_driver)
    for path, text in machine.files.items():
        host.put(path, text)


def _cpuinfo(host: TwinHost, machine: spec.Machine) -> None:
    flags = "fpu vme de pse tsc msr pae mce cx8 apic sep mtrr pge mca cmov pat"
    flags += " hypervisor" if machine.hypervisor else ""
    blocks = [
        f"processor\t: {number}\nvendor_id\t: {machine.cpu}\n"
        f"model name\t: {machine.cpu_model}\nphysical id\t: {number}\nflags\t\t: {flags}\n\n"
        for number in range(max(1, len(machine.numa)))
    ]
    host.put("/proc/cpuinfo", "".join(blocks))


def _firmware(host: TwinHost, machine: spec.Machine) -> None:
    maker, version, date = machine.bios
    dmi = {
        "sys_vendor": machine.vendor,
        "product_name": machine.product,
        "bios_vendor": maker,
        "bios_version": version,
        "bios_date": date,
    }
    for name, text in dmi.items():
        host.put(f"/sys/class/dmi/id/{name}", f"{text}\n")
    if machine.lockdown:
        host.put("/sys/kernel/security/lockdown", f"{machine.lockdown}\n")
    if machine.secure_boot is not None:
        host.put(_SECURE_BOOT, _BOOT_AND_RUNTIME + bytes([machine.secure_boot]))


def _numa(host: TwinHost, machine: spec.Machine) -> None:
    for number, node in enumerate(machine.numa):
        at = f"{_NODE}/node{number}"
        host.put(f"{at}/cpulist", f"{node.cpus}\n")
        host.put(f"{at}/distance", " ".join(map(str, node.distances)) + "\n")
        pages = {"2048kB": node.hugepages_2m, "1048576kB": node.hugepages_1g}
        for size, count in pages.items():
            host.put(f"{at}/hugepages/hugepages-{size}/nr_hugepages", f"{count}\n")
    host.put(f"{_NODE}/online", f"0-{len(machine.numa) - 1}\n" if machine.numa else "0\n")


def _clock(host: TwinHost, machine: spec.Machine) -> None:
    at = "/sys/devices/system/clocksource/clocksource0"
    host.put(f"{at}/current_clocksource", f"{machine.clocksource}\n")
    host.put_dir("/sys/devices/system/cpu")
    if machine.governor:
        for policy in range(len(machine.numa) or 1):
            path = f"/sys/devices/system/cpu/cpufreq/policy{policy}/scaling_governor"
            host.put(path, f"{machine.governor}\n")


def _processes(host: TwinHost, machine: spec.Machine) -> None:
    for process in machine.processes:
        at = f"/proc/{process.pid}"
        host.put(f"{at}/comm", f"{process.comm}\n")
        host.put(f"{at}/limits", _LIMITS.format(lock=process.memlock))
        host.put_link(f"{at}/fd/0", "/dev/null")


def _mounts(host: TwinHost, machine: spec.Machine) -> None:
    lines = ["sysfs /sys sysfs rw,nosuid,nodev,noexec,relatime 0 0"]
    stats = ["device sysfs mounted on /sys with fstype sysfs"]
    for mount in machine.mounts:
        lines.append(f"{mount.source} {mount.target} nfs4 {_options(mount)} 0 0")
        stats.append(_stats(mount))
    host.put("/proc/mounts", "".join(f"{line}\n" for line in lines))
    host.put("/proc/self/mountstats", "".join(f"{line}\n" for line in stats))


def _options(mount: spec.NfsMount) -> str:
    """As in tests/data/lab/nfsordma-client.txt."""
    many = f"nconnect={mount.connections}," if mount.connections > 1 else ""
    port = "port=20049," if mount.transport == "rdma" else ""
    return (
        "rw,relatime,vers=4.1,rsize=1048576,wsize=1048576,namlen=255,hard,"
        f"proto={mount.transport},{many}{port}timeo=600,retrans=2,sec=sys,"
        f"clientaddr={mount.client},local_lock=none,addr={mount.server}"
    )


def _stats(mount: spec.NfsMount) -> str:
    head = f"device {mount.source} mounted on {mount.target} with fstype nfs4 statvers=1.1"
    numbers = "0 0 1 0 0 74 74 0 112 0 8 66 17 8508944 8391101 0 0 61568 0 0 0 0 0 11 70 0 0"
    xprt = f"\txprt:\t{mount.transport} {numbers}"
    return "\n".join([head, f"\topts:\t{_options(mount)}", *[xprt] * mount.connections])


def _iommu(host: TwinHost, machine: spec.Machine) -> None:
    host.put_dir("/sys/class/iommu")
    host.put_dir("/sys/kernel/iommu_groups")
    for unit in range(machine.iommu_units):
        name = f"{machine.iommu}{unit}"
        host.put_link(f"/sys/class/iommu/{name}", f"../../devices/virtual/iommu/{name}")
        host.put_dir(f"/sys/devices/virtual/iommu/{name}/devices")


def _nvidia(host: TwinHost, driver: spec.GpuDriver) -> None:
    """open-gpu-kernel-modules kernel-open/nvidia/nv-procfs.c, as the H200 of the device tier."""
    kind = "Open Kernel Module for x86_64 " if driver.open else "x86_64 Kernel Module "
    host.put(
        "/proc/driver/nvidia/version",
        f"NVRM version: NVIDIA UNIX {kind} {driver.version}  Release Build  "
        "(dvs-builder@U22-I3-AM11-24-3)  Sun Jul 27 07:01:14 UTC 2025\n"
        "GCC version:  gcc version 11.5.0 20240719 (Red Hat 11.5.0-5) (GCC) \n",
    )
    if driver.peermem:
        host.put("/sys/kernel/mm/memory_peers/nv_mem/version", "1.3\n")


def gpu_information(host: TwinHost, function: spec.Function, minor: int, version: str) -> None:
    """/proc/driver/nvidia/gpus/ADDRESS/information."""
    gpu = function.gpu
    assert gpu is not None
    host.put(
        f"/proc/driver/nvidia/gpus/{function.address}/information",
        f"Model: \t\t {gpu.model}\nIRQ:   \t\t {298 + minor}\nGPU UUID: \t {gpu.uuid}\n"
        f"Video BIOS: \t {gpu.vbios}\nBus Type: \t PCIe\nDMA Size: \t 52 bits\n"
        f"DMA Mask: \t 0xfffffffffffff\nBus Location: \t {function.address}\n"
        f"Device Minor: \t {minor}\nGPU Firmware: \t {version}\nGPU Excluded:\t No\n",
    )
