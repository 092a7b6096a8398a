"""The machine itself: kernel, platform, IOMMU, NUMA, limits."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from podrail.inventory.reader import Reader, number
from podrail.model.inventory import Iommu, Node, NumaNode

_DMI = "/sys/class/dmi/id"
_NODES = "/sys/devices/system/node"
_CPUFREQ = "/sys/devices/system/cpu/cpufreq"
_GROUPS = "/sys/kernel/iommu_groups"
_SECURE_BOOT = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
_GROUPS_LOOKED_AT = 64  # the machine's own devices come first; a thousand VFs follow
_LIMITED = ("containerd", "crio", "kubelet")
_HYPERVISORS = (
    ("qemu", "kvm"),
    ("kvm", "kvm"),
    ("openstack", "kvm"),
    ("amazon ec2", "kvm"),
    ("google", "kvm"),
    ("vmware", "vmware"),
    ("microsoft", "hyperv"),
    ("xen", "xen"),
    ("innotek", "virtualbox"),
    ("nutanix", "kvm"),
)


def node_of(reader: Reader) -> Node:
    """Everything about the node but its labels."""
    cpu = _first_cpu(reader.text("/proc/cpuinfo", absent="no such file") or "")
    vendor, product = _dmi(reader, "sys_vendor"), _dmi(reader, "product_name")
    return Node(
        name=reader.text("/proc/sys/kernel/hostname", absent="no such file") or "",
        os=_os_name(os_release(reader)),
        kernel=reader.text("/proc/sys/kernel/osrelease", absent="no such file") or None,
        cmdline=reader.text("/proc/cmdline", absent="no such file"),
        vendor=vendor,
        product=product,
        bios=_bios(reader),
        virtualisation=_virtualisation(cpu, f"{vendor} {product}"),
        cpu_vendor=cpu.get("vendor_id") or cpu.get("CPU implementer"),
        lockdown=_lockdown(reader),
        secure_boot=_secure_boot(reader),
        iommu=_iommu(reader),
        numa=_numa(reader),
        clocksource=reader.text(
            "/sys/devices/system/clocksource/clocksource0/current_clocksource",
            absent="the kernel shows no clock source",
        ),
        governor=_governor(reader),
        memlock=_memlock(reader),
    )


def os_release(reader: Reader) -> dict[str, str]:
    """The pairs of /etc/os-release."""
    lines = (reader.text("/etc/os-release", absent="no such file") or "").splitlines()
    pairs = (line.partition("=") for line in lines if "=" in line and not line.startswith("#"))
    return {key.strip(): value.strip().strip("\"'") for key, _, value in pairs}


def _os_name(release: Mapping[str, str]) -> str | None:
    name = release.get("PRETTY_NAME") or f"{release.get('ID', '')} {release.get('VERSION_ID', '')}"
    return name.strip() or None


def _first_cpu(cpuinfo: str) -> dict[str, str]:
    lines = cpuinfo.partition("\n\n")[0].splitlines()
    pairs = (line.partition(":") for line in lines)
    return {key.strip(): value.strip() for key, _, value in pairs}


def _dmi(reader: Reader, name: str) -> str | None:
    return reader.text(f"{_DMI}/{name}", absent="the firmware gives no DMI table") or None


def _bios(reader: Reader) -> str | None:
    parts = (_dmi(reader, f"bios_{part}") for part in ("vendor", "version", "date"))
    return " ".join(part for part in parts if part) or None


def _virtualisation(cpu: Mapping[str, str], platform: str) -> str | None:
    """CPUID leaf 1 ECX bit 31 is set by every hypervisor; DMI then says which one."""
    if not cpu:
        return None
    known = next((name for mark, name in _HYPERVISORS if mark in platform.lower()), None)
    if "TCG" in cpu.get("model name", ""):
        return "qemu"  # emulated, with no hypervisor under it
    if "hypervisor" in cpu.get("flags", "").split():
        return known or "vm"
    on_arm = "CPU implementer" in cpu
    return known if on_arm and known else "none"


def _lockdown(reader: Reader) -> str | None:
    path = "/sys/kernel/security/lockdown"
    text = reader.text(path, absent="securityfs is not mounted, or the kernel has no lockdown")
    chosen = re.search(r"\[(\w+)\]", text or "")
    if text and not chosen:
        reader.note(path, f"no mode is marked in {text[:40]!r}")
    return chosen[1] if chosen else None


def _secure_boot(reader: Reader) -> bool | None:
    """efivarfs puts four bytes of attributes before the value (Documentation/filesystems)."""
    raw = reader.raw(_SECURE_BOOT, absent="no EFI variable: legacy boot, or efivarfs not mounted")
    if raw is None:
        return None
    if len(raw) < 5:
        reader.note(_SECURE_BOOT, f"{len(raw)} bytes, wanted 5")
        return None
    return raw[4] == 1


def _iommu(reader: Reader) -> Iommu:
    groups = sorted(g for g in map(number, reader.names(_GROUPS)) if g is not None)
    types = [reader.text(f"{_GROUPS}/{group}/type") for group in groups[:_GROUPS_LOOKED_AT]]
    common = Counter(kind for kind in types if kind).most_common(1)
    return Iommu(
        units=tuple(reader.names("/sys/class/iommu")),
        groups=len(groups),
        default=common[0][0] if common else None,
    )


def _numa(reader: Reader) -> tuple[NumaNode, ...]:
    names = reader.names(_NODES, absent="the kernel shows no NUMA nodes")
    ids = sorted(int(name[4:]) for name in names if re.fullmatch(r"node[0-9]{1,4}", name))
    return tuple(_numa_node(reader, i) for i in ids)


def _numa_node(reader: Reader, i: int) -> NumaNode:
    at = f"{_NODES}/node{i}"
    distances = [number(d) for d in (reader.text(f"{at}/distance") or "").split()]
    sizes = [name.removeprefix("hugepages-") for name in reader.names(f"{at}/hugepages")]
    pages = {s: reader.integer(f"{at}/hugepages/hugepages-{s}/nr_hugepages") for s in sizes}
    return NumaNode(
        id=i,
        cpus=reader.text(f"{at}/cpulist") or "",
        distances=tuple(d for d in distances if d is not None),
        hugepages={size: count for size, count in pages.items() if count is not None},
    )


def _governor(reader: Reader) -> str | None:
    policies = [name for name in reader.names(_CPUFREQ) if name.startswith("policy")]
    if not policies:
        reader.note(_CPUFREQ, "no cpufreq policy: firmware or hypervisor sets the clock")
    found = {reader.text(f"{_CPUFREQ}/{name}/scaling_governor") for name in policies}
    return ",".join(sorted(filter(None, found))) or None


def _memlock(reader: Reader) -> dict[str, str]:
    """RLIMIT_MEMLOCK of pid 1 and of those a container inherits it from."""
    limits = {}
    for pid in sorted(filter(str.isdecimal, reader.names("/proc")), key=int):
        comm = "init" if pid == "1" else reader.text(f"/proc/{pid}/comm", quiet=True)
        if comm not in ("init", *_LIMITED) or comm in limits:
            continue
        limit = _locked(reader.text(f"/proc/{pid}/limits", quiet=comm != "init") or "")
        if limit:
            limits[comm] = limit
    return limits


def _locked(limits: str) -> str | None:
    found = re.search(r"^Max locked memory\s+(\S+)", limits, re.MULTILINE)
    return found[1] if found else None
