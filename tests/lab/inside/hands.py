"""VFs made by somebody who is not podrail."""

from __future__ import annotations

from pathlib import Path

from .machine import PCI, driver, netdevs, run

RECORDS = Path("/etc/sriov-operator/pci")
MAC = "02:00:5e:00:53:01"


def make(pf: str, count: int) -> None:
    """VF 1 with an MTU, a MAC and a name of its own, VF 2 on vfio-pci, and upstream's record."""
    (name,) = netdevs(pf)
    run("ip", "link", "set", name, "up")
    (PCI / pf / "sriov_numvfs").write_text(str(count))
    run("udevadm", "settle")
    run("modprobe", "vfio-pci")
    _give(_vf(pf, 2), "vfio-pci")
    run("ip", "link", "set", name, "vf", "1", "mac", MAC)
    _give(_vf(pf, 1), "")
    run("udevadm", "settle")
    (vf,) = netdevs(_vf(pf, 1))
    run("ip", "link", "set", vf, "name", "custom0", "mtu", "1400")
    RECORDS.mkdir(parents=True, exist_ok=True)
    (RECORDS / pf).write_text("{}")


def remove(pf: str) -> None:
    (PCI / pf / "sriov_numvfs").write_text("0")
    (name,) = netdevs(pf)
    run("ip", "link", "set", name, "down")
    run("udevadm", "settle")
    (RECORDS / pf).unlink()


def _vf(pf: str, index: int) -> str:
    return (PCI / pf / f"virtfn{index}").readlink().name


def _give(pci: str, override: str) -> None:
    if bound := driver(pci):
        Path(f"/sys/bus/pci/drivers/{bound}/unbind").write_text(pci)
    (PCI / pci / "driver_override").write_text(f"{override}\n")
    Path("/sys/bus/pci/drivers_probe").write_text(pci)
