"""The device plugin against a kubelet of either sort, on machines whose VFs come and go."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from podrail.attach.deviceplugin import api
from podrail.attach.deviceplugin.rpc import Server, Unanswered, handler
from tests.attach.deviceplugin.conftest import Serve
from tests.attach.deviceplugin.kubelet import CHECKPOINT, Kubelet
from tests.attach.deviceplugin.machines import (
    IB60,
    IB156,
    Machine,
    configured,
    planned,
    policy,
    shared,
)


class Other:
    """Another process that serves the same resource."""

    def __init__(self, path: str) -> None:
        info = api.PluginInfo(type="OtherPlugin", name="a.com/b")
        heard = api.RegistrationStatusResponse()
        self.server = Server(
            path,
            [
                handler(api.GET_INFO, lambda request, context: info),
                handler(api.NOTIFY, lambda request, context: heard),
            ],
        )

    def __enter__(self) -> Other:
        return self

    def __exit__(self, *_: object) -> None:
        self.server.stop()


RAIL, OTHER = "openshift.io/rail", "openshift.io/other"
INFO = "/var/run/k8s.cni.cncf.io/devinfo/dp"


@pytest.fixture
def roce() -> Machine:
    return Machine("roce-cx6", ens8f0=4)


def test_a_resource_is_offered_and_handed_out(
    kubelet: Kubelet, serve: Serve, roce: Machine
) -> None:
    serve(roce, planned(policy("rail", "ens8f0", 4, isRdma=True)))
    plugin = kubelet.has(RAIL, 4)
    assert sorted(plugin.devices) == [roce.vf("ens8f0", i) for i in range(4)]
    assert {device.topology.nodes[0].ID for device in plugin.devices.values()} == {1}

    given = kubelet.allocate(RAIL, 1)

    vf = given.envs["PCIDEVICE_OPENSHIFT_IO_RAIL"]
    number = next(f for f in roce.twin.functions.values() if f.address == vf).rdma
    assert sorted(spec.host_path for spec in given.devices) == [
        "/dev/infiniband/rdma_cm",
        f"/dev/infiniband/umad{str(number)[5:]}",
        f"/dev/infiniband/uverbs{str(number)[5:]}",
    ]


@pytest.mark.parametrize(
    ("name", "pf", "spec", "files"),
    [
        pytest.param("roce-cx6", "ens8f0", {}, 0, id="roce-without-rdma"),
        pytest.param("ib-cx7", "ibp60s0", {"linkType": "ib"}, 4, id="infiniband"),
        pytest.param("hgx-h100", "ibp24s0", {"isRdma": True}, 4, id="hgx"),
        pytest.param("igb", "ens2", {}, 0, id="igb"),
    ],
)
def test_every_machine(
    kubelet: Kubelet, serve: Serve, name: str, pf: str, spec: dict[str, object], files: int
) -> None:
    machine = Machine(name, **{pf: 4})
    machine.up(pf)
    serve(machine, planned(policy("rail", pf, 4, **spec)))
    kubelet.has(RAIL, 4)
    assert len(kubelet.allocate(RAIL, 1).devices) == files


def test_a_resource_without_vfs_is_served_and_fills(kubelet: Kubelet, serve: Serve) -> None:
    machine = Machine("roce-cx6")
    serve(machine, planned(policy("rail", "ens8f0", 3)))
    kubelet.knows(RAIL, 0)
    machine.vfs("ens8f0", 3)
    kubelet.has(RAIL, 3)
    machine.write("/sys/class/net/ens8f0/device/sriov_numvfs", "0")
    kubelet.knows(RAIL, 0)
    assert kubelet.registrations == [RAIL]


def test_two_resources_on_one_pf_by_range(kubelet: Kubelet, serve: Serve, roce: Machine) -> None:
    serve(
        roce,
        planned(
            policy("rail", "ens8f0#0-0", 4),
            policy("other", "ens8f0#1-3", 4, deviceType="vfio-pci"),
        ),
    )
    assert list(kubelet.knows(RAIL, 1).devices) == [roce.vf("ens8f0", 0)]
    other = kubelet.knows(OTHER, 3)
    assert roce.vf("ens8f0", 0) not in other.devices
    assert other.healthy == []  # still bound to mlx5_core


def test_a_vf_in_a_pod_stays_listed_and_healthy(
    kubelet: Kubelet, serve: Serve, roce: Machine
) -> None:
    plugins = serve(roce, planned(policy("rail", "ens8f0", 4, isRdma=True)))
    before = kubelet.has(RAIL, 4)
    mine = kubelet.allocate(RAIL, 1).envs["PCIDEVICE_OPENSHIFT_IO_RAIL"]
    index = [roce.vf("ens8f0", i) for i in range(4)].index(mine)

    roce.into_pod("ens8f0", index, rdma=True)
    plugins.refresh(roce.look())

    assert kubelet.has(RAIL, 4).updates == before.updates == 1
    told = json.loads(roce.read(f"{INFO}/openshift.io-rail-{mine}-device.json"))
    assert told["pci"]["rdma-device"].startswith("mlx5_")


def test_a_restarted_plugin_knows_a_vf_that_is_in_a_pod(
    kubelet: Kubelet, serve: Serve, roce: Machine
) -> None:
    """Upstream counts it out: its RDMA device is not to be seen."""
    roce.into_pod("ens8f0", 2, rdma=True)
    serve(roce, configured(resourceName="rail", selectors={"isRdma": True, "pfNames": ["ens8f0"]}))
    kubelet.has("intel.com/rail", 4)


def test_a_lost_driver_is_unhealthy_and_a_found_one_heals(
    kubelet: Kubelet, serve: Serve, roce: Machine
) -> None:
    wanted = configured(
        resourceName="rail", selectors={"drivers": ["mlx5_core"], "pfNames": ["ens8f0"]}
    )
    serve(roce, wanted)
    kubelet.has("intel.com/rail", 4)
    roce.unbind("ens8f0", 1)
    plugin = kubelet.has("intel.com/rail", 3)
    assert plugin.unhealthy == [roce.vf("ens8f0", 1)]
    roce.bind("ens8f0", 1)
    kubelet.has("intel.com/rail", 4)


def test_a_pulled_cable_and_its_return(kubelet: Kubelet, serve: Serve, roce: Machine) -> None:
    said: list[str] = []
    serve(roce, planned(policy("rail", "ens8f0", 4)), say=said.append)
    kubelet.has(RAIL, 4)
    roce.carrier("ens8f0", on=False)
    kubelet.has(RAIL, 0)
    roce.carrier("ens8f0", on=True)
    kubelet.has(RAIL, 4)
    vf = roce.vf("ens8f0", 0)
    assert f"{RAIL}: {vf} is unhealthy: ens8f0 has no carrier" in said
    assert f"{RAIL}: {vf} is healthy again" in said


def test_the_all_clear_waits_without_another_event(
    kubelet: Kubelet, serve: Serve, roce: Machine
) -> None:
    plugins = serve(roce, planned(policy("rail", "ens8f0", 4)), hold=0.3)
    kubelet.has(RAIL, 4)
    roce.carrier("ens8f0", on=False)
    kubelet.has(RAIL, 0)
    roce.carrier("ens8f0", on=True)
    plugins.refresh(roce.look())
    assert len(plugins.standing()[0]["unhealthy"]) == 4
    kubelet.has(RAIL, 4)


def test_a_kubelet_that_restarts_finds_everything_again(
    kubelet: Kubelet, serve: Serve, roce: Machine
) -> None:
    serve(
        roce,
        planned(policy("rail", "ens8f0#0-1", 4), policy("other", "ens8f0#2-3", 4)),
    )
    for turn in range(3):
        kubelet.has(RAIL, 2)
        kubelet.has(OTHER, 2)
        assert sorted(kubelet.registrations) == sorted([RAIL, OTHER] * (turn + 1))
        kubelet.allocate(RAIL, 1)
        kubelet.restart()
    kubelet.has(RAIL, 2)
    kubelet.has(OTHER, 2)


def test_a_kubelet_that_restarts_and_leaves_the_sockets(
    kubelet: Kubelet, serve: Serve, roce: Machine
) -> None:
    """As a kubelet meets a plugin that was quicker than its cleaning."""
    serve(roce, planned(policy("rail", "ens8f0", 4)))
    kubelet.has(RAIL, 4)
    kubelet.stop()
    kubelet.start(clean=False)
    kubelet.has(RAIL, 4)
    assert kubelet.registrations == [RAIL, RAIL]


def test_a_kubelet_that_refuses_is_asked_again(
    kubelet: Kubelet, serve: Serve, roce: Machine
) -> None:
    said: list[str] = []
    kubelet.refuses = "not now"
    plugins = serve(roce, planned(policy("rail", "ens8f0", 4)), say=said.append)
    kubelet.until(lambda: "not now" in plugins.standing()[0]["problem"])
    assert any("is refused by the kubelet" in text for text in said)
    kubelet.refuses = ""
    if kubelet.watcher:
        kubelet.restart()  # the watcher asks again by itself, with its own patience
    kubelet.has(RAIL, 4)
    kubelet.until(lambda: plugins.standing()[0]["registered"])
    assert plugins.standing()[0]["problem"] == ""


def test_a_kubelet_that_comes_later(root: Path, serve: Serve, kubelet: Kubelet) -> None:
    """Nothing is there yet: not its socket, not even its directories."""
    kubelet.stop()
    for place in (kubelet.places.registry, kubelet.places.plugins):
        if os.path.isdir(place):
            os.rmdir(place)
    serve(Machine("roce-cx6", ens8f0=2), planned(policy("rail", "ens8f0", 2)))
    kubelet.start()
    kubelet.has(RAIL, 2)


def test_a_socket_that_is_taken_away_is_made_again(
    kubelet: Kubelet, serve: Serve, roce: Machine
) -> None:
    serve(roce, planned(policy("rail", "ens8f0", 4)))
    socket = kubelet.has(RAIL, 4).socket
    before = kubelet.plugins[RAIL]
    os.unlink(socket)
    kubelet.until(lambda: RAIL in kubelet.plugins and kubelet.plugins[RAIL] is not before)
    kubelet.has(RAIL, 4)


def test_only_one_way_is_used(kubelet: Kubelet, serve: Serve, roce: Machine) -> None:
    serve(roce, planned(policy("rail", "ens8f0", 4)))
    kubelet.has(RAIL, 4)
    sockets = {
        place: [n for n in os.listdir(place) if n not in ("kubelet.sock", CHECKPOINT)]
        for place in (kubelet.places.registry, kubelet.places.plugins)
        if os.path.isdir(place)
    }
    chosen = kubelet.places.registry if kubelet.watcher else kubelet.places.plugins
    assert {place for place, names in sockets.items() if names} == {chosen}
    assert kubelet.registrations == [RAIL]


def test_stopping_leaves_nothing_behind(kubelet: Kubelet, serve: Serve, roce: Machine) -> None:
    plugins = serve(roce, planned(policy("rail", "ens8f0", 4)), cdi=True)
    kubelet.has(RAIL, 4)
    roce.place(f"{INFO}/other.com-rail-{roce.vf('ens8f0', 0)}-device.json", "{}")
    assert len(roce.files(INFO)) == 5
    plugins.stop()
    kubelet.until(lambda: RAIL not in kubelet.plugins)
    assert roce.files(INFO) == [f"other.com-rail-{roce.vf('ens8f0', 0)}-device.json"]
    assert roce.files("/var/run/cdi") == []
    for place in (kubelet.places.registry, kubelet.places.plugins):
        assert not os.path.isdir(place) or set(os.listdir(place)) <= {"kubelet.sock"}


def test_a_successor_keeps_its_socket(kubelet: Kubelet, serve: Serve, roce: Machine) -> None:
    """An update starts the new before the old has ended; the old gives way, and unlinks nothing."""
    old = serve(roce, planned(policy("rail", "ens8f0", 4)))
    socket = kubelet.has(RAIL, 4).socket
    with Other(socket) as other:
        old.refresh(roce.look())
        kubelet.until(lambda: "another process" in old.standing()[0]["problem"])
        old.stop()
        assert other.server.there


def test_a_wish_that_goes_takes_its_resource_along(
    kubelet: Kubelet, serve: Serve, roce: Machine
) -> None:
    plugins = serve(
        roce, planned(policy("rail", "ens8f0#0-1", 4), policy("other", "ens8f0#2-3", 4))
    )
    kubelet.has(OTHER, 2)
    plugins.want(planned(policy("rail", "ens8f0#0-1", 4)))
    kubelet.until(lambda: OTHER not in kubelet.plugins)
    assert len(roce.files(INFO)) == 2
    kubelet.has(RAIL, 2)


def test_a_vanished_device_is_refused_and_told(
    kubelet: Kubelet, serve: Serve, roce: Machine
) -> None:
    serve(roce, planned(policy("rail", "ens8f0", 4)))
    lost = sorted(kubelet.has(RAIL, 4).devices)[-1]
    roce.vfs("ens8f0", 2)
    kubelet.has(RAIL, 2)
    with pytest.raises(Unanswered, match=r"NOT_FOUND.*0000:9c:00\.5 any more"):
        kubelet.ask(RAIL, [lost])


def test_a_shared_hca(kubelet: Kubelet, serve: Serve, roce: Machine) -> None:
    serve(
        roce,
        shared(resourceName="hca", rdmaHcaMax=63, selectors={"ifNames": ["ens8f0", "ens8f1"]}),
    )
    plugin = kubelet.has("rdma/hca", 63)
    assert sorted(plugin.devices, key=int) == [str(n) for n in range(63)]
    given = kubelet.allocate("rdma/hca", 1)
    assert {spec.permissions for spec in given.devices} == {"rwm"}
    assert {s.host_path for s in given.devices if "uverbs" in s.host_path} == {
        "/dev/infiniband/uverbs0",
        "/dev/infiniband/uverbs1",
    }


def test_a_request_for_two_is_spread(kubelet: Kubelet, serve: Serve) -> None:
    machine = Machine("ib-cx7", ibp60s0=4, ibp156s0=4)
    serve(
        machine,
        configured(
            resourceName="rail",
            selectors={"isRdma": True, "rootDevices": [IB60, IB156]},
        ),
    )
    kubelet.has("intel.com/rail", 8)
    for _ in range(4):
        given = kubelet.allocate("intel.com/rail", 2).envs["PCIDEVICE_INTEL_COM_RAIL"].split(",")
        assert {address[:7] for address in given} == {"0000:3c", "0000:9c"}
