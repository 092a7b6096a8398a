"""What follows when something on a twin is changed from outside."""

from __future__ import annotations

from podrail.host.twin import Netdev, PciFunction, TwinHost
from podrail.host.twins import drivers, net, pci, verbs
from podrail.model.errors import UsageError


def change(host: TwinHost, path: str, value: str | None) -> None:
    """Give a path new content, or take it away; aliases lead to the real place."""
    if path.endswith("/driver"):
        _change_driver(host, path, value)
    elif value is None:
        _take_away(host, path)
    else:
        _put(host, path, value if value.endswith("\n") or not _attribute(path) else f"{value}\n")


def refuse(host: TwinHost, path: str, code: int | None) -> None:
    """From now on a write to a path, or below it, meets this errno; None: no longer."""
    for place in {path.rstrip("/") or "/", _real(host, path) or path}:
        if code is None:
            host.refusals.pop(place, None)
        else:
            host.refusals[place] = code


def _attribute(path: str) -> bool:
    return path.startswith(("/sys/", "/proc/"))


def _real(host: TwinHost, path: str) -> str | None:
    """Where a path leads; a path not there yet is placed in its real directory."""
    try:
        return host.resolve(path)
    except OSError:
        above, _, name = path.rpartition("/")
    try:
        return f"{host.resolve(above)}/{name}" if above else path
    except OSError:
        return None


def _put(host: TwinHost, path: str, text: str) -> None:
    real = _real(host, path)
    if real is None and path.startswith("/sys/"):
        raise UsageError(f"{path} cannot be set on {host.label}: its directory is not there")
    real = real or path
    name = real.rpartition("/")[2]
    if name in host.writers:
        try:
            host.write(real, text)
        except OSError:
            host.put(real, text)
        return
    host.put(real, text)
    _follow(host, real, name, text.strip())


def _follow(host: TwinHost, real: str, name: str, value: str) -> None:
    above = real.rsplit("/", 2)[1]
    netdev = host.netdevs.get(above)
    if netdev and name in ("carrier", "operstate"):
        _set_carrier(host, netdev, value in ("1", "up", "unknown"))
    elif name == "state" and "/infiniband/" in real:
        _follow_port(host, real, value.startswith("4"))


def _set_carrier(host: TwinHost, netdev: Netdev, carrier: bool) -> None:
    """A cable pulled or put in: carrier, operstate, speed, and the RoCE port on it."""
    host.put(netdev.attribute("carrier"), f"{int(carrier)}\n")
    host.put(netdev.attribute("operstate"), "up\n" if carrier else "down\n")
    if not carrier:
        host.put(netdev.attribute("speed"), "-1\n")
    verbs.follow(host, netdev)


def _follow_port(host: TwinHost, real: str, active: bool) -> None:
    """IPoIB has a carrier only on an ACTIVE port (ipoib_ib.c)."""
    function = host.functions[real.split("/infiniband/")[0].rpartition("/")[2]]
    if function.netdev and not active and host.text(f"{real[:-6]}/link_layer") == "InfiniBand":
        _set_carrier(host, host.netdevs[function.netdev], False)


def _take_away(host: TwinHost, path: str) -> None:
    try:
        real = host.resolve(path)
    except OSError as no:
        raise UsageError(f"{path} is not on {host.label}, so it cannot go") from no
    name = real.rpartition("/")[2]
    if name in host.functions and host.functions[name].path == real:
        _unplug(host, host.functions[name])
    elif name in host.netdevs and host.netdevs[name].path == real:
        _forget_netdev(host, name)
    elif name in host.rdma_index and "/infiniband/" in real:
        verbs.forget(host, host.functions[real.split("/")[-3]])
    elif path != real and path.rpartition("/")[2] != name:
        host.remove(path)
    else:
        host.remove(real)


def _forget_netdev(host: TwinHost, name: str) -> None:
    owner = host.functions.get(host.netdevs[name].pci or "")
    if owner and owner.netdev == name:
        owner.netdev = None
    net.forget(host, name)


def _unplug(host: TwinHost, function: PciFunction) -> None:
    """A device falls off the bus, with all below it."""
    for child in [f for f in host.functions.values() if f.parent is function and not f.physfn]:
        _unplug(host, child)
    drivers.detach(host, function)
    host.remove(f"/proc/driver/nvidia/gpus/{function.address}")
    pci.take_away(host, function)


def _change_driver(host: TwinHost, path: str, value: str | None) -> None:
    address = (_real(host, path.rpartition("/")[0]) or "").rpartition("/")[2]
    function = host.functions.get(address)
    if function is None:
        raise UsageError(f"{path} cannot be set on {host.label}: there is no such device")
    drivers.detach(host, function)
    if value is None:
        return
    name = value.strip().rpartition("/")[2]
    if not drivers.registered(host, name):
        raise UsageError(f"{path}: {host.label} has no driver {name!r} ({_drivers(host)})")
    host.put(f"{function.path}/driver_override", f"{name}\n")
    drivers.attach(host, function, name)


def _drivers(host: TwinHost) -> str:
    return ", ".join(sorted(host.names("/sys/bus/pci/drivers")))
