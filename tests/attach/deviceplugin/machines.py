"""Twins with VFs, as a device plugin meets them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from threading import RLock
from typing import Any, Self

from podrail.attach.deviceplugin.configs import Wanted, of_bundle, of_file
from podrail.host.seam import Event, Ran, Watch
from podrail.host.twin import PciFunction, TwinHost
from podrail.host.twins import consequences, drivers, twin
from podrail.inventory.collect import discover
from podrail.model.bundle import read
from podrail.model.inventory import Inventory

ENS8F0, ENS8F1 = "0000:9c:00.0", "0000:9c:00.1"  # roce-cx6
ENS2, ENP67 = "0000:81:00.0", "0000:43:00.0"  # igb
IB60, IB156 = "0000:3c:00.0", "0000:9c:00.0"  # ib-cx7, NUMA nodes 0 and 1


def policy(name: str, pf: str, vfs: int, **spec: Any) -> str:
    """A policy as JSON, which is YAML; its resource is its name with underscores."""
    return json.dumps(
        {
            "apiVersion": "sriovnetwork.openshift.io/v1",
            "kind": "SriovNetworkNodePolicy",
            "metadata": {"name": name, "namespace": "sriov-network-operator"},
            "spec": {
                "resourceName": name.replace("-", "_"),
                "nodeSelector": {},
                "numVfs": vfs,
                "nicSelector": {"pfNames": [pf]},
                **spec,
            },
        }
    )


def planned(*policies: str) -> Wanted:
    return of_bundle(read([("policies.yaml", "\n---\n".join(policies))]))


def configured(**resource: Any) -> Wanted:
    """One entry of upstream's `resourceList`."""
    return of_file(json.dumps({"resourceList": [resource]}), "config.json")


def shared(**resource: Any) -> Wanted:
    return of_file(json.dumps({"configList": [resource]}), "config.json")


class LockedWatch:
    """A twin is one thread's; here it has two, which take turns."""

    timeless = True

    def __init__(self, watch: Watch, lock: RLock) -> None:
        self._watch, self._lock = watch, lock

    def wait(self, timeout: float | None) -> tuple[Event, ...]:
        with self._lock:
            return self._watch.wait(timeout)

    def fileno(self) -> int:
        with self._lock:
            return self._watch.fileno()

    def close(self) -> None:
        with self._lock:
            self._watch.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Machine:
    """A twin that a plugin's threads and a test may both touch, and what strangers do to it."""

    def __init__(self, name: str, **vfs: int) -> None:
        self.twin: TwinHost = twin(name)
        self.lock = RLock()
        for pf, count in vfs.items():
            self.vfs(pf, count)

    # --- the seam, one at a time ----------------------------------------------------------------

    @property
    def label(self) -> str:
        return self.twin.label

    @property
    def labels(self) -> dict[str, str]:
        return self.twin.labels

    def read(self, path: str) -> str:
        with self.lock:
            return self.twin.read(path)

    def read_bytes(self, path: str) -> bytes:
        with self.lock:
            return self.twin.read_bytes(path)

    def write(self, path: str, text: str) -> None:
        with self.lock:
            self.twin.write(path, text)
            self.give_files()

    def place(self, path: str, text: str, *, mode: int = 0o644) -> None:
        with self.lock:
            self.twin.place(path, text, mode=mode)

    def unlink(self, path: str) -> None:
        with self.lock:
            self.twin.unlink(path)

    def entries(self, path: str) -> tuple[str, ...]:
        with self.lock:
            return self.twin.entries(path)

    def readlink(self, path: str) -> str:
        with self.lock:
            return self.twin.readlink(path)

    def resolve(self, path: str) -> str:
        with self.lock:
            return self.twin.resolve(path)

    def run(self, argv: Sequence[str], *, timeout: float = 10.0, stdin: str = "") -> Ran:
        with self.lock:
            return self.twin.run(argv, timeout=timeout, stdin=stdin)

    def watch(self) -> Watch:
        with self.lock:
            return LockedWatch(self.twin.watch(), self.lock)

    # --- what is on it --------------------------------------------------------------------------

    def look(self) -> Inventory:
        with self.lock:
            return discover(self)

    def function(self, pf: str, vf: int) -> PciFunction:
        return self.twin.functions[self.address(pf)].vfs[vf]

    def vf(self, pf: str, index: int) -> str:
        return self.function(pf, index).address

    def address(self, pf: str) -> str:
        return self.twin.resolve(f"/sys/class/net/{pf}/device").rpartition("/")[2]

    def files(self, directory: str) -> list[str]:
        """The names in a directory that may not be there."""
        try:
            return list(self.entries(directory))
        except FileNotFoundError:
            return []

    # --- what happens to it ---------------------------------------------------------------------

    def vfs(self, pf: str, count: int) -> None:
        self.write(f"/sys/class/net/{pf}/device/sriov_numvfs", "0")
        self.write(f"/sys/class/net/{pf}/device/sriov_numvfs", str(count))

    def up(self, pf: str) -> None:
        assert self.run(("ip", "link", "set", pf, "up")).rc == 0

    def give_files(self) -> None:
        """What ib_uverbs, ib_umad and udev make of an RDMA device (uverbs_main.c, user_mad.c)."""
        known = [f for f in self.twin.functions.values() if f.rdma]
        for function in known:
            number = str(function.rdma).rpartition("_")[2]
            ethernet = "Ethernet" in self.twin.text(
                f"{function.path}/infiniband/{function.rdma}/ports/1/link_layer"
            )
            names = [f"umad{number}"] if ethernet else [f"umad{number}", f"issm{number}"]
            self._character(function, "infiniband_verbs", f"uverbs{number}")
            for name in names:
                self._character(function, "infiniband_mad", name)
        if known:
            self.twin.put("/dev/infiniband/rdma_cm", "")

    def _character(self, function: PciFunction, kind: str, name: str) -> None:
        self.twin.put(f"{function.path}/{kind}/{name}/ibdev", f"{function.rdma}\n")
        self.twin.put_link(f"/sys/class/{kind}/{name}", f"../..{function.path[4:]}/{kind}/{name}")
        self.twin.put(f"/dev/infiniband/{name}", "")

    def into_pod(self, pf: str, index: int, *, rdma: bool = False) -> None:
        """As a CNI leaves it: netdev, and in exclusive mode RDMA device, out of sight."""
        with self.lock:
            function = self.function(pf, index)
            self.twin.put(f"/var/lib/cni/sriov/pci/{function.address}", "/var/run/netns/cni-1\n")
            self.twin.put("/var/run/netns/cni-1", "")
            self.twin.remove(f"/sys/class/net/{function.netdev}")
            self.twin.remove(f"{function.path}/net/{function.netdev}")
            if rdma:
                self.twin.remove(f"/sys/class/infiniband/{function.rdma}")
                self.twin.remove(f"{function.path}/infiniband/{function.rdma}")
                self.twin.rdma_index.pop(str(function.rdma))

    def unbind(self, pf: str, index: int) -> None:
        with self.lock:
            drivers.detach(self.twin, self.function(pf, index))

    def bind(self, pf: str, index: int) -> None:
        with self.lock:
            drivers.probe(self.twin, self.function(pf, index))
            self.give_files()

    def carrier(self, pf: str, on: bool) -> None:
        """A cable pulled or put in, with the kernel's word for it."""
        with self.lock:
            consequences.change(self.twin, f"/sys/class/net/{pf}/carrier", str(int(on)))
            self.twin.link_event("new", pf)
