"""What a pod needs beside its VF: locked memory, shared memory, rights, and mounts that follow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from podrail.model.bundle import Bundle, Resource
from podrail.model.document import Path
from podrail.model.finding import Status
from podrail.model.reach import at, items, mapping, text, texts
from podrail.planning.lint.homes import is_openshift, of_kind
from podrail.planning.lint.plugins import pools, shared_pools
from podrail.planning.lint.podspec import Container, Pod, bare, pods
from podrail.planning.lint.registry import Hit, rule
from podrail.planning.lint.storage import units
from podrail.planning.lint.view import policies


def rdma_resources(bundle: Bundle) -> set[str]:
    """Resources, without prefix, whose devices carry RDMA."""
    ib = {text(r.data, "spec", "resourceName") for r in of_kind(bundle, "SriovIBNetwork")}
    made = {p.model.spec.resource_name for p in policies(bundle) if _is_rdma(p.model.spec)}
    plugged = {
        pool.entry.resource_name
        for pool in pools(bundle)
        if any(s.is_rdma for s in pool.entry.selector_list())
    }
    shared = {pool.entry.resource_name for pool in shared_pools(bundle)}
    return (ib | made | plugged | shared) - {""}


def _is_rdma(spec: Any) -> bool:
    return bool(spec.is_rdma) or (spec.link_type or "").lower() == "ib"


def _rdma_containers(bundle: Bundle) -> Iterator[tuple[Pod, Container, str]]:
    """Containers that ask for an RDMA device, with its resource."""
    carrying = rdma_resources(bundle)
    for pod in pods(bundle):
        for container in pod.containers():
            for name in container.asked():
                if bare(name) in carrying:
                    yield pod, container, name
                    break


@rule(
    "pod.ipc-lock",
    Status.WARN,
    "RDMA memory is locked memory: without IPC_LOCK registration stops at the memlock limit, which "
    "container runtimes keep at a few MiB or less (“Cannot allocate memory”)",
    errata=("E38",),
)
def ipc_lock(bundle: Bundle) -> Iterator[Hit]:
    for pod, container, name in _rdma_containers(bundle):
        if not container.locks_memory:
            yield pod.hit(
                container.path,
                actual=f"container {container.name} asks for {name} without IPC_LOCK",
                expected="securityContext.capabilities.add: [IPC_LOCK]",
                fix="add securityContext: {capabilities: {add: [IPC_LOCK]}} to the container",
            )


@rule(
    "pod.ipc-lock-non-root",
    Status.WARN,
    "Kubernetes puts added capabilities into the bounding set only; a process that is not root has "
    "none of them in effect, and memlock stays small",
    errata=("E38",),
)
def ipc_lock_non_root(bundle: Bundle) -> Iterator[Hit]:
    for pod in pods(bundle):
        for container in pod.containers():
            found = _not_root(pod, container)
            if "IPC_LOCK" in container.capabilities() and found is not None:
                path, says = found
                yield pod.hit(
                    path,
                    actual=f"IPC_LOCK for container {container.name}, and {says}",
                    expected="a root user, or an unlimited memlock from the container runtime",
                    fix="run as root, or raise memlock in the runtime (CRI-O: default_ulimits "
                    "memlock=-1:-1) and check `ulimit -l` in the pod",
                )


def _not_root(pod: Pod, container: Container) -> tuple[Path, str] | None:
    """What makes the user another than root; the container's word counts before the pod's."""
    own: Path = (*container.path, "securityContext")
    shared: Path = (*pod.path, "spec", "securityContext")
    for name in ("runAsUser", "runAsNonRoot"):
        for base in (own, shared):
            value = at(pod.resource.data, *base, name)
            if value is not None:
                if value is True or (isinstance(value, int) and value > 0):
                    return (*base, name), f"{name}: {str(value).lower()}"
                break
    return None


@rule(
    "pod.shared-memory",
    Status.WARN,
    "a container's own /dev/shm is 64 MiB: NCCL inside the node and PyTorch's loaders run out of "
    "it and fail with bus errors",
    errata=("E38",),
)
def shared_memory(bundle: Bundle) -> Iterator[Hit]:
    for pod, container, _ in _rdma_containers(bundle):
        ready = at(pod.spec, "hostIPC") is True or _memory_backed(pod, container)
        if pod.gpus() and not ready:
            yield pod.hit(
                container.path,
                actual=f"container {container.name} has GPUs and RDMA, and no volume for /dev/shm",
                expected="an emptyDir with medium: Memory at /dev/shm",
                fix="add volume {name: shm, emptyDir: {medium: Memory, sizeLimit: 32Gi}} and mount "
                "it at /dev/shm",
            )


def _memory_backed(pod: Pod, container: Container) -> bool:
    memory = {
        text(volume, "name")
        for volume in items(pod.spec, "volumes")
        if at(volume, "emptyDir", "medium") == "Memory" or at(volume, "hostPath", "path")
    }
    mounts = items(container.data, "volumeMounts")
    at_shm = (m for m in mounts if text(m, "mountPath").rstrip("/") == "/dev/shm")  # noqa: S108
    return any(text(mount, "name") in memory for mount in at_shm)


@rule(
    "pod.privileged",
    Status.WARN,
    "a privileged container opens every RDMA device of the node, the other pods' too: a VF of its "
    "own separates nothing any more",
)
def privileged(bundle: Bundle) -> Iterator[Hit]:
    for pod, container, name in _rdma_containers(bundle):
        if container.privileged:
            yield pod.hit(
                (*container.path, "securityContext", "privileged"),
                actual=f"container {container.name} asks for {name} and is privileged",
                expected="capabilities.add: [IPC_LOCK], and no more",
                fix="drop privileged and add IPC_LOCK",
            )


@rule(
    "pod.infiniband-host-path",
    Status.WARN,
    "the device cgroup lets a container open only devices that a plugin gave it, so a mounted "
    "/dev/infiniband lists devices that cannot be opened",
)
def infiniband_host_path(bundle: Bundle) -> Iterator[Hit]:
    for pod in pods(bundle):
        for number, volume in enumerate(items(pod.spec, "volumes")):
            path = text(volume, "hostPath", "path")
            if path == "/dev/infiniband" or path.startswith("/dev/infiniband/"):
                yield pod.hit(
                    (*pod.path, "spec", "volumes", number, "hostPath", "path"),
                    actual=f"{path} of the host as a volume",
                    expected="a resource of a device plugin, which brings the device files",
                    fix="delete the volume and ask for the VF's resource",
                )


# --- host paths -------------------------------------------------------------------------------


@rule(
    "pod.mount-propagation",
    Status.WARN,
    "without propagation a container keeps what was there when it started: an empty folder if the "
    "mount came later, a dead mount after a remount",
    errata=("E84",),
)
def mount_propagation(bundle: Bundle) -> Iterator[Hit]:
    mounted = [found[0] for unit in units(bundle) if (found := unit.setting("Where"))]
    for pod in pods(bundle):
        paths = {text(v, "name"): text(v, "hostPath", "path") for v in items(pod.spec, "volumes")}
        for container in pod.containers():
            for number, mount in enumerate(items(container.data, "volumeMounts")):
                path = paths.get(text(mount, "name"), "")
                follows = text(mount, "mountPropagation") in ("HostToContainer", "Bidirectional")
                if _is_mount(path, mounted) and not follows:
                    yield pod.hit(
                        (*container.path, "volumeMounts", number),
                        actual=f"{path} of the host, a mount point, without mountPropagation",
                        expected="mountPropagation: HostToContainer",
                        fix="add it, or better use a PersistentVolume: type Directory also "
                        "passes when nothing is mounted",
                    )


def _is_mount(path: str, mounted: list[str]) -> bool:
    """Made by a unit of this bundle, or in a place that is for mounts."""
    known = [m.removeprefix("/var") if m.startswith("/var/mnt") else m for m in mounted]
    plain = path.removeprefix("/var") if path.startswith("/var/mnt") else path
    return bool(path) and (plain.startswith("/mnt/") or plain in known)


# --- OpenShift's security constraints -----------------------------------------------------------


@rule(
    "pod.scc",
    Status.WARN,
    "OpenShift's restricted-v2 allows neither added capabilities nor host paths: the pod is "
    "refused (“unable to validate against any security context constraint”)",
    errata=("E37",),
)
def scc(bundle: Bundle) -> Iterator[Hit]:
    if not is_openshift(bundle):
        return
    for pod in pods(bundle):
        wants = _special(pod)
        if wants and not _admitted(pod) and not _has_scc(bundle, pod):
            what, path = next(iter(wants.items()))
            account = text(pod.spec, "serviceAccountName") or "default"
            yield pod.hit(
                path,
                actual=f"{', '.join(wants)}, and nothing here gives ServiceAccount {account} an "
                "SCC that allows it",
                expected=f"an SCC with {what} for system:serviceaccount:"
                f"{pod.namespace or '<namespace>'}:{account}",
                fix="add a SecurityContextConstraints that names the ServiceAccount under `users`, "
                "or a RoleBinding to one",
            )


def _admitted(pod: Pod) -> bool:
    """OpenShift's admission writes the SCC it found into the pod."""
    return pod.resource.kind == "Pod" and bool(pod.annotations.get("openshift.io/scc"))


def _special(pod: Pod) -> dict[str, Path]:
    """What restricted-v2 would refuse, with its place."""
    found: dict[str, Path] = {}
    for container in pod.containers():
        base: Path = (*container.path, "securityContext")
        for name in container.capabilities():
            if name != "NET_BIND_SERVICE":
                found.setdefault(name, (*base, "capabilities", "add"))
        if container.privileged:
            found.setdefault("privileged", (*base, "privileged"))
    for number, volume in enumerate(items(pod.spec, "volumes")):
        if at(volume, "hostPath") is not None:
            found.setdefault("hostPath", (*pod.path, "spec", "volumes", number, "hostPath"))
    return found


def _has_scc(bundle: Bundle, pod: Pod) -> bool:
    constraints = of_kind(bundle, "SecurityContextConstraints")
    bindings = of_kind(bundle, "RoleBinding", "ClusterRoleBinding")
    return any(_names(c, pod) for c in constraints) or any(
        _binds(bundle, binding, pod) for binding in bindings
    )


def _account(pod: Pod) -> str:
    spec = pod.spec
    return text(spec, "serviceAccountName") or text(spec, "serviceAccount") or "default"


def _names(constraint: Resource, pod: Pod) -> bool:
    space = pod.namespace or "default"
    user = f"system:serviceaccount:{space}:{_account(pod)}"
    groups = {f"system:serviceaccounts:{space}", "system:serviceaccounts", "system:authenticated"}
    named = texts(constraint.data, "users")
    return user in named or bool(groups & set(texts(constraint.data, "groups")))


def _binds(bundle: Bundle, binding: Resource, pod: Pod) -> bool:
    """Whether a binding gives the pod's account a role that may use an SCC."""
    subjects = items(binding.data, "subjects")
    ours = any(
        text(s, "name") == _account(pod) and text(s, "namespace") in ("", pod.namespace or "")
        for s in subjects
    )
    return ours and _uses_scc(bundle, text(binding.data, "roleRef", "name"))


def _uses_scc(bundle: Bundle, role: str) -> bool:
    if role.startswith("system:openshift:scc:") or role == "cluster-admin":
        return True
    roles = (r for r in of_kind(bundle, "Role", "ClusterRole") if r.name == role)
    rules = (entry for r in roles for entry in items(r.data, "rules"))
    return any("securitycontextconstraints" in texts(entry, "resources") for entry in rules)


@rule(
    "pod.scc-too-narrow",
    Status.FAIL,
    "the SCC names this ServiceAccount and does not allow what its pod asks for",
    errata=("E37",),
)
def scc_too_narrow(bundle: Bundle) -> Iterator[Hit]:
    for pod in pods(bundle):
        named = [c for c in of_kind(bundle, "SecurityContextConstraints") if _names(c, pod)]
        for what, path in () if _admitted(pod) else _special(pod).items():
            if named and not any(_allows(mapping(c.data), what) for c in named):
                yield pod.hit(
                    path,
                    actual=f"{what}, which {named[0].subject} does not allow",
                    expected=_wanted(what),
                    fix=f"add {_wanted(what)} to the SCC",
                )


def _allows(constraint: dict[str, Any], what: str) -> bool:
    if constraint.get("allowPrivilegedContainer") is True:
        return True
    if what == "hostPath":
        return constraint.get("allowHostDirVolumePlugin") is True
    allowed = texts(constraint, "allowedCapabilities")
    return what != "privileged" and bool({what, "*"} & set(allowed))


def _wanted(what: str) -> str:
    fields = {
        "hostPath": "allowHostDirVolumePlugin: true",
        "privileged": "allowPrivilegedContainer: true",
    }
    return fields.get(what, f"allowedCapabilities: [{what}]")
