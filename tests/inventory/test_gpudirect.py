"""GPUs, and which of the two GPUDirect paths there is."""

from __future__ import annotations

import pytest

from podrail.host.memory import MemoryHost
from podrail.inventory import discover
from tests.inventory.machines import bare, function

OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build"
CLOSED = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.54.03  Tue Jun  6 22:20:39 UTC 2023"
ADDRESS = "0000:1b:00.0"


def machine(version: str | None, modules: str = "", kernel: str = "5.14.0-427") -> MemoryHost:
    host = bare()
    host.put("/proc/sys/kernel/osrelease", kernel)
    files = {
        "resource": "0x00000000a0000000 0x00000000a0ffffff 0x0000000000040200\n"
        "0x0000202000000000 0x0000203fffffffff 0x000000000014220c\n"
        "0x0000000000000000 0x0000000000000000 0x0000000000000000"
    }
    path = f"pci0000:00/{ADDRESS}"
    function(host, path, class_="030200", vendor="10de", device="2330", numa=1, files=files)
    host.put("/proc/modules", "".join(f"{m} 1 0 - Live 0x0\n" for m in modules.split()))
    if version is not None:
        host.put("/proc/driver/nvidia/version", f"{version}\nGCC version: 12\n")
        about = "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   100\nGPU UUID: \t GPU-1-2\n"
        host.put(f"/proc/driver/nvidia/gpus/{ADDRESS}/information", about)
    return host


def test_the_gpu() -> None:
    (found,) = discover(machine(OPEN)).gpus
    assert (found.pci, found.numa, found.uuid) == (ADDRESS, 1, "GPU-1-2")
    assert found.model == "NVIDIA H100 80GB HBM3"
    assert found.bar1 == 128 << 30


@pytest.mark.parametrize(
    ("version", "kernel", "number", "is_open", "dmabuf"),
    [
        pytest.param(OPEN, "5.14.0-427", "570.86.15", True, True, id="open"),
        pytest.param(OPEN, "5.12.0", "570.86.15", True, True, id="first-kernel"),
        pytest.param(OPEN, "5.11.22", "570.86.15", True, False, id="kernel-too-old"),
        pytest.param(OPEN, "odd", "570.86.15", True, None, id="kernel-unknown"),
        pytest.param(CLOSED, "6.12.0", "535.54.03", False, False, id="proprietary"),
    ],
)
def test_dmabuf_path(
    version: str, kernel: str, number: str, is_open: bool, dmabuf: bool | None
) -> None:
    stack = discover(machine(version, kernel=kernel)).gpu_stack
    assert (stack.driver_version, stack.open_module, stack.dmabuf) == (number, is_open, dmabuf)


def test_peermem_path_needs_the_registration_too() -> None:
    host = machine(CLOSED, "nvidia nvidia_peermem gdrdrv")
    assert discover(host).gpu_stack.peermem is False
    host.put("/sys/kernel/mm/memory_peers/nv_mem/version", "1.2\n")
    stack = discover(host).gpu_stack
    assert (stack.peermem, stack.gdrcopy, stack.nvidia_fs) == (True, True, False)


def test_a_registration_left_behind_is_not_peermem() -> None:
    host = machine(CLOSED, "nvidia")
    host.put("/sys/kernel/mm/memory_peers/nv_mem/version", "1.2\n")
    assert discover(host).gpu_stack.peermem is False


def test_no_driver() -> None:
    found = discover(machine(None))
    assert (found.gpu_stack.open_module, found.gpu_stack.dmabuf) == (None, None)
    assert "/proc/driver/nvidia/version" in {fact.path for fact in found.unknown}


def test_modules_that_cannot_be_listed_leave_peermem_unknown() -> None:
    host = machine(OPEN)
    host.remove("/proc/modules")
    found = discover(host)
    assert (found.gpu_stack.peermem, found.gpu_stack.gdrcopy) == (None, None)
    assert "/proc/modules" in {fact.path for fact in found.unknown}


@pytest.mark.parametrize(
    ("class_", "vendor", "is_gpu"),
    [
        ("030000", "10de", True),
        ("120000", "1002", True),
        ("030000", "1a03", False),
        ("040300", "10de", False),
    ],
    ids=["nvidia-vga", "accelerator", "bmc-vga", "hdmi-audio"],
)
def test_what_is_a_gpu(class_: str, vendor: str, is_gpu: bool) -> None:
    host = bare()
    function(host, f"pci0000:00/{ADDRESS}", class_=class_, vendor=vendor)
    assert bool(discover(host).gpus) is is_gpu
