"""The named twins are the machines they claim to be."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any

import pytest

from podrail.host.faults import apply, parse
from podrail.host.seam import exists
from podrail.host.twin import TwinHost
from podrail.host.twins import names, twin
from podrail.host.twins.build import build
from podrail.host.twins.igb import MACHINE
from podrail.host.twins.scale import scaled
from tests.twin.covers import covers


def links(host: TwinHost) -> dict[str, Any]:
    shown = json.loads(host.run(["ip", "-d", "-j", "link", "show"]).stdout)
    return {entry["ifname"]: entry for entry in shown}


@pytest.mark.parametrize("name", names())
def test_every_link_leads_somewhere(name: str) -> None:
    host = twin(name)
    for path in host._links:
        if path.endswith(("/fd/0", "/subsystem")):
            continue
        host.resolve(path)


@pytest.mark.parametrize("name", names())
def test_two_of_a_kind_are_equal(name: str) -> None:
    one, other = twin(name), twin(name)
    assert one._files == other._files
    assert one.run(["ip", "-j", "addr", "show"]) == other.run(["ip", "-j", "addr", "show"])


@pytest.mark.parametrize("name", names())
def test_a_default_route_leaves_through_a_known_netdev(name: str) -> None:
    host = twin(name)
    routes = json.loads(host.run(["ip", "-j", "route", "show", "table", "all"]).stdout)
    default = next(r for r in routes if r["dst"] == "default")
    assert default["dev"] in links(host)
    six = json.loads(host.run(["ip", "-6", "-j", "route", "show", "table", "all"]).stdout)
    assert all(":" in r.get("gateway", r["dst"]) for r in six)


@pytest.mark.parametrize(
    ("name", "count"), [("roce-cx6", 8), ("ib-cx7", 8), ("cx6-ib", 8), ("hgx-h100", 8)]
)
def test_gpus(name: str, count: int) -> None:
    host = twin(name)
    assert len(host.entries("/proc/driver/nvidia/gpus")) == count
    assert "Open Kernel Module" in host.read("/proc/driver/nvidia/version")


def test_roce_cx6() -> None:
    host = twin("roce-cx6")
    assert links(host)["ens8f0"]["mtu"] == 1500
    assert host.read("/sys/class/net/ens8f0/speed") == "200000\n"
    assert links(host)["eno1"]["master"] == "ovs-system"
    assert host.run(["ovs-vsctl", "list-ports", "br-ex"]).stdout.startswith("eno1\n")
    assert "proto=rdma" in host.read("/proc/mounts")
    held = json.loads(host.run(["rdma", "-j", "resource"]).stdout)
    assert [n["cm_id"] for n in held] == [0, 16]
    assert not exists(host, "/sys/module/nvidia_peermem")
    assert host.labels["node-role.kubernetes.io/gpu-worker"] == ""
    firmware = host.run(["ethtool", "-i", "ens8f0"]).stdout
    assert "firmware-version: 22.41.1000 (MT_0000000436)\n" in firmware
    assert "bus-info: 0000:9c:00.0\n" in firmware


def test_ib_cx7_has_two_fabrics() -> None:
    shown = json.loads(twin("ib-cx7").run(["rdma", "-j", "-d", "link"]).stdout)
    fabrics = {(n["subnet_prefix"], n["sm_lid"]) for n in shown}
    assert len(fabrics) == 2
    first = [n["ifname"] for n in shown if n["sm_lid"] == 1]
    assert first == ["mlx5_0", "mlx5_1", "mlx5_4", "mlx5_5"]
    assert "netdev" not in shown[0]


def test_ib_cx7_has_the_addresses_of_the_seed() -> None:
    shown = links(twin("ib-cx7"))
    wanted = "00:00:00:6c:fe:80:00:00:00:00:00:00:7c:8c:09:03:00:ae:4c:1c"
    assert shown["ibp60s0"]["address"] == wanted
    assert shown["ibp77s0"]["address"].endswith("7c:8c:09:03:00:ad:0b:5e")
    assert shown["ibp220s0"]["mtu"] == 4092


def test_cx6_ib_has_an_infiniband_port_with_an_ethernet_name() -> None:
    host = twin("cx6-ib")
    assert links(host)["ens3f0"]["link_type"] == "infiniband"
    assert host.read("/sys/class/net/ens3f0/device/sriov_vf_device") == "101c\n"
    assert host.read("/sys/class/infiniband/mlx5_0/ports/1/rate") == "200 Gb/sec (4X HDR)\n"


def test_hgx_h100_pairs_each_gpu_with_a_rail() -> None:
    host = twin("hgx-h100")
    for gpu in host.entries("/proc/driver/nvidia/gpus"):
        switch = host.resolve(f"/sys/bus/pci/devices/{gpu}").rsplit("/", 2)[0]
        rails = [f for f in host.functions.values() if f.rdma and f.path.startswith(f"{switch}/")]
        assert len(rails) == 1
    assert links(host)["bond0.100"]["link"] == "bond0"
    assert links(host)["enp41s0f0np0"]["linkinfo"]["info_slave_kind"] == "bond"
    assert exists(host, "/sys/kernel/mm/memory_peers/nv_mem/version")


def test_igb_is_the_lab_vm() -> None:
    host = twin("igb")
    assert host.read("/sys/bus/pci/devices/0000:43:00.0/numa_node") == "0\n"
    assert host.read("/sys/bus/pci/devices/0000:81:00.0/numa_node") == "1\n"
    assert host.resolve("/sys/bus/pci/devices/0000:44:00.0").startswith(
        "/sys/devices/pci0000:40/0000:40:00.0/0000:41:00.0/0000:42:01.0/"
    )
    assert links(host)["enp0s3"]["parentbus"] == "virtio"
    assert not exists(host, "/sys/bus/pci/devices/0000:00:03.0/net")
    assert host.run(["rdma", "-j", "-d", "dev"]).stdout == "[]\n"


@covers("vf-name")
def test_without_udev_a_vf_has_the_lowest_free_name() -> None:
    host = build(replace(MACHINE, predictable_names=False), "twin:igb")
    host.run(["modprobe", "igbvf"])
    for name in ("ens2", "enp67s0"):
        host.write(f"/sys/class/net/{name}/device/sriov_numvfs", "1")
    assert host.entries("/sys/class/net") == ("enp0s3", "enp67s0", "ens2", "eth0", "eth1", "lo")
    assert "altnames" not in links(host)["eth0"]


def test_a_missing_module_stays_missing() -> None:
    host = twin("igb")
    apply(host, parse('{"id": "f", "set": [{"path": "module:igb", "value": null}]}', "f"))
    assert host.run(["modprobe", "igb"]).rc == 1


def test_a_form_no_twin_knows_is_refused() -> None:
    ran = twin("igb").run(["ip", "neigh", "show"])
    assert ran.rc != 0
    assert twin("igb").run(["ethtool", "-S", "ens2"]).rc == 255


def test_speed() -> None:
    """Opening takes a few milliseconds; the limits leave room for a busy machine."""
    twin("hgx-h100")
    start = time.perf_counter()
    twin("hgx-h100")
    opened = time.perf_counter()
    host = scaled(2, 128)
    built = time.perf_counter()
    assert opened - start < 0.05 * 4
    assert built - opened < 0.2 * 4
    assert len(host.entries("/sys/class/infiniband")) == 2 * 129
