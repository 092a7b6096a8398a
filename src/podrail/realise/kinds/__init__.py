"""Every kind of step, entered in the registry by being imported."""

from podrail.realise.kinds import (
    cpu,
    driver,
    eswitch,
    ethtool,
    files,
    firmware,
    kernel_args,
    link,
    memlock,
    pcie,
    rdma_mode,
    roce,
    vf_settings,
    vfs,
)

__all__ = [
    "cpu",
    "driver",
    "eswitch",
    "ethtool",
    "files",
    "firmware",
    "kernel_args",
    "link",
    "memlock",
    "pcie",
    "rdma_mode",
    "roce",
    "vf_settings",
    "vfs",
]
