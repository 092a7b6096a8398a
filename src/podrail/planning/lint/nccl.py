"""NCCL's environment, from wherever it is set: container env, exports in scripts, ConfigMaps."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from podrail.model.bundle import Bundle, Resource
from podrail.model.document import Path
from podrail.model.finding import Status, Where
from podrail.model.reach import items, mapping, text
from podrail.planning.lint.memo import once
from podrail.planning.lint.podspec import Pod, is_gpu, pods
from podrail.planning.lint.registry import Hit, rule
from podrail.planning.lint.scripts import Script, scripts

_IN_SCRIPT = re.compile(
    r"(?:\bexport\s+|-x\s+|^|(?<=[\s;&]))(?P<name>NCCL_\w+)=(?P<quote>[\"']?)(?P<value>[^\s\"';]*)"
)
_LEVELS = ("LOC", "NVL", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS")
_OLD_LEVELS = ("LOC", "PIX", "PXB", "PHB", "SYS", "SYS")

_KNOWN = (
    "NCCL_SOCKET_IFNAME", "NCCL_SOCKET_FAMILY", "NCCL_IB_HCA", "NCCL_IB_DISABLE",
    "NCCL_IB_GID_INDEX", "NCCL_IB_TC", "NCCL_IB_SL", "NCCL_IB_TIMEOUT", "NCCL_IB_RETRY_CNT",
    "NCCL_IB_QPS_PER_CONNECTION", "NCCL_IB_PCI_RELAXED_ORDERING", "NCCL_IB_ADAPTIVE_ROUTING",
    "NCCL_IB_CUDA_SUPPORT", "NCCL_IB_MERGE_NICS", "NCCL_NET", "NCCL_NET_PLUGIN",
    "NCCL_NET_GDR_LEVEL", "NCCL_NET_GDR_READ", "NCCL_NET_GDR_C2C", "NCCL_DMABUF_ENABLE",
    "NCCL_P2P_LEVEL", "NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE", "NCCL_DEBUG", "NCCL_DEBUG_SUBSYS",
    "NCCL_DEBUG_FILE", "NCCL_TOPO_FILE", "NCCL_CROSS_NIC", "NCCL_ALGO", "NCCL_PROTO",
    "NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS", "NCCL_BUFFSIZE", "NCCL_NVLS_ENABLE",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Setting:
    """One NCCL variable and where it is set."""

    resource: Resource
    path: Path
    where: Where
    name: str
    value: str
    pod: Pod | None

    @property
    def on_rail(self) -> bool:
        """Whether the pod was given a rail at all."""
        if self.pod is None:
            return False
        devices = [name for name in self.pod.asked() if not is_gpu(name)]
        return bool(self.pod.networks().refs or devices)

    def hit(self, *, expected: str, fix: str, actual: str = "") -> Hit:
        shown = actual or f"{self.name}={self.value}"
        return Hit(self.resource, self.path, shown, expected, fix, where=self.where)


@once
def settings(bundle: Bundle) -> Iterator[Setting]:
    """Every NCCL variable with a literal value."""
    for pod in pods(bundle):
        yield from _from_env(pod)
    for script in scripts(bundle):
        yield from _from_script(script, pods(bundle))
    for resource in bundle.resources:
        yield from _from_configmap(resource)


def _from_env(pod: Pod) -> Iterator[Setting]:
    for container in pod.containers():
        for number, entry in enumerate(items(container.data, "env")):
            name, value = text(entry, "name"), text(entry, "value")
            if name.startswith("NCCL_") and value:
                path: Path = (*container.path, "env", number, "value")
                where = pod.resource.where(*path)
                yield Setting(pod.resource, path, where, name, value.strip(), pod)


def _from_script(script: Script, among: Iterable[Pod]) -> Iterator[Setting]:
    for match in _IN_SCRIPT.finditer(script.code):
        path, where = script.place(match.start("name"))
        pod = next((p for p in among if _holds(p, script.resource, path)), None)
        yield Setting(script.resource, path, where, match["name"], match["value"], pod)


def _holds(pod: Pod, resource: Resource, path: Path) -> bool:
    return pod.resource is resource and path[: len(pod.path)] == pod.path


def _from_configmap(resource: Resource) -> Iterator[Setting]:
    """A ConfigMap taken in with envFrom: its keys are the variables."""
    if resource.kind != "ConfigMap":
        return
    for name, value in mapping(resource.data, "data").items():
        if name.startswith("NCCL_") and isinstance(value, str):
            path: Path = ("data", name)
            yield Setting(resource, path, resource.where(*path), name, value.strip(), None)


def _of(bundle: Bundle, *names: str) -> Iterator[Setting]:
    return (setting for setting in settings(bundle) if setting.name in names)


def _number(value: str) -> int | None:
    """As NCCL reads a number (strtoll, base 0); None for other text."""
    try:
        return int(value, 0)
    except ValueError:
        return None


@rule(
    "pod.nccl-ib-disabled",
    Status.FAIL,
    "NCCL then leaves the rail alone and sends everything over TCP",
)
def ib_disabled(bundle: Bundle) -> Iterator[Hit]:
    for setting in _of(bundle, "NCCL_IB_DISABLE", "NCCL_NET"):
        socket = setting.name == "NCCL_NET" and setting.value.lower() == "socket"
        off = setting.name == "NCCL_IB_DISABLE" and bool(_number(setting.value))
        if setting.on_rail and (socket or off):
            yield setting.hit(
                actual=f"{setting.name}={setting.value} in a pod that has an RDMA network",
                expected="no such setting",
                fix=f"delete {setting.name}",
            )


@rule(
    "pod.nccl-noop",
    Status.WARN,
    "0 is the default, and NCCL reads any word as 0: the line does nothing",
    errata=("E87",),
)
def noop(bundle: Bundle) -> Iterator[Hit]:
    for setting in _of(bundle, "NCCL_IB_DISABLE", "NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE"):
        if not _number(setting.value):
            yield setting.hit(expected="no such line", fix=f"delete {setting.name}")


@rule(
    "pod.nccl-gdr-level",
    Status.WARN,
    "numbers are the old form: 5 means SYS, GPUDirect even across sockets, which can be slower "
    "than the default that already allows it where it is good",
    errata=("E86",),
)
def gdr_level(bundle: Bundle) -> Iterator[Hit]:
    for setting in _of(bundle, "NCCL_NET_GDR_LEVEL", "NCCL_P2P_LEVEL"):
        level = _number(setting.value)
        if level is None and setting.value.upper() in _LEVELS:
            continue
        means = _OLD_LEVELS[min(max(level, 0), 5)] if level is not None else "nothing"
        yield setting.hit(
            actual=f"{setting.name}={setting.value}, which means {means}",
            expected="no setting, or one of PIX, PXB, PHB, SYS after measuring",
            fix=f"delete {setting.name}; compare with PXB and SYS by all_reduce_perf",
        )


@rule(
    "pod.nccl-socket-ifname",
    Status.WARN,
    "it chooses the interface of bootstrap and TCP, never the RDMA device: that is NCCL_IB_HCA. "
    "The cluster network is the safer bootstrap",
    errata=("E88",),
)
def socket_ifname(bundle: Bundle) -> Iterator[Hit]:
    for setting in _of(bundle, "NCCL_SOCKET_IFNAME"):
        if setting.value.startswith("^"):
            continue
        named = [part.strip("= ").partition(":")[0] for part in setting.value.split(",")]
        if any(re.fullmatch(r"net\d*", name) or name in _rails(setting) for name in named):
            yield setting.hit(
                actual=f"NCCL_SOCKET_IFNAME={setting.value}, an interface of the rail",
                expected="eth0, or no setting",
                fix="set NCCL_SOCKET_IFNAME=eth0, and NCCL_IB_HCA if a device must be chosen",
            )


def _rails(setting: Setting) -> set[str]:
    refs = setting.pod.networks().refs if setting.pod else ()
    return {ref.interface for ref in refs if ref.interface}


@rule(
    "pod.nccl-hca-prefix",
    Status.WARN,
    "without `=` NCCL compares the beginning of the name: mlx5_1 also takes mlx5_10 to mlx5_19, "
    "which with VFs are there",
)
def hca_prefix(bundle: Bundle) -> Iterator[Hit]:
    for setting in _of(bundle, "NCCL_IB_HCA"):
        listed = setting.value.lstrip("^")
        loose = [n for n in listed.split(",") if re.search(r"_\d+(?::\d+)?$", n.strip())]
        if loose and not listed.startswith("="):
            negated = "^" if setting.value.startswith("^") else ""
            yield setting.hit(
                actual=f"NCCL_IB_HCA={setting.value} matches every name that begins so",
                expected=f"NCCL_IB_HCA={negated}={listed}",
                fix=f"write {negated}={listed}",
            )


@rule(
    "pod.nccl-gid-index",
    Status.WARN,
    "the index of the RoCE v2 GID differs between nodes and changes when addresses do; NCCL 2.21 "
    "and newer find it by themselves",
)
def gid_index(bundle: Bundle) -> Iterator[Hit]:
    for setting in _of(bundle, "NCCL_IB_GID_INDEX"):
        index = _number(setting.value)
        if index is not None and index >= 0:
            yield setting.hit(
                expected="no setting",
                fix="delete it; for a choice set NCCL_IB_ROCE_VERSION_NUM=2 or "
                "NCCL_IB_ADDR_RANGE=<subnet>",
            )


@rule(
    "pod.nccl-p2p-disabled",
    Status.WARN,
    "GPUs of one node then talk through host memory instead of NVLink: a setting for finding "
    "faults that was left in",
)
def p2p_disabled(bundle: Bundle) -> Iterator[Hit]:
    for setting in _of(bundle, "NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE"):
        if _number(setting.value):
            yield setting.hit(expected="no setting", fix=f"delete {setting.name}")


@rule(
    "pod.nccl-unknown",
    Status.WARN,
    "NCCL ignores a variable it does not know, without a word",
)
def unknown(bundle: Bundle) -> Iterator[Hit]:
    folded = {re.sub(r"_", "", name): name for name in _KNOWN}
    for setting in settings(bundle):
        meant = folded.get(setting.name.upper().replace("_", ""))
        if setting.name not in _KNOWN and meant is not None:
            yield setting.hit(
                actual=f"variable {setting.name}", expected=meant, fix=f"rename it to {meant}"
            )
