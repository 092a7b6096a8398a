"""A TwinHost from its specification."""

from __future__ import annotations

import errno
from functools import partial

from podrail.host.twin import Netdev, PciFunction, TwinHost, Writer
from podrail.host.twins import drivers, modules, net, node, pci, spec, sriov, tuning
from podrail.host.twins.pci import up
from podrail.host.twins.programs import (
    bootloader,
    dcb,
    devlink,
    ethtool,
    ip,
    kmod,
    mstconfig,
    rdma,
    setpci,
    systemctl,
    tools,
)

_LOOPBACK = spec.Virtual("lo", None, mtu=65536, max_mtu=0, addresses=("127.0.0.1/8", "::1/128"))


def _keep(host: TwinHost, real: str, text: str) -> None:
    host.put(real, text if text.endswith("\n") else f"{text}\n")


WRITERS: dict[str, Writer] = {
    "sriov_numvfs": sriov.store_numvfs,
    "sriov_drivers_autoprobe": sriov.store_autoprobe,
    "bind": drivers.store_bind,
    "unbind": drivers.store_unbind,
    "drivers_probe": drivers.store_probe,
    "driver_override": drivers.store_override,
    "mtu": net.store_mtu,
    "nr_hugepages": _keep,
    **tuning.WRITERS,
}


def build(machine: spec.Machine, label: str) -> TwinHost:
    """Boot the machine for the first time."""
    host = TwinHost(label, machine.labels)
    boot(host, machine)
    return host


def boot(host: TwinHost, machine: spec.Machine) -> None:
    """Bring the machine up on a host that is empty."""
    host.machine = machine
    host.writers = WRITERS
    host.routes = list(machine.routes)
    for name in ("net", "iommu"):
        host.put_dir(f"/sys/class/{name}")
    host.put("/sys/bus/pci/drivers_probe", errno.EACCES)  # DRIVER_ATTR_WO
    node.show(host, machine)
    modules.show(host)
    if host.loaded("ib_core"):
        host.put_dir("/sys/class/infiniband")
    for driver in ("pcieport", *machine.drivers):
        drivers.register(host, driver)
    _add_virtual(host, _LOOPBACK)
    for root in machine.roots:
        _add_root(host, root)
    _probe_all(host)
    for virtual in machine.virtual:
        _add_virtual(host, virtual)
    tuning.show(host)
    _install_programs(host, machine)


def _add_root(host: TwinHost, root: spec.Root) -> None:
    for function in root.functions:
        _add_function(host, function, f"/sys/devices/pci{root.bus}", root.numa, None)


def _add_function(
    host: TwinHost, s: spec.Function, above: str, numa: int, parent: PciFunction | None
) -> None:
    function = PciFunction(s, f"{above}/{s.address}", numa, parent=parent)
    pci.add(host, function, pci.config(s))
    for child in s.below:
        _add_function(host, child, function.path, numa, function)


def _probe_all(host: TwinHost) -> None:
    """Drivers take their devices in the order of addresses, as at boot."""
    machine = host.machine
    assert machine is not None
    minor = 0
    for address in sorted(host.functions):
        function = host.functions[address]
        drivers.probe(host, function)
        if function.spec.driver == "virtio-pci":
            _add_virtio(host, function)
        if function.spec.gpu and machine.gpu_driver:
            node.gpu_information(host, function.spec, minor, machine.gpu_driver.version)
            minor += 1


def _add_virtio(host: TwinHost, function: PciFunction) -> None:
    """A virtio device hangs below its PCI function, and its netdev below that."""
    bus = f"virtio{host.serial('virtio')}"
    host.put_link(f"{function.path}/{bus}/subsystem", f"{up(function.path)}../bus/virtio")
    port = function.spec.port
    if port is None:
        return
    netdev = Netdev(
        name=port.name,
        ifindex=host.serial("ifindex", 1),
        path=f"{function.path}/{bus}/net/{port.name}",
        bus=("virtio", bus),
        altnames=port.altnames,
        addresses=port.addresses,
    )
    net.add(host, netdev, port.mac, port.mtu, is_up=port.up)


def _add_virtual(host: TwinHost, virtual: spec.Virtual) -> None:
    netdev = Netdev(
        name=virtual.name,
        ifindex=host.serial("ifindex", 1),
        path=f"/sys/devices/virtual/net/{virtual.name}",
        kind=virtual.kind,
        master=virtual.master,
        lower=virtual.lower,
        vlan=virtual.vlan,
        max_mtu=virtual.max_mtu,
        addresses=virtual.addresses,
        speed=_speed_below(host, virtual),
    )
    net.add(host, netdev, virtual.mac, virtual.mtu, is_up=virtual.up)


def _speed_below(host: TwinHost, virtual: spec.Virtual) -> int:
    """A bond carries what its members carry, a VLAN what its link does."""
    if virtual.lower:
        return host.netdevs[virtual.lower].speed
    return sum(n.speed for n in host.netdevs.values() if n.master == virtual.name)


def _install_programs(host: TwinHost, machine: spec.Machine) -> None:
    programs = {
        "ip": ip.ip,
        "rdma": rdma.rdma,
        "ibv_devinfo": rdma.ibv_devinfo,
        "ethtool": ethtool.ethtool,
        "dcb": dcb.dcb,
        "setpci": setpci.setpci,
        "systemctl": systemctl.systemctl,
        "mkdir": tuning.mkdir,
        "rmdir": tuning.rmdir,
        "devlink": devlink.devlink,
        "modprobe": kmod.modprobe,
        "udevadm": kmod.udevadm,
        "getent": tools.getent,
        **bootloader.install(host, machine),
    }
    if machine.bridges:
        programs["ovs-vsctl"] = tools.ovs_vsctl
    if any(f.spec.vendor == mstconfig.MELLANOX for f in host.functions.values()):
        programs["mstconfig"] = mstconfig.mstconfig
    for name, program in programs.items():
        host.put_program([name], partial(program, host))
