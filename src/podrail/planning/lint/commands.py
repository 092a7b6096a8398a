"""Commands in scripts that fail, or prove something else than their author believes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from podrail.model.bundle import Bundle
from podrail.model.finding import Status
from podrail.planning.lint.registry import Hit, rule
from podrail.planning.lint.scripts import Script, scripts

# What one simple command may contain: everything up to the next one.
_REST = r"[^\n;|&]*"
_PIPE = r"[^\n;&]*"
_REDIRECT = r"\s\d?[<>].*"
# nvidia-smi, hostname or true before the run are there to wake the workers up
_USES_NCCL = r"(?:_perf\b|\bpython[\d.]*\s|\.py\b|\btorchrun\b|\bdeepspeed\b|nccl[-_]tests)"


@dataclass(frozen=True, slots=True)
class Slip:
    """Text that is a mistake wherever it stands in a script."""

    pattern: re.Pattern[str]
    actual: str
    expected: str
    fix: str

    def hits(self, script: Script) -> Iterator[Hit]:
        for found in self.pattern.finditer(script.code):
            quoted = " ".join(found[0].split())
            yield script.hit(
                found.start(),
                actual=self.actual.format(quoted),
                expected=self.expected,
                fix=self.fix,
            )


def _each(bundle: Bundle, *slips: Slip) -> Iterator[Hit]:
    for script in scripts(bundle):
        for slip in slips:
            yield from slip.hits(script)


@rule(
    "command.dd-cached",
    Status.WARN,
    "the figure is the page cache's as much as the storage's, from a single thread",
    errata=("E73",),
)
def dd_cached(bundle: Bundle) -> Iterator[Hit]:
    reading = re.compile(rf"\bdd\s(?={_REST}\bif=(?!/dev/zero)){_REST}\bof=/dev/null\b{_REST}")
    for script in scripts(bundle):
        for found in reading.finditer(script.code):
            if "direct" not in found[0]:
                shown = re.sub(_REDIRECT, "", found[0]).strip()
                yield script.hit(
                    found.start(),
                    actual=f"`{shown}` reads through the page cache",
                    expected="reads that reach the storage: `iflag=direct`, or fio with jobs",
                    fix="add `iflag=direct`, or measure with "
                    "`fio --direct=1 --rw=read --bs=1M --numjobs=8`",
                )


@rule(
    "command.peermem-proof",
    Status.WARN,
    "nvidia-peermem makes no such entry and is silent when it loads, so this always says no",
    errata=("E56", "E57", "E58"),
)
def peermem_proof(bundle: Bundle) -> Iterator[Hit]:
    where = "/sys/module/nvidia_peermem/version, or no peermem at all where DMA-BUF is used"
    fix = "read /sys/module/nvidia_peermem/version instead"
    yield from _each(
        bundle,
        Slip(re.compile(r"/proc/driver/nvidia-peermem\S*"), "`{}` does not exist", where, fix),
        Slip(
            re.compile(r"/sys/module/nvidia_peermem/parameters/peermem_enabled"),
            "`{}` is no parameter of the module",
            where,
            fix,
        ),
        Slip(
            re.compile(rf"\bdmesg\b{_REST}\|{_REST}\bgrep\b{_REST}peermem\"?"),
            "`{}` looks for a success message that is never printed",
            where,
            fix,
        ),
    )


@rule(
    "command.perftest-option",
    Status.WARN,
    "perftest stops with “Invalid Command or flag” and measures nothing",
    errata=("E92",),
)
def perftest_option(bundle: Bundle) -> Iterator[Hit]:
    known = r"(?:report_gbits|report-both|report-counters|report-per-port)\b"
    wrong = re.compile(rf"--(?!{known})report[\w-]*")
    yield from _each(
        bundle, Slip(wrong, "`{}` is no perftest option", "--report_gbits", "write --report_gbits")
    )


@rule(
    "command.rping-device",
    Status.WARN,
    "rping's -d switches debug output on and takes no value; the name is silently ignored",
    errata=("E91",),
)
def rping_device(bundle: Bundle) -> Iterator[Hit]:
    named = re.compile(rf"\brping\s{_REST}\s-d\s+[a-z]\w*\d\b")
    yield from _each(
        bundle,
        Slip(
            named,
            "`{}` names a device with -d",
            "the device follows from the address: `-I <source address>`",
            "drop `-d NAME` and bind the source with `-I <address of the VF>`",
        ),
    )


@rule(
    "command.setpci-unmasked",
    Status.FAIL,
    "a write without a mask replaces every bit of the register; CAP_EXP+10 (hex) is Link Control, "
    "where 0x20 retrains the link and the rest clears ASPM and the common clock",
    errata=("E67",),
)
def setpci_unmasked(bundle: Bundle) -> Iterator[Hit]:
    write = re.compile(rf"\bsetpci\s{_REST}?\s([\w+.]+=[0-9a-fA-F]+)(?![0-9a-fA-F]*:)(?=\s|$)")
    yield from _each(
        bundle,
        Slip(
            write,
            "`{}` writes without a mask",
            "a masked write; relaxed ordering is bit 4 of Device Control: CAP_EXP+8.w=0010:0010",
            "write `setpci -s <BDF> CAP_EXP+8.w=0010:0010`, or leave it: drivers set it already",
        ),
    )


@rule(
    "command.no-such-module",
    Status.FAIL,
    "there is no module of that name, so modprobe fails and what depends on it with it",
    errata=("E53", "E54"),
)
def no_such_module(bundle: Bundle) -> Iterator[Hit]:
    load = re.compile(rf"\b(?:modprobe|insmod)\s{_REST}\b(?:rpcrdma_core|dmabuf|dma_buf)\b")
    alone = re.compile(r"(?m)^\s*(?:rpcrdma_core|dmabuf|dma_buf)\s*$")
    wanted = "rpcrdma for NFS over RDMA; DMA-BUF is built into the kernel"
    fix = "load `rpcrdma`; for DMA-BUF load nothing"
    yield from _each(bundle, Slip(load, "`{}` loads a module that does not exist", wanted, fix))
    listed = Slip(alone, "`{}` is no kernel module", wanted, fix)
    for script in scripts(bundle):
        if script.resource.kind == "MachineConfig":  # a file of modules-load.d
            yield from listed.hits(script)


@rule(
    "command.lsmod-alias",
    Status.WARN,
    "lsmod never lists an alias or what is built in, so this says “missing” on a good node",
    errata=("E53", "E54"),
)
def lsmod_alias(bundle: Bundle) -> Iterator[Hit]:
    listed = re.compile(rf"\blsmod\b\s*\|{_PIPE}\b(?:xprtrdma|svcrdma|rpcrdma_core|dmabuf)\b")
    yield from _each(
        bundle,
        Slip(
            listed,
            "`{}` looks for a name lsmod cannot show",
            "rpcrdma (xprtrdma and svcrdma are aliases of it); DMA-BUF has no module",
            "test -d /sys/module/rpcrdma",
        ),
    )


@rule(
    "command.dmabuf-sysfs",
    Status.WARN,
    "the folder exists only with CONFIG_DMABUF_SYSFS_STATS and lists buffers, not abilities: "
    "its absence proves nothing",
    errata=("E55",),
)
def dmabuf_sysfs(bundle: Bundle) -> Iterator[Hit]:
    yield from _each(
        bundle,
        Slip(
            re.compile(r"/sys/kernel/dmabuf/buffers\S*"),
            "`{}` taken as proof of DMA-BUF",
            "CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, or `/GDRDMA` in NCCL's log",
            "ask CUDA for the attribute, or look for `via NET/IB/…/GDRDMA` with NCCL_DEBUG=INFO",
        ),
    )


@rule(
    "command.mlxconfig",
    Status.WARN,
    "the query comes back empty or the tool refuses, on hardware that is in order",
    errata=("E69", "E70"),
)
def mlxconfig(bundle: Bundle) -> Iterator[Hit]:
    tool = r"\b(?:mlxconfig|mstconfig)\s"
    yield from _each(
        bundle,
        Slip(
            re.compile(rf"{tool}{_PIPE}\b(?:RDMA_ENABLED|grep\s+(?:-\w+\s+)*\"?RDMA\b)"),
            "`{}` asks for a parameter no ConnectX has",
            "SRIOV_EN, NUM_OF_VFS, LINK_TYPE_P1/P2; RoCE is `devlink dev param … enable_roce`",
            "devlink dev param show pci/<BDF> name enable_roce",
        ),
        Slip(
            re.compile(rf"\bmstconfig\s{_REST}/dev/mst/\S+"),
            "`{}`: mstconfig does not read /dev/mst, which needs MFT's `mst start`",
            "the PCI address of the card",
            "mstconfig -d <BDF> query",
        ),
    )


@rule(
    "command.mpirun-env",
    Status.WARN,
    "Open MPI does not carry exported variables to other nodes, so the ranks there run without",
    errata=("E89",),
)
def mpirun_env(bundle: Bundle) -> Iterator[Hit]:
    launch = re.compile(rf"\bmpirun\s(?={_REST}{_USES_NCCL}){_REST}")
    for script in scripts(bundle):
        exported = set(re.findall(r"\bexport\s+(NCCL_\w+)=", script.code))
        for found in launch.finditer(script.code) if exported else ():
            missing = sorted(n for n in exported if not re.search(rf"-x\s+{n}\b", found[0]))
            if missing and "mca_base_env_list" not in found[0]:
                flags = " ".join(f"-x {name}" for name in missing)
                yield script.hit(
                    found.start(),
                    actual=f"mpirun without -x for {', '.join(missing)}, which the script exports",
                    expected="each variable named with -x",
                    fix=f"mpirun {flags} …",
                )


@rule(
    "command.rdma-client",
    Status.WARN,
    "rdma_client speaks its own protocol to rdma_server: against an NFS server it fails even when "
    "the path is good",
    errata=("E81",),
)
def rdma_client(bundle: Bundle) -> Iterator[Hit]:
    yield from _each(
        bundle,
        Slip(
            re.compile(rf"\brdma_client\s{_REST}\b20049\b"),
            "`{}` as a test of NFS over RDMA",
            "rping or ib_write_bw against a test server, or the mount itself",
            "mount -t nfs -o proto=rdma,port=20049 SERVER:/EXPORT /mnt/test",
        ),
    )


@rule(
    "command.gdr-proof",
    Status.WARN,
    "NCCL prints that line for what an adapter could do, not for what a channel uses",
    errata=("E90",),
)
def gdr_proof(bundle: Bundle) -> Iterator[Hit]:
    yield from _each(
        bundle,
        Slip(
            re.compile(rf"\bgrep\b{_REST}GPU Direct RDMA Enabled[\"']?"),
            "`{}` taken as proof of GPUDirect RDMA",
            "`via NET/IB/<n>/GDRDMA` on the channel lines",
            "grep 'via NET/IB/.*/GDRDMA'",
        ),
    )


@rule(
    "command.staged-read",
    Status.WARN,
    "a memory map fills the page cache and the copy to the GPU is staged by the driver: the CPU is "
    "in the path, whatever the script calls it",
    errata=("E72",),
)
def staged_read(bundle: Bundle) -> Iterator[Hit]:
    mapped = re.compile(r"\bmemmap\(")
    for script in scripts(bundle):
        claims = re.search(r"GPU ?Direct|\bGDS\b|\bcuFile\b", script.raw)
        copied = re.search(r"\.(?:to|cuda)\(", script.code)
        for found in mapped.finditer(script.code) if claims and copied else ():
            yield script.hit(
                found.start(),
                actual="np.memmap and a copy to the GPU, presented as GPUDirect Storage",
                expected="cuFile: gdsio, KvikIO or torch.cuda.gds, with O_DIRECT",
                fix="measure with gdsio, and check /proc/driver/nvidia-fs/stats grows",
            )


@rule(
    "command.dead-selector",
    Status.WARN,
    "no object or container has that name, so the command prints nothing or fails",
    errata=("E62", "E63", "E24"),
)
def dead_selector(bundle: Bundle) -> Iterator[Hit]:
    client = rf"\b(?:oc|kubectl)\s{_PIPE}"
    yield from _each(
        bundle,
        Slip(
            re.compile(rf"{client}-l\s+app=mofed(?![\w-])"),
            "`{}`: the label's value carries OS and kernel",
            "-l nvidia.com/ofed-driver",
            "select the driver pods with `-l nvidia.com/ofed-driver`",
        ),
        Slip(
            re.compile(rf"{client}-c\s+nvidia-driver(?![\w-])"),
            "`{}`: the container is called otherwise",
            "nvidia-driver-ctr, nvidia-peermem-ctr, nvidia-fs-ctr or nvidia-gdrcopy-ctr",
            "use `-c nvidia-driver-ctr` (peermem: `-c nvidia-peermem-ctr`)",
        ),
        Slip(
            re.compile(rf"{client}\bclusterpolic{_PIPE}useOpenKernelModules"),
            "`{}` sets a field that is ignored since GPU Operator v25.3.0",
            "driver.kernelModuleType: open",
            'patch \'{"spec":{"driver":{"kernelModuleType":"open"}}}\'',
        ),
    )
