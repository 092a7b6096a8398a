"""PCI drivers of a twin: which device they take, what they make of it, bind and unbind."""

from __future__ import annotations

import errno

from podrail.host.twin import Netdev, PciFunction, TwinHost, VfSettings, fail
from podrail.host.twins import config_space, net, pci, spec, verbs
from podrail.host.twins.pci import up

# (vendor, device) → driver, from the drivers' MODULE_DEVICE_TABLE; None: any device of the vendor
IDS: dict[tuple[int, int | None], str] = {
    (0x8086, 0x10C9): "igb",
    (0x8086, 0x10CA): "igbvf",
    (0x8086, 0x15FF): "i40e",
    (0x8086, 0x1563): "ixgbe",
    (0x8086, 0x154C): "iavf",
    (0x8086, 0x1565): "ixgbevf",
    (0x15B3, None): "mlx5_core",
    (0x1AF4, None): "virtio-pci",
}
KNOWN = {*IDS.values(), "vfio-pci", "nvidia"}
MODULES = {"virtio-pci": "virtio_pci", "vfio-pci": "vfio_pci"}
SRIOV = ("igb", "mlx5_core", "i40e", "ixgbe")
"""Drivers with a sriov_configure callback that makes netdev VFs here."""
MAX_MTU = {"igb": 9216, "igbvf": 9216, "i40e": 9702, "ixgbe": 9710, "iavf": 9702}
_ATTRIBUTES = ("bind", "unbind", "new_id", "remove_id", "uevent")


def module_of(driver: str) -> str:
    return MODULES.get(driver, driver)


def register(host: TwinHost, driver: str) -> None:
    """The directory a driver has under /sys/bus/pci/drivers."""
    for name in _ATTRIBUTES:
        host.put(f"/sys/bus/pci/drivers/{driver}/{name}", errno.EACCES)  # DRIVER_ATTR_WO


def registered(host: TwinHost, driver: str) -> bool:
    return bool(host.names(f"/sys/bus/pci/drivers/{driver}"))


def matches(host: TwinHost, function: PciFunction, driver: str) -> bool:
    """drivers/pci/pci-driver.c:pci_match_device."""
    override = host.text(f"{function.path}/driver_override")
    if override != "(null)":
        return override == driver
    return native(function.spec) == driver


def native(function: spec.Function) -> str | None:
    """The driver whose id table has this function."""
    if function.class_ >> 8 == 0x0604:
        return "pcieport"
    if function.vendor == 0x10DE and function.class_ >> 16 == 0x03:
        return "nvidia"
    found = IDS.get((function.vendor, function.device))
    return found or IDS.get((function.vendor, None))


def _may_probe(host: TwinHost, function: PciFunction) -> bool:
    """drivers/pci/pci-driver.c:pci_device_can_probe."""
    if function.physfn is None:
        return True
    autoprobe = host.text(f"{function.physfn.path}/sriov_drivers_autoprobe") == "1"
    return autoprobe or host.text(f"{function.path}/driver_override") != "(null)"


def probe(host: TwinHost, function: PciFunction) -> bool:
    """Give a function to the first registered driver that takes it (device_attach)."""
    override = host.text(f"{function.path}/driver_override")
    wanted = override if override != "(null)" else native(function.spec)
    if wanted is None or not registered(host, wanted) or not _may_probe(host, function):
        return False
    attach(host, function, wanted)
    return True


def attach(host: TwinHost, function: PciFunction, driver: str) -> None:
    """The driver's probe: the links, then what the driver makes of the function."""
    path = function.path
    host.put_link(f"{path}/driver", f"{up(path)}bus/pci/drivers/{driver}")
    host.put_link(f"/sys/bus/pci/drivers/{driver}/{function.address}", f"../../../..{path[4:]}")
    if function.spec.sriov and driver in SRIOV:
        # drivers/pci/iov.c:pci_sriov_set_totalvfs, from the driver's probe
        host.put(f"{path}/sriov_totalvfs", f"{function.spec.sriov.total}\n")
    if driver == "vfio-pci":
        _enter_vfio(host, function)
    elif function.spec.port is not None and driver != "virtio-pci":
        _make_ports(host, function, function.spec.port)
    elif function.physfn is not None and function.physfn.spec.port is not None:
        _make_vf_ports(host, function, function.physfn, driver)
    host.uevent("bind", path, "pci")  # drivers/base/dd.c:driver_bound
    if function.netdev:
        net.tell_name(host, host.netdevs[function.netdev])


def detach(host: TwinHost, function: PciFunction) -> None:
    """The driver's remove. A PF takes its VFs with it (igb_remove, mlx5_unload_one)."""
    driver = host.driver(function)
    if driver is None:
        return
    if function.vfs:
        drop_vfs(host, function)
    if driver == "vfio-pci":
        _leave_vfio(host, function)
    _forget_rdma(host, function)
    if function.netdev:
        net.forget(host, function.netdev)
        function.netdev = None
    if function.spec.sriov:  # drivers/pci/iov.c:pci_iov_remove
        host.put(f"{function.path}/sriov_totalvfs", f"{function.spec.sriov.capability}\n")
    host.remove(f"{function.path}/driver")
    host.remove(f"/sys/bus/pci/drivers/{driver}/{function.address}")
    host.uevent("unbind", function.path, "pci")  # drivers/base/dd.c:__device_release_driver


def _enter_vfio(host: TwinHost, function: PciFunction) -> None:
    path = f"{function.path}/vfio-dev/vfio{host.lowest('vfio')}"
    host.put(f"/dev/vfio/{function.group}", "")
    host.put_dir(path)
    host.uevent("add", path, "vfio-dev")


def _leave_vfio(host: TwinHost, function: PciFunction) -> None:
    host.remove(f"/dev/vfio/{function.group}")
    names = tuple(host.names(f"{function.path}/vfio-dev"))
    host.remove(f"{function.path}/vfio-dev")
    for name in names:
        host.free("vfio", int(name.removeprefix("vfio")))
        host.uevent("remove", f"{function.path}/vfio-dev/{name}", "vfio-dev")


def _forget_rdma(host: TwinHost, function: PciFunction) -> None:
    name = function.rdma
    verbs.forget(host, function)
    if name:
        host.uevent("remove", f"{function.path}/infiniband/{name}", "infiniband")


def drop_vfs(host: TwinHost, pf: PciFunction) -> None:
    """drivers/pci/iov.c:sriov_disable."""
    for vf in pf.vfs:
        detach(host, vf)
        host.remove(f"{pf.path}/virtfn{vf.index}")
        pci.take_away(host, vf)
    pf.vfs.clear()
    pf.settings.clear()
    show_vf_count(host, pf)


def show_vf_count(host: TwinHost, pf: PciFunction) -> None:
    """sriov_numvfs and NumVFs of the capability, which must agree."""
    count = len(pf.vfs)
    host.put(f"{pf.path}/sriov_numvfs", f"{count}\n")
    raw = host.read_bytes(f"{pf.path}/config")
    host.put(f"{pf.path}/config", config_space.with_vfs(raw, count))


def _make_ports(host: TwinHost, function: PciFunction, port: spec.Port) -> None:
    netdev = Netdev(
        name=port.name,
        ifindex=host.serial("ifindex", 1),
        path=f"{function.path}/net/{port.name}",
        pci=function.address,
        bus=("pci", function.address),
        master=port.master,
        max_mtu=port.max_mtu,
        queues=port.queues,
        altnames=port.altnames,
        addresses=port.addresses,
        speed=port.speed,
    )
    _register(host, function, netdev, port.mac, port.mtu, is_up=port.up, rdma=port.rdma)


def _make_vf_ports(host: TwinHost, function: PciFunction, pf: PciFunction, driver: str) -> None:
    port = pf.spec.port
    assert port is not None
    settings = pf.settings[function.index]
    address, random = _vf_address(host, function, settings, port, driver)
    name = net.vf_name(host, function)
    netdev = Netdev(
        name=name,
        ifindex=host.serial("ifindex", 1),
        path=f"{function.path}/net/{name}",
        pci=function.address,
        bus=("pci", function.address),
        max_mtu=MAX_MTU.get(driver, port.max_mtu),
        queues=1 if driver == "igbvf" else 8,
        speed=port.speed,
        altnames=net.vf_altnames(host, function, None if random else address),
        permanent=net.invented_mac(name) if random and driver == "igbvf" else None,
    )
    mtu = port.mtu if port.infiniband else 1500
    _register(host, function, netdev, address, mtu, is_up=False, rdma=port.rdma)


def _vf_address(
    host: TwinHost, function: PciFunction, settings: VfSettings, port: spec.Port, driver: str
) -> tuple[str, bool]:
    """What the administrator set, else a random one, and whether it is random.

    igbvf asks its PF for the one and tells it the other; a PF that is down answers neither.
    """
    if port.infiniband:
        queue_pair = (0x351 + function.index).to_bytes(4, "big").hex(":")
        return f"{queue_pair}:{port.mac[12:35]}:{settings.port_guid}", False
    told = heard(host, function)
    if told and settings.admin_mac:
        return settings.mac, False
    invented = net.invented_mac(function.address)
    if driver == "igbvf" and told:
        settings.mac = invented
    return invented, True


def heard(host: TwinHost, vf: PciFunction) -> bool:
    """Whether a VF's messages reach its PF; igb reads its mailbox while it is up."""
    pf = vf.physfn
    if pf is None or pf.spec.vendor != 0x8086:
        return True
    netdev = host.netdevs.get(pf.netdev or "")
    return netdev is not None and bool(net.flags(host, netdev) & net.UP)


def _register(
    host: TwinHost,
    function: PciFunction,
    netdev: Netdev,
    address: str,
    mtu: int,
    *,
    is_up: bool,
    rdma: spec.Rdma | None,
) -> None:
    infiniband = net.link_type(address) == "infiniband"
    if not infiniband or host.loaded("ib_ipoib"):
        net.add(host, netdev, address, mtu, is_up=is_up)
        function.netdev = netdev.name
    if rdma and host.loaded("mlx5_ib"):
        name = verbs.add(host, function, rdma, None if infiniband else netdev)
        host.uevent("add", f"{function.path}/infiniband/{name}", "infiniband")


# --- /sys/bus/pci/drivers ---------------------------------------------------------------------


def _asked(host: TwinHost, text: str) -> PciFunction | None:
    return host.functions.get(text.strip())


def store_bind(host: TwinHost, real: str, text: str) -> None:
    """drivers/base/bus.c:bind_store and dd.c:device_driver_attach."""
    driver, function = real.rsplit("/", 2)[1], _asked(host, text)
    if function is None or not matches(host, function, driver):
        raise fail(errno.ENODEV, real)
    if host.driver(function) is not None:
        raise fail(errno.EBUSY, real)
    if not _may_probe(host, function):
        raise fail(errno.ENODEV, real)
    attach(host, function, driver)


def store_unbind(host: TwinHost, real: str, text: str) -> None:
    """drivers/base/bus.c:unbind_store."""
    driver, function = real.rsplit("/", 2)[1], _asked(host, text)
    if function is None or host.driver(function) != driver:
        raise fail(errno.ENODEV, real)
    detach(host, function)


def store_probe(host: TwinHost, real: str, text: str) -> None:
    """drivers/base/bus.c:drivers_probe_store: no driver that fits is no error."""
    function = _asked(host, text)
    if function is None:
        raise fail(errno.ENODEV, real)
    if host.driver(function) is None:
        probe(host, function)


def store_override(host: TwinHost, real: str, text: str) -> None:
    """drivers/base/driver.c:driver_set_override: an empty line takes it away."""
    name = text.split("\n", 1)[0]
    host.put(real, f"{name or '(null)'}\n")
