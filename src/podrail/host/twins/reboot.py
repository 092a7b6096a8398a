"""A reboot of a twin: the machine comes up again from what outlives one."""

from __future__ import annotations

from podrail.host.twin import TwinHost
from podrail.host.twins import build, kept
from podrail.host.twins.modules import unload
from podrail.host.twins.programs import bootloader, mstconfig, rdma

LASTING = ("/boot/", "/etc/", f"{kept.ROOT}/firmware/", "/var/lib/")
_OUTSIDE = ("_programs", "_watches", "objects", "refusals")
"""What is no state of the kernel: what is installed, who looks, what was told to fail."""
_BOOT_ID = "/proc/sys/kernel/random/boot_id"


def reboot(host: TwinHost) -> None:
    """Disks and flash stay; VFs, MTUs, modes and whatever else was set in the kernel are gone.

    Faults in programs, modules, writes and firmware stay; those in files of sysfs do not.
    """
    machine = host.machine
    assert machine is not None
    cmdline = bootloader.next_cmdline(host) or host.text("/proc/cmdline")
    lasting = {path: text for path, text in host._files.items() if path.startswith(LASTING)}
    stays = {name: vars(host)[name] for name in _OUTSIDE}
    boot, modules = _boots(host), host.modules
    TwinHost.__init__(host, host.label, host.labels)
    build.boot(host, machine)
    for name in [name for name in host.modules if name not in modules]:
        unload(host, name)
    for place in LASTING:
        host.remove(place.rstrip("/"))
    for path, text in lasting.items():
        host.put(path, text)
    vars(host).update(stays)
    host.put("/proc/cmdline", f"{cmdline}\n")
    host.put(_BOOT_ID, f"00000000-0000-4000-8000-{boot + 1:012x}\n")
    mstconfig.boot(host)
    rdma.follow_options(host)


def _boots(host: TwinHost) -> int:
    return int(host.text(_BOOT_ID, "0").rpartition("-")[2], 16)
