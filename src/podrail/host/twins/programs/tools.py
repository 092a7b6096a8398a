"""`ethtool -i|-k|-K`, `ovs-vsctl` and `getent ahosts` of a twin."""

from __future__ import annotations

from collections.abc import Sequence

from podrail.host.seam import Ran
from podrail.host.twin import TwinHost
from podrail.host.twins import openshift
from podrail.host.twins.kept import keep, kept
from podrail.host.twins.programs.answer import not_modelled, refused, said

_NO_EEPROM = ("igbvf", "virtio_net")
_TC = ("mlx5_core", "igb", "i40e")
"""Drivers with NETIF_F_HW_TC among the features of a PF that can be switched."""


def ethtool(host: TwinHost, argv: Sequence[str]) -> Ran:
    """`ethtool -i NAME` (tests/data/lab/ethtool-i-PF.txt), and the one feature podrail sets."""
    match list(argv[1:]):
        case ["-k", name]:
            return _features(host, argv, name, None)
        case ["-K", name, "hw-tc-offload", "on" | "off" as way]:
            return _features(host, argv, name, way)
        case ["-i", _]:
            return _info(host, argv)
    return not_modelled(argv)


def _features(host: TwinHost, argv: Sequence[str], name: str, way: str | None) -> Ran:
    """Of all features only hw-tc-offload is modelled; it is off until somebody sets it."""
    netdev = host.netdevs.get(name)
    if netdev is None:
        doing = "get device feature names" if way is None else "get device features"
        return refused(argv, 1, f"Cannot {doing}: No such device")
    function = host.functions.get(netdev.pci or "")
    fixed = function is None or function.physfn is not None or host.driver(function) not in _TC
    state = kept(host, "features", name) or {"hw-tc-offload": "off"}
    if way is None:
        mark = " [fixed]" if fixed else ""
        return said(argv, f"Features for {name}:\nhw-tc-offload: {state['hw-tc-offload']}{mark}\n")
    if fixed and way == "on":
        return refused(argv, 1, "Could not change any device features")
    keep(host, "features", name, {"hw-tc-offload": way})
    return said(argv, "")


def _info(host: TwinHost, argv: Sequence[str]) -> Ran:
    netdev = host.netdevs.get(argv[2])
    if netdev is None:
        return refused(argv, 71, "Cannot get driver information: No such device")
    function = host.functions.get(netdev.pci or "")
    driver = host.driver(function) if function else netdev.kind or "virtio_net"
    port = function.spec.port if function else None
    firmware = port.firmware if port else ""
    if function and function.physfn and function.physfn.spec.port and driver == "mlx5_core":
        firmware = function.physfn.spec.port.firmware
    if driver == "mlx5_core" and _is_ib(host, argv[2]):
        driver = "mlx5_core[ib_ipoib]"
    return said(argv, _driver_info(host, str(driver), firmware, netdev.pci or ""))


def _is_ib(host: TwinHost, name: str) -> bool:
    return host.text(f"/sys/class/net/{name}/type") == "32"


def _driver_info(host: TwinHost, driver: str, firmware: str, bus: str) -> str:
    yes_no = "no" if driver in _NO_EEPROM else "yes"
    eeprom = "no" if driver.startswith("mlx5") else yes_no
    return (
        f"driver: {driver}\n"
        f"version: {host.text('/proc/sys/kernel/osrelease')}\n"
        f"firmware-version: {firmware}\n"
        "expansion-rom-version: \n"
        f"bus-info: {bus}\n"
        "supports-statistics: yes\n"
        "supports-test: yes\n"
        f"supports-eeprom-access: {eeprom}\n"
        f"supports-register-dump: {'no' if driver.startswith('mlx5') else 'yes'}\n"
        f"supports-priv-flags: {yes_no}\n"
    )


def ovs_vsctl(host: TwinHost, argv: Sequence[str]) -> Ran:
    """`ovs-vsctl list-br` and `ovs-vsctl list-ports BRIDGE`."""
    bridges = host.machine.bridges if host.machine else {}
    words = list(argv[1:])
    if words == ["list-br"]:
        return said(argv, "".join(f"{name}\n" for name in sorted(bridges)))
    if words[:1] != ["list-ports"] or len(words) != 2:
        return not_modelled(argv)
    if words[1] not in bridges:
        return refused(argv, 1, f"ovs-vsctl: no bridge named {words[1]}")
    return said(argv, "".join(f"{name}\n" for name in sorted(bridges[words[1]])))


def getent(host: TwinHost, argv: Sequence[str]) -> Ran:
    """`getent ahosts NAME`: /etc/hosts, then what the cluster's resolver knows; 2 is not found."""
    if len(argv) != 3 or argv[1] != "ahosts":
        return not_modelled(argv)
    name = argv[2]
    listed = [line.split() for line in host.text("/etc/hosts").splitlines()]
    found = [words[0] for words in listed if name in words[1:]]
    found = found or [address for known, address in openshift.NAMES.items() if known == name]
    if not found:
        return refused(argv, 2, "")
    kinds = (f"STREAM {name}", "DGRAM  ", "RAW    ")
    return said(argv, "".join(f"{at:<15} {kind}\n" for at in found for kind in kinds))
