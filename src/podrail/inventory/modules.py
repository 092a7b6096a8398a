"""Kernel modules and who uses them."""

from __future__ import annotations

from podrail.inventory.reader import Reader
from podrail.model.inventory import Module

_PROC = "/proc/modules"
_VERSIONED = (
    *("mlx5_core", "mlx5_ib", "mlx_compat", "ice", "iavf", "irdma", "bnxt_en", "bnxt_re", "igb"),
    *("ib_core", "ib_uverbs", "ib_ipoib", "rdma_cm", "rdma_ucm", "rpcrdma", "ko2iblnd", "lustre"),
    *("nvidia", "nvidia_peermem", "nvidia_uvm", "nvidia_fs", "gdrdrv"),
)


def read_modules(reader: Reader) -> tuple[Module, ...] | None:
    """The loaded modules in order of name; None where the kernel does not list them."""
    text = reader.text(_PROC, absent="no such file: the kernel has no loadable modules")
    if text is None:
        return None
    rows = (line.split() for line in text.splitlines())
    return tuple(sorted((_module(reader, row) for row in rows if len(row) > 3), key=_name))


def _module(reader: Reader, row: list[str]) -> Module:
    """`name size count users, state address`; `-` stands for no users."""
    name, users = row[0], row[3]
    return Module(
        name=name,
        used_by=tuple(user for user in users.split(",") if user.isidentifier()),
        version=reader.text(f"/sys/module/{name}/version") if name in _VERSIONED else None,
    )


def _name(module: Module) -> str:
    return module.name
