"""What a host profile tunes, in the files of a twin: governors, RoCE's ECN, rdma_cm's configfs."""

from __future__ import annotations

import errno
from collections.abc import Sequence

from podrail.host.seam import Ran, exists
from podrail.host.twin import TwinHost, Writer, fail
from podrail.host.twins.kept import keep, kept
from podrail.host.twins.programs.answer import not_modelled, refused, said

CPUFREQ = "/sys/devices/system/cpu/cpufreq"
RDMA_CM = "/sys/kernel/config/rdma_cm"
_GOVERNORS = "performance powersave \n"  # drivers/cpufreq/intel_pstate.c: show_scaling_available_…


def show(host: TwinHost) -> None:
    """The files, on machines that have what they are about."""
    for policy in sorted(host.names(CPUFREQ)):
        host.put(f"{CPUFREQ}/{policy}/scaling_available_governors", _GOVERNORS)
    if host.loaded("rdma_cm"):
        host.put_dir(RDMA_CM)


def show_ecn(host: TwinHost, name: str) -> None:
    """What NVIDIA's own driver adds to a port (mlnx-ofa_kernel en_ecn.c), not the inbox one."""
    path = host.netdevs[name].path
    for side in ("roce_np", "roce_rp"):
        for priority in range(8):
            host.put(f"{path}/ecn/{side}/enable/{priority}", "1\n")


def _store_governor(host: TwinHost, real: str, text: str) -> None:
    """drivers/cpufreq/cpufreq.c:store_scaling_governor: EINVAL for one that is not there."""
    offered = host.text(f"{real.rpartition('/')[0]}/scaling_available_governors").split()
    if text.strip() not in offered:
        raise fail(errno.EINVAL, real)
    host.put(real, f"{text.strip()}\n")


def _store_ecn(host: TwinHost, real: str, text: str) -> None:
    if "/ecn/roce_" not in real:
        raise fail(errno.EACCES, real)
    if text.strip() not in ("0", "1"):
        raise fail(errno.EINVAL, real)
    host.put(real, f"{text.strip()}\n")


def _store_tos(host: TwinHost, real: str, text: str) -> None:
    """drivers/infiniband/core/cma_configfs.c:default_roce_tos_store takes a u8."""
    try:
        tos = int(text, 0)
    except ValueError:
        raise fail(errno.EINVAL, real) from None
    if not 0 <= tos <= 255:
        raise fail(errno.ERANGE, real)
    host.put(real, f"{tos}\n")


WRITERS: dict[str, Writer] = {
    "scaling_governor": _store_governor,
    "default_roce_tos": _store_tos,
    **{str(priority): _store_ecn for priority in range(8)},
}


# --- mkdir and rmdir, as far as configfs knows them ---------------------------------------------


def mkdir(host: TwinHost, argv: Sequence[str]) -> Ran:
    """A view of an RDMA device; the kernel keeps the values where there is none."""
    device = _device(argv)
    if device is None:
        return not_modelled(argv)
    told = f"mkdir: cannot create directory '{argv[1]}'"
    ports = f"/sys/class/infiniband/{device}/ports"
    if not exists(host, ports):
        return refused(argv, 1, f"{told}: No such device")
    if host.names(argv[1]):
        return refused(argv, 1, f"{told}: File exists")
    values = kept(host, "rdma_cm", device) or {}
    for port in host.entries(ports):
        place = f"{argv[1]}/ports/{port}"
        host.put(f"{place}/default_roce_mode", "RoCE v2\n")
        host.put(f"{place}/default_roce_tos", f"{values.get(port, 0)}\n")
    return said(argv, "")


def rmdir(host: TwinHost, argv: Sequence[str]) -> Ran:
    """Closes the view; the default groups below go with it (configfs_rmdir)."""
    device = _device(argv)
    if device is None:
        return not_modelled(argv)
    ports = host.names(f"{argv[1]}/ports")
    if not ports:
        told = f"rmdir: failed to remove '{argv[1]}': No such file or directory"
        return refused(argv, 1, told)
    values = {p: int(host.text(f"{argv[1]}/ports/{p}/default_roce_tos")) for p in ports}
    keep(host, "rdma_cm", device, values)
    host.remove(argv[1])
    return said(argv, "")


def _device(argv: Sequence[str]) -> str | None:
    above, _, device = argv[1].rpartition("/") if len(argv) == 2 else ("", "", "")
    return device if above == RDMA_CM else None
