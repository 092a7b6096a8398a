"""NFS mount options, wherever they are written: mount units, PersistentVolumes, StorageClasses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from podrail.model.bundle import Bundle, Resource
from podrail.model.document import Path
from podrail.model.finding import Status, Where
from podrail.model.reach import items, line_of, text
from podrail.planning.lint.drivers import enables_nfs, ofed_drivers
from podrail.planning.lint.homes import of_kind
from podrail.planning.lint.memo import once
from podrail.planning.lint.registry import Hit, rule
from podrail.planning.lint.scripts import unit_texts

_RDMA_PORT = "20049"


@dataclass(frozen=True, slots=True)
class Mount:
    """One NFS mount with its options and the place of each."""

    resource: Resource
    options: tuple[tuple[str, Path, Where], ...]

    def value(self, name: str) -> str | None:
        """The last value given to an option; empty for a bare word."""
        found = [o.partition("=") for o, _, _ in self.options]
        values = [value for key, _, value in found if key == name]
        return values[-1] if values else None

    @property
    def rdma(self) -> bool:
        return self.value("rdma") is not None or (self.value("proto") or "").startswith("rdma")

    def hit(self, name: str, *, actual: str, expected: str, fix: str) -> Hit:
        """A finding at one option."""
        _, path, where = next(o for o in self.options if o[0].partition("=")[0] == name)
        return Hit(self.resource, path, actual, expected, fix, where=where)


@once
def nfs_mounts(bundle: Bundle) -> Iterator[Mount]:
    """Every NFS mount of a bundle that states options."""
    for resource in of_kind(bundle, "PersistentVolume", "StorageClass"):
        found = _volume(resource)
        if found is not None and found.options:
            yield found
    for resource in of_kind(bundle, "MachineConfig"):
        yield from _units(resource)


def _volume(resource: Resource) -> Mount | None:
    data = resource.data
    spec: Path = () if resource.kind == "StorageClass" else ("spec",)
    driver = text(data, "provisioner") + text(data, "spec", "csi", "driver")
    if "nfs" not in driver and not text(data, "spec", "nfs", "path"):
        return None
    path: Path = (*spec, "mountOptions")
    options = [(n, str(o)) for n, o in enumerate(items(data, *path))]
    return Mount(
        resource,
        tuple(
            (part.strip(), (*path, n), resource.where(*path, n))
            for n, option in options
            for part in option.split(",")
        ),
    )


def _units(resource: Resource) -> Iterator[Mount]:
    for path, contents in unit_texts(resource):
        for number, line in enumerate(contents.splitlines()):
            found = re.match(r"\s*Options\s*=\s*(.+)", line)
            if found and re.search(r"(?m)^\s*Type\s*=\s*nfs", contents):
                where = line_of(resource, path, number)
                options = (o.strip() for o in found[1].split(","))
                yield Mount(resource, tuple((o, path, where) for o in options))


@rule(
    "mount.rdma-port-over-tcp",
    Status.FAIL,
    "20049 is the RDMA service port: a TCP connection to it is refused or hangs",
)
def rdma_port_over_tcp(bundle: Bundle) -> Iterator[Hit]:
    for mount in nfs_mounts(bundle):
        if mount.value("port") == _RDMA_PORT and not mount.rdma:
            yield mount.hit(
                "port",
                actual=f"port={_RDMA_PORT} and no `rdma` or `proto=rdma`: the transport is TCP",
                expected="proto=rdma,port=20049 for RDMA, or port 2049 for TCP",
                fix="add `proto=rdma`",
            )


@rule(
    "mount.rdma-not-enabled",
    Status.WARN,
    "with the DOCA-OFED container the kernel's own rpcrdma no longer fits, and the container "
    "brings its own only when asked: the mount fails",
)
def rdma_not_enabled(bundle: Bundle) -> Iterator[Hit]:
    drivers = list(ofed_drivers(bundle))
    if not drivers or any(enables_nfs(driver) for driver in drivers):
        return
    for mount in nfs_mounts(bundle):
        if mount.rdma:
            name = "proto" if mount.value("proto") else "rdma"
            yield mount.hit(
                name,
                actual=f"an RDMA mount, and {drivers[0].subject} does not set ENABLE_NFSRDMA",
                expected='ENABLE_NFSRDMA: "true" in ofedDriver.env',
                fix="add ENABLE_NFSRDMA and UNLOAD_STORAGE_MODULES to ofedDriver.env",
            )


@rule(
    "mount.two-transports",
    Status.FAIL,
    "mount.nfs refuses two transports in one mount",
)
def two_transports(bundle: Bundle) -> Iterator[Hit]:
    for mount in nfs_mounts(bundle):
        protocol = mount.value("proto") or ""
        tcp = protocol.startswith(("tcp", "udp")) or mount.value("tcp") is not None
        if mount.value("rdma") is not None and tcp:
            yield mount.hit(
                "rdma",
                actual=f"`rdma` together with `{f'proto={protocol}' if protocol else 'tcp'}`",
                expected="one transport",
                fix="keep `proto=rdma` alone",
            )


@rule(
    "mount.nconnect-limit",
    Status.FAIL,
    "the kernel accepts 1 to 16 connections and refuses the mount otherwise (nfs(5))",
)
def nconnect_limit(bundle: Bundle) -> Iterator[Hit]:
    for mount in nfs_mounts(bundle):
        value = mount.value("nconnect")
        if value is not None and not (value.isdigit() and 1 <= int(value) <= 16):
            yield mount.hit(
                "nconnect", actual=f"nconnect={value}", expected="1 to 16", fix="use nconnect=16"
            )


@rule(
    "mount.nconnect-rdma",
    Status.WARN,
    "over RDMA the client ignores nconnect before Linux 6.9 (RHEL 9 kernels only if backported): "
    "one connection carries everything while the options promise more",
    errata=("E78",),
)
def nconnect_rdma(bundle: Bundle) -> Iterator[Hit]:
    for mount in nfs_mounts(bundle):
        value = mount.value("nconnect") or ""
        if mount.rdma and value.isdigit() and 1 < int(value) <= 16:
            yield mount.hit(
                "nconnect",
                actual=f"nconnect={value} on an RDMA mount",
                expected="no nconnect, or a kernel of 6.9 or newer",
                fix="leave it out; count the xprt lines of /proc/self/mountstats to see what "
                "a kernel does",
            )


@rule(
    "mount.soft",
    Status.WARN,
    "a soft mount returns I/O errors after a short outage, and a training run reads or writes "
    "broken data",
)
def soft(bundle: Bundle) -> Iterator[Hit]:
    for mount in nfs_mounts(bundle):
        for word in ("soft", "softerr"):
            if mount.value(word) is not None:
                yield mount.hit(
                    word, actual=f"`{word}`", expected="`hard`", fix=f"replace `{word}` by `hard`"
                )


@rule(
    "mount.rdma-version",
    Status.FAIL,
    "NFS over RDMA exists for versions 3 and 4 only",
)
def version(bundle: Bundle) -> Iterator[Hit]:
    for mount in nfs_mounts(bundle):
        for name in ("vers", "nfsvers"):
            value = mount.value(name)
            if mount.rdma and value is not None and value.split(".")[0] not in ("3", "4"):
                yield mount.hit(
                    name,
                    actual=f"{name}={value} over RDMA",
                    expected="vers=3, 4.0, 4.1 or 4.2",
                    fix=f"use {name}=4.1",
                )
