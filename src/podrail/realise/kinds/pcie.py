"""PCI Express Device Control of a PF: relaxed ordering and the size of its read requests.

Only the two fields are written, under a mask, and only on the PF: its VFs follow it (PCI Express
6.0, 9.3.5.4), and the port above it is another device.
"""

from __future__ import annotations

from collections.abc import Mapping

from podrail.host.seam import Host
from podrail.inventory.pci import parse_config
from podrail.realise.functions import at, require
from podrail.realise.step import Failed, Value, kind
from podrail.realise.verified import Verified, ask, complaint

# include/uapi/linux/pci_regs.h: PCI_EXP_DEVCTL_RELAX_EN, PCI_EXP_DEVCTL_READRQ
RELAX, READ_REQUEST, _READ_SHIFT = 0x0010, 0x7000, 12
_REGISTER = "CAP_EXP+8.w"
_WHOLE = 256
"""Below it the kernel gives an unprivileged reader the first 64 bytes only."""


def device_control(value: Mapping[str, Value]) -> tuple[int, int]:
    """What to write into Device Control, and the mask of the bits that are meant."""
    bits = mask = 0
    if "relaxedOrdering" in value:
        mask |= RELAX
        bits |= RELAX if value["relaxedOrdering"] else 0
    if "maxReadRequest" in value:
        mask |= READ_REQUEST
        bits |= (int(value["maxReadRequest"]).bit_length() - 8) << _READ_SHIFT
    return bits, mask


@kind
class Pcie(Verified):
    """`relaxedOrdering` and `maxReadRequest` (bytes)."""

    name = "pcie"
    advice = (
        "kernel lockdown (Secure Boot) lets nobody write configuration space: look at "
        "/sys/kernel/security/lockdown; there the BIOS must set it, or leave `pcie` out"
    )

    def read(self, host: Host, target: str) -> Value:
        require(host, target)
        raw = host.read_bytes(f"{at(target)}/config")
        if len(raw) < _WHOLE:
            raise Failed(
                f"{target} shows {len(raw)} bytes of its configuration space", "run as root"
            )
        config = parse_config(raw)
        if config.max_read_request is None:
            raise Failed(f"{target} has no PCI Express capability", "leave out `pcie` for this NIC")
        return {
            "relaxedOrdering": config.relaxed_ordering,
            "maxReadRequest": config.max_read_request,
        }

    def set(self, host: Host, target: str, value: Mapping[str, Value]) -> None:
        bits, mask = device_control(value)
        argv = ("setpci", "-s", target, f"{_REGISTER}={bits:04x}:{mask:04x}")
        ran = ask(host, argv, "pciutils")
        if ran.rc:
            raise Failed(complaint(ran), "run as root")
