"""`setpci -s ADDRESS CAP_EXP+OFFSET.w[=VALUE[:MASK]]` of a twin (pciutils setpci.c)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from podrail.host.seam import Ran
from podrail.host.twin import TwinHost
from podrail.host.twins.programs.answer import not_modelled, refused, said

_OPERATION = re.compile(
    r"CAP_EXP\+([0-9a-f]{1,3})\.w(?:=([0-9a-f]{1,4})(?::([0-9a-f]{1,4}))?)?", re.IGNORECASE
)
_LOCKED = ("[integrity]", "[confidentiality]")


def setpci(host: TwinHost, argv: Sequence[str]) -> Ran:
    """Reads, or writes the bits under the mask; without one, all of them."""
    if len(argv) != 4 or argv[1] != "-s":
        return not_modelled(argv)
    operation = _OPERATION.fullmatch(argv[3])
    if operation is None:
        return not_modelled(argv)
    function = host.functions.get(argv[2])
    if function is None:  # as pciutils 3.9 was seen to: a warning, and 0
        told = "setpci: Warning: No devices selected for operation group 1."
        return refused(argv, 0, told)
    config = f"{function.path}/config"
    raw = host.read_bytes(config)
    at = _express(raw)
    if at is None:
        told = "Instance #0 of Capability 0010 not found - there are no capabilities with that id."
        return refused(argv, 1, f"setpci: {function.address}: {told}")
    return _do(host, argv, config, raw, at + int(operation[1], 16), operation[2], operation[3])


def _do(
    host: TwinHost, argv: Sequence[str], config: str, raw: bytes, at: int,
    value: str | None, mask: str | None,
) -> Ran:  # fmt: skip
    now = int.from_bytes(raw[at : at + 2], "little")
    if value is None:
        return said(argv, f"{now:04x}\n")
    if any(word in host.text("/sys/kernel/security/lockdown") for word in _LOCKED):
        # drivers/pci/pci-sysfs.c:pci_write_config; pciutils lib/sysfs.c only warns of it
        return refused(argv, 0, "pcilib: sysfs_write: write failed: Operation not permitted")
    bits = 0xFFFF if mask is None else int(mask, 16)
    new = now & ~bits & 0xFFFF | int(value, 16)
    host.put(config, raw[:at] + new.to_bytes(2, "little") + raw[at + 2 :])
    return said(argv, "")


def _express(raw: bytes) -> int | None:
    """Where the PCI Express capability is: the list starts at 0x34 (PCI_CAPABILITY_LIST)."""
    at = raw[0x34]
    while at:
        if raw[at] == 0x10:
            return at
        at = raw[at + 1]
    return None
