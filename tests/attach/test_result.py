"""CNI results: every version of the spec from one dataclass."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podrail.attach import result
from podrail.attach.result import Address, CniError, Code, Dns, Interface, Result, Route

RAIL = Result(
    (Interface("net1", "02:00:00:00:00:01", 9000, "/run/netns/a", "/run/s", "0000:81:10.0"),),
    (Address("10.0.0.5/24", "10.0.0.1", 0), Address("fd00::5/64", "", 0)),
    (Route("0.0.0.0/0", "10.0.0.1", 1400, 1360, 10, 100, 0),),
    Dns(("10.0.0.2",), "cluster.local", ("a.b",), ("ndots:5",)),
)


@pytest.mark.parametrize("version", ["0.3.0", "0.3.1", "0.4.0"])
def test_the_old_form(version: str) -> None:
    assert result.render(RAIL, version) == {
        "cniVersion": version,
        "interfaces": [{"name": "net1", "mac": "02:00:00:00:00:01", "sandbox": "/run/netns/a"}],
        "ips": [
            {"version": "4", "address": "10.0.0.5/24", "gateway": "10.0.0.1", "interface": 0},
            {"version": "6", "address": "fd00::5/64", "interface": 0},
        ],
        "routes": [{"dst": "0.0.0.0/0", "gw": "10.0.0.1"}],
        "dns": {
            "nameservers": ["10.0.0.2"], "domain": "cluster.local", "search": ["a.b"],
            "options": ["ndots:5"],
        },
    }  # fmt: skip


@pytest.mark.parametrize("version", ["1.0.0", "1.1.0"])
def test_the_new_form(version: str) -> None:
    body = result.render(RAIL, version)
    assert body["interfaces"] == [
        {
            "name": "net1", "mac": "02:00:00:00:00:01", "mtu": 9000, "sandbox": "/run/netns/a",
            "socketPath": "/run/s", "pciID": "0000:81:10.0",
        }
    ]  # fmt: skip
    assert body["ips"][0] == {"address": "10.0.0.5/24", "gateway": "10.0.0.1", "interface": 0}
    assert body["routes"] == [
        {
            "dst": "0.0.0.0/0", "gw": "10.0.0.1", "mtu": 1400, "advmss": 1360, "priority": 10,
            "table": 100, "scope": 0,
        }
    ]  # fmt: skip


def test_nothing_made_is_nothing_said() -> None:
    assert result.render(Result(), "1.1.0") == {"cniVersion": "1.1.0"}


V4 = st.ip_addresses(v=4).map(str)
V6 = st.ip_addresses(v=6).map(str)
NETWORK = st.one_of(V4.map(lambda ip: f"{ip}/24"), V6.map(lambda ip: f"{ip}/64"))
NUMBER = st.none() | st.integers(0, 2**31)
TEXT = st.text("abc.-", max_size=5)
TEXTS = st.lists(TEXT.filter(bool), max_size=2).map(tuple)


@st.composite
def results(draw: st.DrawFn) -> Result:
    interfaces = draw(
        st.lists(
            st.builds(Interface, TEXT.filter(bool), TEXT, NUMBER, TEXT, TEXT, TEXT), max_size=3
        )
    )
    place = st.sampled_from([None, *range(len(interfaces))])
    ips = st.lists(st.builds(Address, NETWORK, st.just("") | V4, place), max_size=3)
    route = st.builds(Route, NETWORK, st.just("") | V6, NUMBER, NUMBER, NUMBER, NUMBER, NUMBER)
    return Result(
        tuple(interfaces), tuple(draw(ips)), tuple(draw(st.lists(route, max_size=3))),
        draw(st.builds(Dns, TEXTS, TEXT, TEXTS, TEXTS)),
    )  # fmt: skip


@given(results())
def test_what_is_rendered_is_read_again(made: Result) -> None:
    for version in ("1.0.0", "1.1.0"):
        assert result.parse(json.loads(json.dumps(result.render(made, version)))) == made


@given(results(), st.sampled_from(["0.3.0", "0.3.1", "0.4.0"]))
def test_the_old_form_keeps_what_it_can_say(made: Result, version: str) -> None:
    body = result.render(made, version)
    again = result.parse(body)
    assert result.render(again, version) == body
    assert again.ips == made.ips
    assert again.dns == made.dns


@given(results(), results())
def test_merging_loses_nothing_and_points_right(before: Result, ours: Result) -> None:
    merged = result.merge(before, ours)
    names = {(one.name, one.sandbox) for one in merged.interfaces}
    assert names == {(one.name, one.sandbox) for one in (*before.interfaces, *ours.interfaces)}
    assert merged.ips[: len(set(before.ips))] == tuple(dict.fromkeys(before.ips))
    pointed = {(ip.address, _owner(ours, ip)) for ip in ours.ips}
    assert pointed <= {(ip.address, _owner(merged, ip)) for ip in merged.ips}
    assert set(before.routes) | set(ours.routes) == set(merged.routes)
    assert result.merge(before, Result()).interfaces == before.interfaces


def _owner(found: Result, ip: Address) -> tuple[str, str] | None:
    if ip.interface is None:
        return None
    return found.interfaces[ip.interface].name, found.interfaces[ip.interface].sandbox


def test_a_chained_plugin_adds_to_the_interface_it_found() -> None:
    before = Result((Interface("veth0"), Interface("net1", "02:00:00:00:00:01", sandbox="/ns")))
    ours = Result((Interface("net1", mtu=9000, sandbox="/ns"),), (Address("10.0.0.5/24", "", 0),))
    assert result.merge(before, ours) == Result(
        (Interface("veth0"), Interface("net1", "02:00:00:00:00:01", 9000, "/ns")),
        (Address("10.0.0.5/24", "", 1),),
    )


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (None, "prevResult: found None, wanted an object"),
        ([], "prevResult: found [], wanted an object"),
        ({"interfaces": {}}, "prevResult.interfaces: found {}, wanted a list"),
        ({"interfaces": [1]}, "prevResult.interfaces[0]: found 1, wanted an object"),
        ({"interfaces": [{"name": 1}]}, "prevResult.interfaces[0].name: found 1, wanted a string"),
        ({"interfaces": [{"mtu": True}]}, "[0].mtu: found True, wanted a number"),
        ({"ips": [{"address": "nowhere"}]}, "wanted an address such as 10.0.0.5/24"),
        ({"ips": [{}]}, "prevResult.ips[0].address: found '', wanted an address"),
        ({"ips": [{"address": "10.0.0.5/24", "gateway": "x"}]}, "ips[0].gateway: found 'x'"),
        ({"ips": [{"address": "10.0.0.5/24", "interface": 0}]}, "an index of interfaces"),
        ({"ips": [{"address": "10.0.0.5/24", "interface": -1}]}, "an index of interfaces"),
        ({"routes": [{"dst": "x"}]}, "prevResult.routes[0].dst: found 'x', wanted a network"),
        ({"dns": {"search": "x"}}, "prevResult.dns.search: found 'x', wanted a list"),
        ({"dns": []}, "prevResult.dns: found [], wanted an object"),
    ],
)  # fmt: skip
def test_a_wrong_previous_result_is_refused(raw: object, said: str) -> None:
    with pytest.raises(CniError) as no:
        result.parse(raw)
    assert no.value.code == Code.INVALID_CONFIG
    assert said in no.value.msg


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=10,
)
KEYS = ("interfaces", "ips", "routes", "dns", "name", "address", "gateway", "dst", "search")


@given(st.dictionaries(st.sampled_from(KEYS), st.lists(st.dictionaries(st.sampled_from(KEYS), JSON))
                       | JSON))  # fmt: skip
def test_any_json_is_a_result_or_an_error_of_cni(raw: dict[str, Any]) -> None:
    error: CniError | None = None
    try:
        assert isinstance(result.parse(raw), Result)
    except CniError as no:
        error = no
    assert error is None or error.code == Code.INVALID_CONFIG


def test_an_error_as_the_runtime_reads_it() -> None:
    error = CniError(Code.TRY_AGAIN_LATER, "later", "much")
    assert error.render("0.4.0") == {
        "cniVersion": "0.4.0", "code": 11, "msg": "later", "details": "much",
    }  # fmt: skip
    assert "details" not in CniError(7, "no").render("1.1.0")
    again = pickle.loads(pickle.dumps(error))
    assert (again.code, again.msg, again.details) == (11, "later", "much")


def test_a_huge_value_does_not_fill_the_message() -> None:
    assert len(result.wrong("name", "x" * 10**6, "less").msg) < 150


def test_versions() -> None:
    assert result.versions() == {
        "cniVersion": "1.1.0",
        "supportedVersions": ["0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"],
    }
