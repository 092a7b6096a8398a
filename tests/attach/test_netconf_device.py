"""Which device a rail is, where it stands in a chain, and what a GC leaves alone."""

from __future__ import annotations

from typing import Any

import pytest

from podrail.attach import netconf
from podrail.attach.netconf import load
from podrail.attach.railconf import Attachment
from podrail.attach.result import CniError, Interface
from tests.attach.rails import MAC, VF, ask, conf, one, refused


@pytest.mark.parametrize(
    ("keys", "args"),
    [
        ({"deviceID": VF.upper()}, {}), ({"deviceID": "absent", "pciBusID": VF}, {}),
        ({"deviceID": "absent", "runtimeConfig": {"deviceID": VF}}, {}),
        ({"deviceID": "absent"}, {"deviceID": VF}), ({"deviceID": VF, "pciBusID": VF.upper()}, {}),
        ({"deviceID": "absent", "DeviceId": VF}, {}),
    ],
)  # fmt: skip
def test_where_a_device_is_named(keys: dict[str, Any], args: dict[str, str]) -> None:
    assert load(ask(env=args, **keys)).device == VF


@pytest.mark.parametrize(
    "device",
    ["81:10.2", "0000:81:10.8", "0000:81:20.0", "0000:81:10.2/../x", "0000:81:10", "x",
     "0000:81:10.2\n"],
)  # fmt: skip
def test_a_device_that_is_no_pci_address(device: str) -> None:
    error = refused(ask(deviceID=device))
    assert "wanted a PCI address such as 0000:81:10.2" in error.msg


def test_two_devices_are_none() -> None:
    assert "wanted one device" in refused(ask(pciBusID="0000:81:10.4")).msg


def test_a_rail_without_a_device_says_what_to_do() -> None:
    for command in ("ADD", "CHECK"):
        error = refused(ask(command=command, deviceID="absent"))
        assert "k8s.v1.cni.cncf.io/resourceName" in error.msg
    for command in ("DEL", "STATUS", "GC"):
        assert load(ask(command=command, deviceID="absent")).device is None


PREV = {"cniVersion": "1.1.0", "interfaces": [{"name": "net1", "mac": MAC, "sandbox": "/ns"}]}


def test_rdma_stands_in_a_chain() -> None:
    assert "rdma stands after another plugin" in refused(ask("rdma")).msg
    found = conf("rdma", prevResult=PREV, cni={"rdmaDeviceName": "mlx5_net1"})
    assert found.rdma_name == "mlx5_net1"
    assert found.prev is not None
    assert found.prev.interfaces == (Interface("net1", MAC, sandbox="/ns"),)
    assert load(ask("rdma", "DEL", deviceID="absent")).device is None


def test_rdma_takes_the_device_of_its_interface() -> None:
    named = [
        {"name": "net1", "pciID": "0000:81:10.6"},
        {"name": "net1", "sandbox": "/ns", "pciID": VF.upper()},
        {"name": "net2", "sandbox": "/ns", "pciID": "0000:81:10.4"},
    ]
    found = conf("rdma", deviceID="absent", prevResult=PREV | {"interfaces": named})
    assert found.device == VF
    assert conf("rdma", deviceID="absent", prevResult=PREV).device is None


def test_a_previous_result_that_is_none() -> None:
    assert refused(ask(prevResult=[])).msg == "prevResult: found [], wanted an object"


@pytest.mark.parametrize("name", ["a/b", "../x", "x" * 64, 1])
def test_an_rdma_name_is_a_name(name: object) -> None:
    error = refused(ask(cni={"rdmaDeviceName": name}))
    assert "args.cni.rdmaDeviceName: found" in error.msg


def test_what_a_gc_leaves_alone() -> None:
    living = [{"containerID": "c1", "ifname": "net1"}, {"containerID": "c2", "ifname": "net2"}]
    for key in ("cni.dev/valid-attachments", "cni.dev/attachments"):
        found = netconf.attachments(ask(command="GC", **one(key, living)))
        assert found == {Attachment("c1", "net1"), Attachment("c2", "net2")}


@pytest.mark.parametrize(
    "living", ["absent", None, {}, "c1", ["c1"], [{}], [{"containerID": "c1"}],
               [{"containerID": "", "ifname": "net1"}], [{"containerID": 1, "ifname": "net1"}]],
)  # fmt: skip
def test_a_gc_that_cannot_be_read_collects_nothing(living: object) -> None:
    with pytest.raises(CniError):
        netconf.attachments(ask(command="GC", **one("cni.dev/valid-attachments", living)))
