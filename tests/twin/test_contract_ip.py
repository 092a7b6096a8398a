"""`ip link set PF vf N …` on igb, and what `ip` shows of it, through the host seam only."""

from __future__ import annotations

import ipaddress
import json
from pathlib import Path

import pytest

from tests.twin.conftest import Pf, until
from tests.twin.covers import covers

SAMPLE = Path(__file__).parent.parent / "data" / "lab" / "ip-d-j-link-udev.json"
AS_BORN = (
    ("vlan", "0"),
    ("spoofchk", "on"),
    ("trust", "off"),
    ("max_tx_rate", "0"),
)


def as_born(vfs: Pf, index: int) -> None:
    """A VF without what a test set on it; without an admin MAC it takes its own again."""
    for words in (*AS_BORN, ("mac", "00:00:00:00:00:00")):
        assert vfs.ip("vf", str(index), *words) == (0, "")
    vfs.rebind(index)


@covers("igb-accepts")
def test_igb_accepts(vfs: Pf) -> None:
    accepted = (
        ("mac", "02:00:00:00:00:10"),
        ("vlan", "4095"),
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
    as_born(vfs, 0)


@covers("igb-refuses", "igb-rate", "ip-errors")
@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (("0", "vlan", "5", "proto", "802.1ad"), "Protocol not supported"),
        (("0", "state", "enable"), "Operation not supported"),
        (("0", "min_tx_rate", "10"), "Invalid argument"),
        (("0", "max_tx_rate", "1001"), "Invalid argument"),
        (("0", "mac", "01:00:00:00:00:10"), "Invalid argument"),
        (("3", "mac", "02:00:00:00:00:99"), "Invalid argument"),
        (("0", "node_guid", "00:11:22:33:44:55:66:77"), "Operation not supported"),
    ],
)
def test_igb_refuses(vfs: Pf, words: tuple[str, ...], answer: str) -> None:
    before = vfs.link()["vfinfo_list"]
    assert vfs.ip("vf", *words) == (2, f"RTNETLINK answers: {answer}")
    assert vfs.link()["vfinfo_list"] == before


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
        (("vf", "0", "foo", "1"), 255, 'Command line is not complete. Try option "help"'),
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


@covers("admin-mac", "vf-random-mac", "vf-mac-udev", "altnames")
def test_an_admin_mac_shows_after_a_rebind(vfs: Pf) -> None:
    vfs.rebind(1)
    own = vfs.netdev(vfs.vf_netdev(1))
    assert int(own["address"][:2], 16) & 3 == 2
    assert own["permaddr"] != own["address"] == vfs.vf_info(1)["address"]
    kind = f"/sys/class/net/{vfs.vf_netdev(1)}/addr_assign_type"
    assert vfs.host.read(kind) == "3\n"
    vfs.ip("vf", "1", "mac", "02:00:00:00:00:10")
    assert vfs.netdev(vfs.vf_netdev(1))["address"] == own["address"]
    vfs.rebind(1)
    now = vfs.netdev(vfs.vf_netdev(1))
    assert (now["address"], vfs.host.read(kind)) == ("02:00:00:00:00:10", "0\n")
    assert "permaddr" not in now
    assert now["altnames"] == [*own["altnames"], "enx020000000010"]
    as_born(vfs, 1)
    assert vfs.netdev(vfs.vf_netdev(1))["address"] == own["address"]


@covers("untrusted-mac")
def test_an_untrusted_vf_keeps_its_admin_mac(vfs: Pf) -> None:
    vfs.ip("vf", "1", "mac", "02:00:00:00:00:10")
    vfs.rebind(1)
    change = ["ip", "link", "set", vfs.vf_netdev(1), "address", "02:00:00:00:00:99"]
    ran = vfs.host.run(change)
    assert (ran.rc, ran.stderr) == (2, "RTNETLINK answers: Cannot assign requested address\n")
    vfs.ip("vf", "1", "trust", "on")
    vfs.rebind(1)
    assert vfs.host.run(change).rc == 0
    assert vfs.vf_info(1)["address"] == "02:00:00:00:00:99"
    as_born(vfs, 1)


@covers("ip-json")
def test_the_keys_of_ip_are_those_of_the_sample(vfs: Pf) -> None:
    vfs.ip("vf", "0", "vlan", "100", "qos", "3")
    vfs.ip("vf", "0", "max_tx_rate", "100")
    of_pf, of_vf = json.loads(SAMPLE.read_text())
    got = [vfs.link(), vfs.netdev(vfs.vf_netdev(2))]
    assert [list(link) for link in got] == [list(of_pf), list(of_vf)]
    listed, sample = got[0]["vfinfo_list"], of_pf["vfinfo_list"]
    assert [list(vf) for vf in listed] == [list(vf) for vf in sample]
    differing = {"ifindex", "address", "permaddr", "vfinfo_list", "altnames"}
    for link, recorded in zip(got, (of_pf, of_vf), strict=True):
        assert {k: v for k, v in link.items() if k not in differing} == {
            k: v for k, v in recorded.items() if k not in differing
        }
    for words in AS_BORN:
        vfs.ip("vf", "0", *words)


@covers("ip-empty-vfs")
def test_a_pf_without_vfs_has_an_empty_list(pf: Pf) -> None:
    assert pf.link()["vfinfo_list"] == []


@covers("ip-rename-live", "ip-rename-taken", "ip-qdisc")
def test_a_netdev_is_renamed_while_it_is_up(vfs: Pf) -> None:
    name, other = vfs.vf_netdev(0), vfs.link()["altnames"][0]
    assert vfs.netdev(name)["qdisc"] == "noop"
    vfs.host.run(["ip", "link", "set", name, "up"])
    assert vfs.host.run(["ip", "link", "set", name, "name", "net1"]).rc == 0
    assert vfs.vf_netdev(0) == "net1"
    assert "net1" in vfs.host.entries("/sys/class/net")
    for taken in (vfs.name, other):
        ran = vfs.host.run(["ip", "link", "set", "net1", "name", taken])
        assert (ran.rc, ran.stderr) == (2, "RTNETLINK answers: File exists\n")
    vfs.host.run(["ip", "link", "set", "net1", "down"])
    found = vfs.netdev("net1")
    assert (found["qdisc"], found["altnames"]) == ("fq_codel", [f"{other}v0"])
    vfs.host.run(["ip", "link", "set", "net1", "name", name])


@covers("link-local")
def test_a_link_that_carries_has_a_link_local_address_and_its_routes(vfs: Pf) -> None:
    argv = ["ip", "-6", "-j", "route", "show", "table", "all"]

    def routes() -> set[tuple[str, str]]:
        shown = json.loads(vfs.host.run(argv).stdout)
        return {(r.get("type", ""), r["dst"]) for r in shown if r["dev"] == vfs.name}

    until(lambda: ("multicast", "ff00::/8") in routes(), f"IPv6 on {vfs.name}")
    octets = bytes.fromhex(vfs.link()["address"].replace(":", ""))
    suffix = bytes([octets[0] ^ 2, *octets[1:3], 0xFF, 0xFE, *octets[3:]])
    own = ipaddress.IPv6Address(bytes.fromhex("fe80000000000000") + suffix)
    until(lambda: ("local", str(own)) in routes(), f"{own} on {vfs.name}")
    assert ("", "fe80::/64") in routes()


# --- ip -batch - ------------------------------------------------------------------------------


def batch(vfs: Pf, *lines: str, options: tuple[str, ...] = ()) -> tuple[int, str, str]:
    text = "".join(f"{line}\n" for line in lines)
    ran = vfs.host.run(["ip", *options, "-batch", "-"], stdin=text)
    return ran.rc, ran.stdout, ran.stderr


def vlans(vfs: Pf) -> list[int]:
    listed = (vf.get("vlan_list", []) for vf in vfs.link()["vfinfo_list"])
    return [vlan["vlan"] for found in listed for vlan in found if vlan.get("vlan")]


@covers("igb-accepts")
def test_a_batch_sets_all_in_one_go(vfs: Pf) -> None:
    name = vfs.vf_netdev(0)
    done = batch(
        vfs,
        f"link set dev {vfs.name} vf 0 mac 02:00:00:00:00:10",
        f"link set dev {vfs.name} vf 1 mac 02:00:00:00:00:11",
        f"link set dev {name} mtu 9000",
    )
    assert done == (0, "", "")
    found = [vfs.vf_info(index)["address"] for index in (0, 1)]
    assert found == ["02:00:00:00:00:10", "02:00:00:00:00:11"]
    assert vfs.netdev(name)["mtu"] == 9000
    as_born(vfs, 0)
    as_born(vfs, 1)


@covers("ip-errors")
@pytest.mark.parametrize(("options", "left"), [((), [7]), (("-force",), [7, 8])])
def test_a_batch_ends_at_the_first_failure_unless_forced(
    vfs: Pf, options: tuple[str, ...], left: list[int]
) -> None:
    """The kernel refuses the fourth line: there are three VFs."""
    lines = (
        f"link set dev {vfs.name} vf 0 vlan 7",
        "",
        "# the next one is refused",
        f"link set dev {vfs.name} vf 3 vlan 8",
        f"link set dev {vfs.name} vf 1 vlan 8 # or not",
    )
    said = "RTNETLINK answers: Invalid argument\nCommand failed -:4\n"
    assert batch(vfs, *lines, options=options) == (1, "", said)
    assert vlans(vfs) == left
    for index in ("0", "1"):
        assert vfs.ip("vf", index, "vlan", "0") == (0, "")


@covers("ip-errors")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("link set dev nosuch up", 'Cannot find device "nosuch"'),
        ("nonsense", 'Object "nonsense" is unknown, try "ip help".'),
        ("-j link show", 'Object "-j" is unknown, try "ip help".'),
        ("link set dev {pf} vf 0 mac zz", '"zz" is invalid lladdr.'),
        ("link set dev {pf} mtu 9217", "Error: mtu greater than device maximum."),
    ],
)
def test_a_batch_says_which_line_failed(vfs: Pf, words: str, message: str) -> None:
    said = f"{message}\nCommand failed -:1\n"
    assert batch(vfs, words.format(pf=vfs.name)) == (1, "", said)


@covers("ip-errors")
@pytest.mark.parametrize("options", [(), ("-force",)])
def test_what_ip_cannot_read_ends_the_whole_batch(vfs: Pf, options: tuple[str, ...]) -> None:
    """lib/utils.c:invarg exits: no line is named, and nothing goes on."""
    lines = (f"link set dev {vfs.name} mtu abc", f"link set dev {vfs.name} vf 0 vlan 9")
    rc, _, said = batch(vfs, *lines, options=options)
    assert (rc, said.strip()) == (255, 'Error: argument "abc" is wrong: Invalid "mtu" value')
    assert vlans(vfs) == []


@covers("ip-json")
def test_a_batch_shows_one_answer_a_line(vfs: Pf) -> None:
    show = f"link show {vfs.name}"
    rc, out, said = batch(vfs, show, show, options=("-j",))
    assert (rc, said) == (0, "")
    assert [json.loads(line)[0]["ifname"] for line in out.splitlines()] == [vfs.name] * 2
    assert batch(vfs) == (0, "", "")
