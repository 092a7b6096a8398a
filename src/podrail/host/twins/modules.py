"""Kernel modules of a twin: what comes and what goes with them."""

from __future__ import annotations

from collections.abc import Collection

from podrail.host.twin import PciFunction, TwinHost
from podrail.host.twins import drivers, net, verbs

_PCI_DRIVERS = {drivers.module_of(name): name for name in ("virtio-pci", "vfio-pci")}
_OUT_OF_TREE = ("nvidia", "gdrdrv")
_SOFT = {"vfio": ("vfio_iommu_type1",)}
"""Module → what modprobe loads after it (MODULE_SOFTDEP post)."""


def show(host: TwinHost) -> None:
    """/proc/modules and /sys/module from what the machine loads."""
    machine = host.machine
    assert machine is not None
    host.modules = {**machine.modules, **machine.loadable}
    for name in machine.modules:
        host.put(f"/sys/module/{name}/initstate", "live\n")
        if name in machine.module_versions:
            host.put(f"/sys/module/{name}/version", f"{machine.module_versions[name]}\n")
    _list(host, machine.modules)


def _list(host: TwinHost, loaded: Collection[str]) -> None:
    """kernel/module/procfs.c:m_show: name, size, references, users, state, address."""
    names = [name for name in host.modules if name in loaded]
    users: dict[str, list[str]] = {name: [] for name in names}
    for name in names:
        for needed in host.modules[name]:
            if needed in users:
                users[needed].insert(0, name)
    host.put("/proc/modules", "".join(_line(name, users[name]) for name in reversed(names)))


def _line(name: str, users: list[str]) -> str:
    by = "".join(f"{user}," for user in users) or "-"
    taint = " (OE)" if name.startswith(_OUT_OF_TREE) else ""
    return f"{name} 65536 {len(users)} {by} Live 0x0000000000000000{taint}\n"


def loaded(host: TwinHost) -> set[str]:
    return {line.split(" ")[0] for line in host.text("/proc/modules").split("\n") if line}


def load(host: TwinHost, name: str) -> bool:
    """Load a module and those it needs, as modprobe does; False where none is of that name."""
    name = name.replace("-", "_")
    if host.loaded(name):
        return True
    if name not in host.modules:
        return False
    for needed in host.modules[name]:
        load(host, needed)
    host.put(f"/sys/module/{name}/initstate", "live\n")
    _list(host, loaded(host) | {name})
    _start(host, name)
    for after in _SOFT.get(name, ()):
        load(host, after)
    return True


def _start(host: TwinHost, name: str) -> None:
    """What a module brings: a class, or a PCI driver that takes what nobody holds."""
    if name == "ib_core":
        host.put_dir("/sys/class/infiniband")
    driver = _PCI_DRIVERS.get(name, name)
    if driver not in drivers.KNOWN or drivers.registered(host, driver):
        return
    drivers.register(host, driver)
    for address in sorted(host.functions):
        function = host.functions[address]
        if host.driver(function) is None and drivers.matches(host, function, driver):
            drivers.probe(host, function)


def load_for(host: TwinHost, function: PciFunction) -> None:
    """udev's kmod builtin: the module whose alias fits a device that came."""
    driver = drivers.native(function.spec)
    if driver and host.machine and host.machine.predictable_names:
        load(host, drivers.module_of(driver))


def unload(host: TwinHost, name: str) -> None:
    """Take a module away with all that need it, and what they gave to the machine."""
    for other in [m for m, needs in host.modules.items() if name in needs]:
        if host.loaded(other):
            unload(host, other)
    host.remove(f"/sys/module/{name}")
    host.modules.pop(name, None)
    _list(host, loaded(host) - {name})
    _consequences(host, name)


def _consequences(host: TwinHost, name: str) -> None:
    driver = _PCI_DRIVERS.get(name, name)
    if drivers.registered(host, driver):
        for function in [f for f in host.functions.values() if host.driver(f) == driver]:
            if function.address in host.functions:
                drivers.detach(host, function)
        host.remove(f"/sys/bus/pci/drivers/{driver}")
    if name == "mlx5_ib":
        for function in host.functions.values():
            verbs.forget(host, function)
    elif name == "ib_ipoib":
        _drop_ipoib(host)
    elif name == "nvidia_peermem":
        host.remove("/sys/kernel/mm/memory_peers")
    elif name == "nvidia":
        host.remove("/proc/driver/nvidia")
    elif name == "rpcrdma":
        _drop_mounts(host)


def _drop_ipoib(host: TwinHost) -> None:
    for function in host.functions.values():
        if function.netdev and host.text(f"/sys/class/net/{function.netdev}/type") == "32":
            net.forget(host, function.netdev)
            function.netdev = None


def _drop_mounts(host: TwinHost) -> None:
    """A mount over RDMA holds rpcrdma: without the module there is none."""
    kept = [m for m in host.text("/proc/mounts").split("\n") if "proto=rdma" not in m]
    host.put("/proc/mounts", "\n".join(kept) + "\n")
    stats = host.text("/proc/self/mountstats").split("\ndevice ")
    host.put(
        "/proc/self/mountstats",
        "\ndevice ".join(part for part in stats if "xprt:\trdma" not in part) + "\n",
    )
