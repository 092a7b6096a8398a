"""The configuration of a rail: every key, its ranges, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podrail.attach import netconf
from podrail.attach.netconf import load
from podrail.attach.railconf import Bandwidth, RailConf
from podrail.attach.request import Request
from podrail.attach.result import CniError, Code
from tests.attach.rails import DEVINFO, GUID, MAC, VF, ask, conf, one, refused


def test_a_plain_rail_leaves_everything_as_it_is() -> None:
    assert conf("sriov") == RailConf("sriov", "rails", VF)


def test_what_the_operator_renders() -> None:
    found = load(
        ask(
            "sriov", vlan=0, vlanQoS=0, ipam={}, logLevel="info", spoofchk="off", trust="on",
            link_state="auto", min_tx_rate=0, max_tx_rate=0, capabilities={"mac": True},
        )
    )  # fmt: skip
    assert (found.vlan, found.vlan_qos, found.vlan_proto) == (0, 0, "802.1q")
    assert (found.spoofchk, found.trust, found.link_state) == (False, True, "auto")
    assert (found.min_tx_rate, found.max_tx_rate, found.log_level) == (0, 0, "info")
    assert (found.ipam.type, found.ignored) == ("", ())


def test_an_infiniband_rail() -> None:
    found = conf(
        "ib-sriov", pkey="0x8001", link_state="enable", rdmaIsolation=True, vfioPciMode=True,
        runtimeConfig={"infinibandGUID": GUID.upper()}, ipam={"type": "whereabouts", "range": "x"},
    )  # fmt: skip
    assert (found.pkey, found.guid, found.link_state) == (0x8001, GUID, "enable")
    assert (found.rdma_isolation, found.vfio, found.ib_kubernetes) == (True, True, False)
    assert found.ipam.type == "whereabouts"
    assert found.ipam.config == {"type": "whereabouts", "range": "x"}


@pytest.mark.parametrize(
    ("key", "low", "high"),
    [
        ("vlan", 0, 4094), ("min_tx_rate", 0, 2**31 - 1), ("max_tx_rate", 0, 2**31 - 1),
        ("mtu", 68, 65535),
    ],
)  # fmt: skip
def test_a_number_has_its_range(key: str, low: int, high: int) -> None:
    for good in (low, high):
        assert getattr(conf(**one(key, good)), key) == good
    wrong: list[Any] = [low - 1, high + 1, "1", 1.0, True, [], {}]
    for bad in wrong:
        error = refused(ask(**one(key, bad)))
        assert error.code == Code.INVALID_CONFIG
        assert error.msg == f"{key}: found {bad!r}, wanted a number from {low} to {high}"


@pytest.mark.parametrize("key", ["spoofchk", "trust"])
def test_a_switch_is_on_or_off(key: str) -> None:
    assert [getattr(conf(**one(key, word)), key) for word in ("on", "off", "", None)] == [
        True, False, None, None,
    ]  # fmt: skip
    assert refused(ask(**one(key, "yes"))).msg == f"{key}: found 'yes', wanted on or off"
    assert refused(ask(**one(key, True))).msg == f"{key}: found True, wanted a string"


def test_a_link_state_is_one_of_three() -> None:
    for word in ("auto", "enable", "disable"):
        assert conf(link_state=word).link_state == word
    assert "wanted auto or enable or disable" in refused(ask(link_state="up")).msg


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"vlanQoS": 3}, "vlanQoS: found 3, wanted vlan beside it"),
        ({"vlanQoS": 0}, "vlanQoS: found 0, wanted vlan beside it"),
        ({"vlanProto": "802.1q"}, "vlanProto: found '802.1q', wanted vlan beside it"),
        ({"vlan": 0, "vlanQoS": 1}, "vlanQoS: found 1, wanted a vlan from 1 to 4094 beside it"),
        ({"vlan": 0, "vlanProto": "802.1AD"}, "wanted a vlan from 1 to 4094 beside it"),
        ({"vlan": 5, "vlanQoS": 8}, "vlanQoS: found 8, wanted a number from 0 to 7"),
        ({"vlan": 5, "vlanProto": "802.1x"}, "vlanProto: found '802.1x', wanted 802.1q or 802.1ad"),
        ({"min_tx_rate": 20, "max_tx_rate": 10}, "wanted at most max_tx_rate, which is 10"),
    ],
)
def test_keys_that_need_each_other(keys: dict[str, Any], said: str) -> None:
    assert said in refused(ask(**keys)).msg


@pytest.mark.parametrize(
    "keys",
    [
        {"vlan": 5, "vlanQoS": 7, "vlanProto": "802.1AD"}, {"vlan": 0, "vlanProto": "802.1Q"},
        {"min_tx_rate": 20, "max_tx_rate": 0}, {"min_tx_rate": 20}, {"vlan": 5, "vlanQoS": 0},
    ],
)  # fmt: skip
def test_keys_that_go_together(keys: dict[str, Any]) -> None:
    assert conf(**keys).problems == ()


def test_the_protocol_is_read_in_any_case() -> None:
    assert conf(vlan=5, vlanProto="802.1AD").vlan_proto == "802.1ad"


def test_whose_mac_counts() -> None:
    given_: dict[str, Any] = {
        "runtimeConfig": {"mac": "02:00:00:00:00:AA"},
        "mac": "02-00-00-00-00-cc",
    }
    args = {"MAC": "02:00:00:00:00:bb"}
    assert load(ask(env=args, **given_)).mac == "02:00:00:00:00:aa"
    assert load(ask(env=args, mac=given_["mac"])).mac == "02:00:00:00:00:bb"
    assert load(ask(mac=given_["mac"])).mac == "02:00:00:00:00:cc"


@pytest.mark.parametrize(
    "mac",
    ["01:00:5e:00:00:01", "ff:ff:ff:ff:ff:ff", "00:00:00:00:00:00", "02:00:00:00:00",
     "02:00:00:00:00:01:02", "02:00-00:00:00:01", "020000000001", "02:00:00:00:00:0g", "x"],
)  # fmt: skip
def test_a_mac_no_interface_can_have(mac: str) -> None:
    assert f"mac: found {mac!r}, wanted a unicast MAC" in refused(ask(mac=mac)).msg
    wrong = refused(ask(env={"MAC": mac}, mac=MAC))
    assert "CNI_ARGS MAC: found" in wrong.msg


@pytest.mark.parametrize(
    "guid", [":".join(["00"] * 8), ":".join(["ff"] * 8), "02:00:00:00:00:00:01", "0x1", "x"]
)
def test_a_guid_no_port_can_have(guid: str) -> None:
    assert "wanted eight octets" in refused(ask(guid=guid)).msg


def test_whose_guid_counts() -> None:
    cni = {"guid": GUID[:-1] + "2"}
    runtime = {"infinibandGUID": GUID}
    assert conf("ib-sriov", cni=cni, runtimeConfig=runtime).guid == GUID
    assert conf("ib-sriov", cni=cni).guid == GUID[:-1] + "2"
    assert conf("ib-sriov").guid is None


@pytest.mark.parametrize("pkey", ["0x0000", "0x8000", "7fff", "0x10000", "0x", "0xg", "-0x1", "1"])
def test_a_pkey_no_table_has(pkey: str) -> None:
    assert f"pkey: found {pkey!r}, wanted 0x0001 to 0xffff" in refused(ask(pkey=pkey)).msg


@given(st.integers(1, 0xFFFF).filter(lambda key: key & 0x7FFF))
def test_every_other_pkey_is_one(pkey: int) -> None:
    assert conf(pkey=hex(pkey)).pkey == pkey
    assert conf(pkey=f"0x{pkey:04X}").pkey == pkey


def test_ib_kubernetes_comes_first() -> None:
    keys: dict[str, Any] = {"ibKubernetesEnabled": True}
    error = refused(ask("ib-sriov", **keys))
    assert (error.code, "ib-kubernetes" in error.msg) == (Code.TRY_AGAIN_LATER, True)
    done = {"mellanox.infiniband.app": "configured", "guid": GUID}
    assert conf("ib-sriov", cni=done, **keys).ib_kubernetes
    assert load(ask("ib-sriov", "DEL", **keys)).problems == ()


def test_ib_has_no_dhcp() -> None:
    assert "ib-sriov has no dhcp" in refused(ask("ib-sriov", ipam={"type": "dhcp"})).msg
    assert conf("sriov", ipam={"type": "dhcp"}).ipam.type == "dhcp"


@pytest.mark.parametrize("kind", ["../x", "a/b", "-x", "x" * 64, 1, ["host-local"]])
def test_an_ipam_is_named_like_a_program(kind: object) -> None:
    assert refused(ask(ipam={"type": kind})).msg.startswith("ipam.type: found")


def test_what_the_runtime_adds() -> None:
    found = conf(
        runtimeConfig={
            "ips": ["10.0.0.5/24", "fd00::5"], "CNIDeviceInfoFile": DEVINFO,
            "bandwidth": {"ingressRate": 10, "egressBurst": 20},
        }
    )  # fmt: skip
    assert found.ips == ("10.0.0.5/24", "fd00::5")
    assert found.device_info == DEVINFO
    assert found.bandwidth == Bandwidth(ingress_rate=10, egress_burst=20)


@pytest.mark.parametrize(
    "path",
    ["/etc/shadow", "/var/run/k8s.cni.cncf.io/devinfo/../../x", "devinfo", "/run/k8s.cni.cncf.io/x",
     DEVINFO + "\n", 1],
)  # fmt: skip
def test_root_writes_device_info_nowhere_else(path: object) -> None:
    error = refused(ask(runtimeConfig={"CNIDeviceInfoFile": path}))
    assert error.msg.startswith("runtimeConfig.CNIDeviceInfoFile: found")


@pytest.mark.parametrize(
    ("runtime", "said"),
    [
        ({"ips": "10.0.0.5"}, "runtimeConfig.ips: found '10.0.0.5', wanted a list"),
        ({"ips": ["10.0.0.5", "x"]}, "runtimeConfig.ips[1]: found 'x'"),
        ({"ips": [1]}, "runtimeConfig.ips[0]: found 1, wanted an address"),
        ({"bandwidth": {"egressRate": -1}}, "egressRate: found -1, wanted a number from 0"),
        ({"mac": 1}, "runtimeConfig.mac: found 1, wanted a string"),
        ([], "runtimeConfig: found [], wanted an object"),
    ],
)
def test_what_the_runtime_may_not_add(runtime: object, said: str) -> None:
    assert said in refused(ask(runtimeConfig=runtime)).msg


def test_a_key_of_another_plugin_does_nothing_and_is_told() -> None:
    found = conf("sriov", pkey="0x1", mtu="wrong", vlan_trunk="1-5", rdmaIsolation=True)
    assert (found.pkey, found.mtu, found.rdma_isolation) == (None, None, False)
    assert found.ignored == ("mtu", "pkey", "rdmaIsolation", "vlan_trunk")
    found = conf("ib-sriov", vlan=9999, mac="x")
    assert (found.vlan, found.mac, found.ignored) == (None, None, ("mac", "vlan"))


def test_keys_are_found_in_any_case_the_exact_one_first() -> None:
    assert conf(VLAN=7, MIN_TX_RATE=1).vlan == 7
    assert conf(VLAN=7, vlan=8).vlan == 8
    assert conf(vlan=8, VLAN=7).vlan == 8


def test_another_type_is_refused() -> None:
    for kind in ("macvlan", "", "../sriov"):
        assert "wanted sriov, ib-sriov, rdma, podrail" in refused(ask(kind)).msg


def test_everything_wrong_is_said_at_once() -> None:
    error = refused(ask(vlan="x", trust="maybe", mtu=1))
    assert error.code == Code.INVALID_CONFIG
    assert error.msg.startswith("vlan:")
    assert "trust:" in error.details
    assert "mtu:" in error.details


def test_a_del_ends_although_its_add_was_refused() -> None:
    found = load(ask(command="DEL", vlan="x", deviceID="nonsense", prevResult=3, type="bridge"))
    assert (found.device, found.vlan, found.prev) == (None, None, None)
    assert len(found.problems) == 4


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
ALL_KEYS = sorted({key for keys in netconf.KEYS.values() for key in keys} | {
    "deviceID", "pciBusID", "runtimeConfig", "args", "ipam", "prevResult", "name", "type", "MAC",
})  # fmt: skip
INNER = [
    "mac",
    "ips",
    "infinibandGUID",
    "CNIDeviceInfoFile",
    "bandwidth",
    "deviceID",
    "cni",
    "type",
]
OBJECT = st.dictionaries(st.sampled_from(INNER), JSON)


@given(
    st.sampled_from(sorted(netconf.KEYS)), st.sampled_from(["ADD", "DEL", "CHECK", "GC", "STATUS"]),
    st.dictionaries(st.sampled_from(ALL_KEYS) | st.text(max_size=5), JSON | OBJECT, max_size=6),
    st.dictionaries(st.sampled_from(["MAC", "mac", "deviceID", "guid"]), st.text(max_size=9)),
)  # fmt: skip
def test_any_json_is_a_rail_or_an_error_of_cni(
    kind: str, command: str, config: dict[str, Any], args: dict[str, str]
) -> None:
    asked = Request(command, "c1", "/ns", "net1", args, (), {"type": kind} | config, kind)
    error: CniError | None = None
    try:
        found = load(asked)
    except CniError as no:
        error = no
        assert command not in ("DEL", "GC")
    else:
        assert found.device is None or found.device == found.device.lower()
        assert found.vlan is None or 0 <= found.vlan <= 4094
    assert error is None or json.dumps(error.render("1.1.0"))
