"""PCI functions and their netdevs, as the kinds of steps reach them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from podrail.host.seam import Host, exists
from podrail.host.wait import until
from podrail.inventory.held import virtual_functions
from podrail.inventory.pci import DEVICES
from podrail.inventory.reader import Reader
from podrail.realise.step import Failed, Gone

SETTLE_SECONDS = 60
NETDEV_SECONDS = 10.0
"""What upstream gives a VF to show its netdev before it binds the driver again."""

USERSPACE = ("vfio-pci", "uio_pci_generic", "igb_uio")


def at(pci: str) -> str:
    return f"{DEVICES}/{pci}"


def require(host: Host, pci: str) -> None:
    """`Gone` where the device is not on the bus."""
    if not exists(host, at(pci)):
        raise Gone(pci)


def virtfns(host: Host, pf: str) -> dict[int, str]:
    """VF index → PCI address."""
    return virtual_functions(Reader(host), pf)


def names(host: Host, path: str) -> tuple[str, ...]:
    try:
        return host.entries(path)
    except OSError:
        return ()


def netdev(host: Host, pci: str) -> str | None:
    """The netdev of a function, as far as this namespace shows it."""
    found = names(host, f"{at(pci)}/net")
    if len(found) > 1:
        found = tuple(name for name in found if not _representor(host, pci, name)) or found
    return found[0] if found else None


def _representor(host: Host, pci: str, name: str) -> bool:
    """In switchdev the PF's directory has a netdev for each VF too, with port names such as
    `pf0vf3` (Documentation/networking/representors.rst)."""
    try:
        return "vf" in host.read(f"{at(pci)}/net/{name}/phys_port_name")
    except OSError:
        return False


def pf_netdev(host: Host, pci: str) -> str:
    name = netdev(host, pci)
    if name is None:
        require(host, pci)
        raise Failed(
            f"{pci} has no netdev: no driver is bound, or it is in another namespace",
            "bind its driver, or bring it back to the host's namespace",
        )
    return name


def driver(host: Host, pci: str) -> str | None:
    try:
        return host.readlink(f"{at(pci)}/driver").rpartition("/")[2]
    except OSError:
        return None


def number(host: Host, path: str) -> int:
    return int(host.read(path).strip() or "0", 0)


def settle(host: Host) -> None:
    """Wait until udev has named what came; a machine without udev has nothing to wait for."""
    try:
        ran = host.run(
            ("udevadm", "settle", f"--timeout={SETTLE_SECONDS}"), timeout=SETTLE_SECONDS + 5.0
        )
    except FileNotFoundError:
        return
    if ran.rc:
        raise Failed(
            f"udev was still busy after {SETTLE_SECONDS} s",
            "see which rule hangs: udevadm monitor, journalctl -u systemd-udevd",
        )


def batch(host: Host, lines: Sequence[str]) -> None:
    """Many `ip` commands in one process; the first refusal ends it."""
    if not lines:
        return
    ran = host.run(("ip", "-batch", "-"), timeout=60.0, stdin="".join(f"{x}\n" for x in lines))
    if ran.rc:
        said = ran.stderr.strip().splitlines() or ["no reason given"]
        raise Failed(f"`ip {_failed(said, lines)}`: {said[0]}", "look at `dmesg`")


def _failed(said: Sequence[str], lines: Sequence[str]) -> str:
    """The command that `Command failed -:3` means."""
    line = next((s.rpartition(":")[2] for s in said if s.startswith("Command failed")), "1")
    return lines[int(line) - 1] if line.isdecimal() and 0 < int(line) <= len(lines) else lines[0]


def link(host: Host, name: str) -> dict[str, Any]:
    """What `ip -d -j link show` tells of one netdev."""
    ran = host.run(("ip", "-d", "-j", "link", "show", "dev", name))
    shown = json.loads(ran.stdout) if not ran.rc and ran.stdout.strip() else []
    return next((dict(one) for one in shown if one), {})


def await_netdev(host: Host, pci: str, seconds: float = NETDEV_SECONDS) -> bool:
    def there() -> bool:
        return netdev(host, pci) is not None

    return there() or until(host, there, seconds)
