"""`ip link set PF vf N …` on igb, and what `ip` shows of it, through the host seam only."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.twin.conftest import Pf
from tests.twin.covers import covers

SAMPLE = Path(__file__).parent.parent / "data" / "lab" / "ip-d-j-link-rootns.json"


@pytest.fixture
def vfs(pf: Pf) -> Pf:
    pf.ip("up")
    pf.write("sriov_numvfs", "4")
    return pf


@covers("igb-accepts")
def test_igb_accepts(vfs: Pf) -> None:
    accepted = (
        ("mac", "02:00:00:00:00:10"),
        ("vlan", "100", "qos", "3"),
        ("spoofchk", "off"),
        ("trust", "on"),
        ("max_tx_rate", "100"),
    )
    for words in accepted:
        assert vfs.ip("vf", "0", *words) == (0, "")
    assert vfs.vf_info(0) == {
        "vf": 0,
        "link_type": "ether",
        "address": "02:00:00:00:00:10",
        "broadcast": "ff:ff:ff:ff:ff:ff",
        "vlan_list": [{"vlan": 100, "qos": 3}],
        "tx_rate": 100,
        "rate": {"max_tx": 100, "min_tx": 0},
        "spoofchk": False,
        "link_state": "auto",
        "trust": True,
    }


@covers("igb-refuses", "ip-errors")
@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (("0", "vlan", "5", "proto", "802.1ad"), "Protocol not supported"),
        (("0", "state", "enable"), "Operation not supported"),
        (("0", "min_tx_rate", "10"), "Invalid argument"),
        (("4", "mac", "02:00:00:00:00:99"), "Invalid argument"),
        (("0", "node_guid", "00:11:22:33:44:55:66:77"), "Operation not supported"),
    ],
)
def test_igb_refuses(vfs: Pf, words: tuple[str, ...], answer: str) -> None:
    before = vfs.link()["vfinfo_list"]
    assert vfs.ip("vf", *words) == (2, f"RTNETLINK answers: {answer}")
    assert vfs.link()["vfinfo_list"] == before


@covers("igb-rate")
def test_igb_wants_a_link_and_no_more_than_it_carries(vfs: Pf) -> None:
    assert vfs.ip("vf", "0", "max_tx_rate", "1001")[0] == 2
    vfs.ip("down")
    assert vfs.ip("vf", "0", "max_tx_rate", "100")[0] == 2
    vfs.ip("up")


@covers("ip-errors")
@pytest.mark.parametrize(
    ("words", "rc", "message"),
    [
        (("vf", "x", "mac", "1"), 255, 'Error: argument "x" is wrong: Invalid "vf" value'),
        (("vf", "0", "mac", "zz"), 1, '"zz" is invalid lladdr.'),
        (("vf", "0", "vlan", "5000"), 255, 'argument "5000" is wrong: Invalid "vlan" value'),
        (("vf", "0", "spoofchk", "maybe"), 1, 'must be one of "off", "on", not "maybe"'),
        (("vf", "0", "state", "foo"), 255, 'argument "foo" is wrong: Invalid "state" value'),
        (("vf", "0", "foo"), 255, 'Command line is not complete. Try option "help"'),
        (("mtu", "abc"), 255, 'Error: argument "abc" is wrong: Invalid "mtu" value'),
        (("mtu", "9217"), 2, "Error: mtu greater than device maximum."),
    ],
)
def test_ip_refuses_in_its_own_words(
    vfs: Pf, words: tuple[str, ...], rc: int, message: str
) -> None:
    got, said = vfs.ip(*words)
    assert got == rc
    assert message in said


@covers("ip-errors")
def test_no_such_device(pf: Pf) -> None:
    ran = pf.host.run(["ip", "link", "set", "nosuch", "up"])
    assert (ran.rc, ran.stderr) == (1, 'Cannot find device "nosuch"\n')
    ran = pf.host.run(["ip", "-j", "link", "show", "nosuch"])
    assert (ran.rc, ran.stderr) == (1, 'Device "nosuch" does not exist.\n')


@covers("admin-mac", "vf-random-mac")
def test_an_admin_mac_shows_after_a_rebind(vfs: Pf) -> None:
    address = f"/sys/class/net/{vfs.vf_netdev(0)}/address"
    random = vfs.host.read(address).strip()
    assert vfs.vf_info(0)["address"] == random
    assert int(random[:2], 16) & 3 == 2
    vfs.ip("vf", "0", "mac", "02:00:00:00:00:10")
    assert vfs.host.read(address).strip() == random
    for way in ("unbind", "bind"):
        vfs.host.write(f"/sys/bus/pci/drivers/igbvf/{way}", vfs.vf(0))
    assert vfs.host.read(f"/sys/class/net/{vfs.vf_netdev(0)}/address") == "02:00:00:00:00:10\n"


@covers("untrusted-mac")
def test_an_untrusted_vf_keeps_its_admin_mac(vfs: Pf) -> None:
    vfs.ip("vf", "0", "mac", "02:00:00:00:00:10")
    change = ["ip", "link", "set", vfs.vf_netdev(0), "address", "02:00:00:00:00:99"]
    ran = vfs.host.run(change)
    assert (ran.rc, ran.stderr) == (2, "RTNETLINK answers: Cannot assign requested address\n")
    vfs.ip("vf", "0", "trust", "on")
    assert vfs.host.run(change).rc == 0


@covers("ip-json")
def test_the_keys_of_ip_are_those_of_the_sample(vfs: Pf) -> None:
    vfs.ip("vf", "0", "vlan", "100", "qos", "3")
    vfs.ip("vf", "0", "max_tx_rate", "100")
    sample = next(n for n in json.loads(SAMPLE.read_text()) if "vfinfo_list" in n)
    got = vfs.link()
    assert list(got) == list(sample)
    assert list(got["vfinfo_list"][0]) == list(sample["vfinfo_list"][0])
    assert list(got["vfinfo_list"][2]) == list(sample["vfinfo_list"][2])
    differing = {"ifindex", "ifname", "address", "parentdev", "vfinfo_list"}
    assert {k: v for k, v in got.items() if k not in differing} == {
        k: v for k, v in sample.items() if k not in differing
    }


@covers("ip-empty-vfs")
def test_a_pf_without_vfs_has_an_empty_list(pf: Pf) -> None:
    assert pf.link()["vfinfo_list"] == []


@covers("ip-rename")
def test_only_a_netdev_that_is_down_is_renamed(vfs: Pf) -> None:
    name = vfs.vf_netdev(0)
    vfs.host.run(["ip", "link", "set", name, "up"])
    ran = vfs.host.run(["ip", "link", "set", name, "name", "net1"])
    assert (ran.rc, ran.stderr) == (2, "RTNETLINK answers: Device or resource busy\n")
    vfs.host.run(["ip", "link", "set", name, "down"])
    assert vfs.host.run(["ip", "link", "set", name, "name", "net1"]).rc == 0
    assert vfs.vf_netdev(0) == "net1"
    assert "net1" in vfs.host.entries("/sys/class/net")
    assert vfs.host.run(["ip", "link", "set", "net1", "name", vfs.name]).rc == 2


@covers("no-devlink")
def test_igb_has_no_devlink(pf: Pf) -> None:
    ran = pf.host.run(["devlink", "-j", "dev", "eswitch", "show", f"pci/{pf.address}"])
    assert ran.rc == 1
    assert "No such device" in ran.stderr


@covers("rdma-text")
def test_rdma_system_prints_text_in_the_lab(pf: Pf) -> None:
    assert re.match(r"netns (shared|exclusive) ", pf.host.run(["rdma", "-j", "system"]).stdout)
