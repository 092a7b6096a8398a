"""What the kernel's errno means for a step, and what to do about it."""

from __future__ import annotations

import errno
import os

from podrail.realise.step import Step

_ANYWHERE: dict[int, tuple[str, str]] = {
    errno.EROFS: (
        "{path} is on a file system that cannot be written",
        "run podrail on the host itself, or give its container /sys read-write (privileged)",
    ),
    errno.EACCES: ("no permission to write {path}", "run as root: sudo podrail …"),
    errno.EPERM: (
        "the kernel does not permit writing {path}",
        "run as root with CAP_SYS_ADMIN and CAP_NET_ADMIN; in a container, privileged",
    ),
    errno.ENOSPC: ("no room left writing {path}", "make room on that disk, then apply again"),
}

# drivers/pci/iov.c:sriov_numvfs_store, sriov_enable
_NUMVFS: dict[int, tuple[str, str]] = {
    errno.ERANGE: (
        "the kernel refuses {to} VFs: more than sriov_totalvfs",
        "ask for fewer VFs, or raise NUM_OF_VFS in the card's firmware",
    ),
    errno.ENOMEM: (
        "the kernel finds no room for {to} VFs: the BIOS left too little address space or too few "
        "bus numbers below the bridge",
        "boot with pci=realloc (some machines also need pci=assign-busses), or switch on SR-IOV "
        "and above-4G decoding in the BIOS",
    ),
    errno.ENOENT: (
        "the driver of this PF cannot make VFs through sysfs, or no driver is bound",
        "bind a PF driver with SR-IOV support (`lspci -k` shows the one in use)",
    ),
    errno.EBUSY: ("the PF is busy or already has VFs", "see who uses them: podrail discover"),
    errno.EOPNOTSUPP: (
        "this PF cannot make VFs now: its firmware or its mode does not allow it",
        "a BlueField in DPU mode is governed from its Arm side; set it to NIC mode, or look at "
        "`mstconfig -d PCI q SRIOV_EN`",
    ),
    errno.ENODEV: ("the device went away while VFs were made", "look at `dmesg`"),
    errno.EIO: ("the card does not answer", "look at `dmesg` for its driver's last words"),
    errno.ETIMEDOUT: ("the card did not answer in time", "look at `dmesg`; try a driver rebind"),
}
_NUMVFS[errno.ENOSYS] = _NUMVFS[errno.EPROTO] = _NUMVFS[errno.EOPNOTSUPP]


def explain(step: Step, no: OSError) -> tuple[str, str]:
    """Reason and fix of a refusal by the kernel."""
    code = no.errno or 0
    special = _NUMVFS.get(code) if step.kind == "vfs" else None
    reason, fix = special or _ANYWHERE.get(code) or _plain(no)
    path = no.filename or step.target
    to = step.to.get("count") if isinstance(step.to, dict) else step.to
    said = os.strerror(code) if code else str(no)
    return f"{reason.format(path=path, to=to)} ({said})", fix


def _plain(no: OSError) -> tuple[str, str]:
    where = f"{no.filename}: " if no.filename else ""
    return f"{where}{no.strerror or no}".replace("{", "{{").replace("}", "}}"), (
        "look at `dmesg`, and at the machine with: podrail discover"
    )
