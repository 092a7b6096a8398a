"""What containers get, and the files that tell of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from podrail.attach.deviceplugin import allocate
from podrail.attach.deviceplugin.allocate import Given
from podrail.attach.deviceplugin.candidates import NET, Candidate, candidates
from podrail.attach.deviceplugin.naming import Resource
from podrail.attach.deviceplugin.nodes import Nodes, nodes
from podrail.attach.deviceplugin.papers import Papers
from podrail.attach.deviceplugin.resources import Pool, Slot, Traits
from tests.attach.deviceplugin.machines import Machine

RAIL = Resource("my-org.io", "rail-a")
INFO = allocate.DEVICE_INFO
VF = Candidate("0000:9c:00.2", NET, "15b3", "101e", pf="0000:9c:00.0", index=0, rdma="mlx5_2")
VERBS = Nodes(rdma=("/dev/infiniband/uverbs2", "/dev/infiniband/umad2", "/dev/infiniband/rdma_cm"))


def slot(traits: Traits | None = None, one: Candidate = VF, **more: Any) -> Slot:
    return Slot(one.id, (one,), traits or Traits(), **more)


def given(found: Slot, files: Nodes) -> Given:
    return Given(found, found.members[0], files)


def pool_of(*slots: Slot, shared: bool = False) -> Pool:
    return Pool(RAIL, slots, shared)


# --- answers ----------------------------------------------------------------------------------


def test_variables_and_files_of_a_rail() -> None:
    mine = slot(Traits(rdma=True), info={"zone": "z"})
    response = allocate.answer(pool_of(mine), [given(mine, VERBS)])
    told = {
        VF.id: {
            "generic": {"deviceID": VF.id},
            "rdma": {
                "uverbs": "/dev/infiniband/uverbs2",
                "umad": "/dev/infiniband/umad2",
                "rdma_cm": "/dev/infiniband/rdma_cm",
                "rdma_dev": "mlx5_2",
            },
            "extraInfo": {"zone": "z"},
        }
    }
    for name in ("PCIDEVICE_MY-ORG_IO_RAIL-A", "PCIDEVICE_MY_ORG_IO_RAIL_A"):
        assert response.envs[name] == VF.id
        assert json.loads(response.envs[f"{name}_INFO"]) == told
    assert len(response.envs) == 4
    assert [(d.host_path, d.container_path, d.permissions) for d in response.devices] == [
        (path, path, "rw") for path in VERBS.rdma
    ]
    assert not response.cdi_devices
    assert not response.annotations


def test_two_rails_share_what_is_shared() -> None:
    other = Candidate("0000:9c:00.3", NET, "15b3", "101e", rdma="mlx5_3")
    slots = slot(Traits(rdma=True)), slot(Traits(rdma=True), other)
    files = Nodes(rdma=("/dev/infiniband/uverbs3", "/dev/infiniband/rdma_cm"))
    response = allocate.answer(pool_of(*slots), [given(slots[0], VERBS), given(slots[1], files)])
    assert response.envs["PCIDEVICE_MY_ORG_IO_RAIL_A"] == "0000:9c:00.2,0000:9c:00.3"
    paths = [device.host_path for device in response.devices]
    assert paths.count("/dev/infiniband/rdma_cm") == 1
    assert len(paths) == 4


def test_vfio_and_vhost() -> None:
    mine = slot(Traits(vhost=True))
    files = Nodes(vfio=("/dev/vfio/vfio", "/dev/vfio/41"), vhost=("/dev/vhost-net", "/dev/net/tun"))
    response = allocate.answer(pool_of(mine), [given(mine, files)])
    told = json.loads(response.envs["PCIDEVICE_MY_ORG_IO_RAIL_A_INFO"])[VF.id]
    assert told["vfio"] == {"mount": "/dev/vfio/vfio", "dev-mount": "/dev/vfio/41"}
    assert told["vhost"] == {"net-mount": "/dev/vhost-net", "tun-mount": "/dev/net/tun"}
    assert len(response.devices) == 4


def test_a_share_has_no_variables() -> None:
    mine = Slot("0", (VF,), Traits(rdma=True))
    response = allocate.answer(pool_of(mine, shared=True), [given(mine, VERBS)])
    assert dict(response.envs) == {}
    assert {device.permissions for device in response.devices} == {"rwm"}


# --- CDI --------------------------------------------------------------------------------------


def test_cdi_names_instead_of_files() -> None:
    bare = slot(one=Candidate("0000:9c:00.3", NET, "15b3", "101e"))
    mine = slot(Traits(rdma=True))
    both = pool_of(mine, bare)
    has = [given(mine, VERBS), given(bare, Nodes())]
    response = allocate.answer(both, has, cdi=True)
    assert [device.name for device in response.cdi_devices] == ["my-org.io/rail-a=0000:9c:00.2"]
    assert list(response.annotations.values()) == ["my-org.io/rail-a=0000:9c:00.2"]
    key = next(iter(response.annotations))
    assert key.startswith("cdi.k8s.io/")
    assert len(key.removeprefix("cdi.k8s.io/")) <= 63
    assert not response.devices
    assert response.envs["PCIDEVICE_MY_ORG_IO_RAIL_A"] == "0000:9c:00.2,0000:9c:00.3"

    spec = json.loads(allocate.cdi_spec(both, {mine.id: has[:1], bare.id: has[1:]}))
    assert spec["kind"] == "my-org.io/rail-a"
    assert [device["name"] for device in spec["devices"]] == ["0000:9c:00.2"]
    nodes_ = spec["devices"][0]["containerEdits"]["deviceNodes"]
    assert nodes_[0] == {
        "path": "/dev/infiniband/uverbs2",
        "hostPath": "/dev/infiniband/uverbs2",
        "permissions": "rw",
    }


def test_no_cdi_file_without_devices_that_have_files() -> None:
    bare = slot()
    assert allocate.cdi_spec(pool_of(bare), {bare.id: [given(bare, Nodes())]}) == ""
    response = allocate.answer(pool_of(bare), [given(bare, Nodes())], cdi=True)
    assert not response.cdi_devices
    assert not response.annotations


# --- device-info ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("traits", "told"),
    [
        (
            Traits(rdma=True),
            {
                "type": "pci",
                "version": "1.1.0",
                "pci": {
                    "pci-address": "0000:9c:00.2",
                    "rdma-device": "mlx5_2",
                    "pf-pci-address": "0000:9c:00.0",
                },
            },
        ),
        (
            Traits(),
            {
                "type": "pci",
                "version": "1.1.0",
                "pci": {"pci-address": "0000:9c:00.2", "pf-pci-address": "0000:9c:00.0"},
            },
        ),
        (
            Traits(vdpa="vhost"),
            {
                "type": "vdpa",
                "version": "1.1.0",
                "vdpa": {
                    "driver": "vhost",
                    "pci-address": "0000:9c:00.2",
                    "path": "/dev/vhost-vdpa-0",
                },
            },
        ),
    ],
)
def test_device_info(traits: Traits, told: dict[str, Any]) -> None:
    assert json.loads(allocate.device_info(slot(traits), "/dev/vhost-vdpa-0")) == told


def test_the_file_is_named_as_multus_looks_for_it() -> None:
    assert allocate.device_info_file(RAIL, VF.id) == (
        "/var/run/k8s.cni.cncf.io/devinfo/dp/my-org.io-rail-a-0000:9c:00.2-device.json"
    )


# --- keeping them -----------------------------------------------------------------------------


def test_papers_follow_the_devices() -> None:
    machine = Machine("roce-cx6")
    said: list[str] = []
    papers = Papers(machine, said.append)
    mine = slot()
    for stranger in ("my-org.io-rail-a-b-0000:9c:00.9-device.json", "x.json"):
        machine.place(f"{INFO}/{stranger}", "{}")
    machine.place(f"{INFO}/my-org.io-rail-a-0000:01:00.1-device.json", "left over")

    papers.keep(pool_of(mine), {mine.id: [given(mine, Nodes())]})
    assert machine.files(INFO) == [
        "my-org.io-rail-a-0000:9c:00.2-device.json",
        "my-org.io-rail-a-b-0000:9c:00.9-device.json",
        "x.json",
    ]
    papers.keep(pool_of(), {})
    assert "my-org.io-rail-a-0000:9c:00.2-device.json" not in machine.files(INFO)
    assert said == []


def test_papers_write_only_what_changed() -> None:
    machine = Machine("roce-cx6")
    papers = Papers(machine, print)
    mine = slot()
    papers.keep(pool_of(mine), {mine.id: [given(mine, Nodes())]})
    machine.twin.refusals[INFO] = 30
    said: list[str] = []
    Papers(machine, said.append).keep(pool_of(mine), {mine.id: [given(mine, Nodes())]})
    assert said == []


def test_a_file_that_cannot_be_written_stops_nobody() -> None:
    machine = Machine("roce-cx6")
    machine.twin.refusals["/var/run"] = 30
    said: list[str] = []
    mine = slot()
    Papers(machine, said.append).keep(pool_of(mine), {mine.id: [given(mine, Nodes())]})
    assert "cannot be written (Read-only file system)" in said[0]


# --- files under /dev -------------------------------------------------------------------------


def files_of(machine: Machine, pf: str, index: int, traits: Traits) -> Nodes:
    one = candidates(machine.look())[machine.vf(pf, index)]
    return nodes(machine, one, traits)


@pytest.mark.parametrize("rdma", [True, False])
def test_rdma_files_of_one_vf_alone(rdma: bool) -> None:
    machine = Machine("ib-cx7", ibp60s0=4)
    number = str(machine.function("ibp60s0", 2).rdma).rpartition("_")[2]
    found = files_of(machine, "ibp60s0", 2, Traits(rdma=rdma))
    wanted = [f"uverbs{number}", f"issm{number}", f"umad{number}", "rdma_cm"] if rdma else []
    assert list(found.all) == [f"/dev/infiniband/{name}" for name in wanted]


def test_rdma_files_of_a_vf_in_a_pod() -> None:
    """The character devices stay in sight: their classes know no namespace."""
    machine = Machine("roce-cx6", ens8f0=4)
    before = files_of(machine, "ens8f0", 1, Traits(rdma=True))
    machine.into_pod("ens8f0", 1, rdma=True)
    assert files_of(machine, "ens8f0", 1, Traits(rdma=True)) == before
    assert len(before.all) == 3


def test_a_software_device_is_found_by_name() -> None:
    machine = Machine("igb", ens2=1)
    machine.twin.put("/sys/class/infiniband_verbs/uverbs0/ibdev", "other\n")
    machine.twin.put("/sys/class/infiniband_verbs/uverbs1/ibdev", "rxe0\n")
    for name in ("uverbs0", "uverbs1", "rdma_cm"):
        machine.twin.put(f"/dev/infiniband/{name}", "")
    one = Candidate(machine.vf("ens2", 0), NET, "8086", "10ca", rdma="rxe0")
    found = nodes(machine, one, Traits(rdma=True))
    assert found.rdma == ("/dev/infiniband/uverbs1", "/dev/infiniband/rdma_cm")


@pytest.mark.parametrize("unsafe", [False, True])
def test_vfio_files(unsafe: bool) -> None:
    machine = Machine("igb", ens2=2)
    function = machine.function("ens2", 1)
    assert machine.run(("modprobe", "vfio-pci")).rc == 0
    machine.unbind("ens2", 1)
    machine.write(f"{function.path}/driver_override", "vfio-pci")
    machine.bind("ens2", 1)
    machine.twin.put("/dev/vfio/vfio", "")
    name = f"noiommu-{function.group}" if unsafe else str(function.group)
    if unsafe:
        machine.twin.move(f"/dev/vfio/{function.group}", f"/dev/vfio/{name}")
    found = files_of(machine, "ens2", 1, Traits(rdma=True))
    assert found.all == ("/dev/vfio/vfio", f"/dev/vfio/{name}")


def test_vhost_files_where_they_exist() -> None:
    machine = Machine("igb", ens2=1)
    machine.twin.put("/dev/net/tun", "")
    assert files_of(machine, "ens2", 0, Traits(vhost=True)).vhost == ("/dev/net/tun",)
    assert files_of(machine, "ens2", 0, Traits()).all == ()
