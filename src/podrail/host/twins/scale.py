"""A big twin for benchmarks."""

from __future__ import annotations

from dataclasses import replace

from podrail.host.twin import TwinHost
from podrail.host.twins import machine
from podrail.host.twins.build import build
from podrail.host.twins.parts import hca, root_port
from podrail.host.twins.spec import Function, Port, Rdma, Root, Sriov

_FIRST_BUS = 0x10


def _nic(number: int, vfs: int) -> Function:
    bus = _FIRST_BUS + 4 * number
    port = Port(
        f"ens{number + 1}f0",
        f"b8:3f:d2:00:{number:02x}:00",
        200000,
        firmware="22.41.1000 (MT_0000000436)",
        rdma=Rdma(f"mlx5_{number}", f"b83f:d203:0000:{number:02x}00"),
    )
    return hca(f"0000:{bus:02x}:00.0", 0x101D, port, Sriov(vfs, 1, 1, 0x101E))


def _root(number: int, vfs: int) -> Root:
    bus = _FIRST_BUS + 4 * number - 1
    port = root_port(f"0000:{bus:02x}:01.0", _nic(number, vfs))
    return Root(f"0000:{bus:02x}", number % 2, (port,))


def scaled(pfs: int, vfs: int) -> TwinHost:
    """`roce-cx6` with `pfs` ConnectX-6 Dx in place of its one, each with `vfs` VFs made."""
    base = machine("roce-cx6")
    roots = (base.roots[0], *(_root(number, max(vfs, 128)) for number in range(pfs)))
    big = replace(base, roots=roots, mounts=(), gpu_driver=None)
    host = build(big, f"twin:scaled-{pfs}x{vfs}")
    for number in range(pfs):
        host.write(f"/sys/class/net/ens{number + 1}f0/device/sriov_numvfs", str(vfs))
    return host
