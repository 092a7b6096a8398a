from __future__ import annotations

import json
import shutil
import subprocess
from typing import Any

import pytest

from podrail.attach.ipam.facts import Pooled
from podrail.attach.ipam.static import static_plan
from podrail.attach.result import Address, CniError, Code, Dns, Result, Route, parse
from tests.attach.ipam.made import facts

_TWO = [{"address": "10.0.0.5/24", "gateway": "10.0.0.1"}, {"address": "fd00::5/64"}]
_PLUGIN = shutil.which("static", path="/opt/cni/bin:/usr/lib/cni:/usr/libexec/cni")


def _plan(ipam: dict[str, Any], **more: Any) -> Pooled:
    return static_plan({"type": "static", **ipam}, facts(ipam, **more))


def test_what_is_written() -> None:
    plan = _plan({
        "addresses": _TWO,
        "routes": [{"dst": "0.0.0.0/0"}, {"dst": "192.168.0.0/16", "gw": "10.0.0.9"}],
        "dns": {"nameservers": ["10.0.0.53"], "search": ["cluster.local"]},
    })  # fmt: skip
    assert plan.fixed == (Address("10.0.0.5/24", "10.0.0.1"), Address("fd00::5/64"))
    assert plan.routes == (Route("0.0.0.0/0"), Route("192.168.0.0/16", "10.0.0.9"))
    assert plan.dns == Dns(("10.0.0.53",), search=("cluster.local",))
    assert plan.requests == ()


def test_cni_args_come_on_top_with_the_gateway_of_their_network() -> None:
    args = {"IP": "10.1.0.7/16, fd01::7/64", "GATEWAY": "10.1.0.1,fd01::1"}
    assert _plan({"addresses": _TWO[:1]}, args=args).fixed == (
        Address("10.0.0.5/24", "10.0.0.1"),
        Address("10.1.0.7/16", "10.1.0.1"),
        Address("fd01::7/64", "fd01::1"),
    )


@pytest.mark.parametrize(
    "config",
    [{"runtimeConfig": {"ips": ["10.9.0.9/24"]}}, {"args": {"cni": {"ips": ["10.9.0.9/24"]}}}],
)
def test_what_the_pod_asks_for_replaces_what_is_written(config: dict[str, Any]) -> None:
    plan = _plan({"addresses": _TWO}, config=config, args={"IP": "10.1.0.7/16"})
    assert plan.fixed == (Address("10.9.0.9/24"),)


def test_runtime_config_beats_args() -> None:
    both = {"runtimeConfig": {"ips": ["10.1.1.1/8"]}, "args": {"cni": {"ips": ["10.2.2.2/8"]}}}
    assert _plan({}, config=both).fixed == (Address("10.1.1.1/8"),)


@pytest.mark.parametrize(
    ("ipam", "more"),
    [
        pytest.param({}, {}, id="nothing"),
        pytest.param({"addresses": "10.0.0.5/24"}, {}, id="text-for-list"),
        pytest.param({"addresses": ["10.0.0.5/24"]}, {}, id="text-for-object"),
        pytest.param({"addresses": [{}]}, {}, id="empty-entry"),
        pytest.param({"addresses": [{"address": "10.0.0.5"}]}, {}, id="no-prefix"),
        pytest.param({"addresses": [{"address": "10.0.0.5/33"}]}, {}, id="long-prefix"),
        pytest.param({"addresses": [{"address": 5}]}, {}, id="number"),
        pytest.param({"addresses": [{"address": "fe80::1%eth0/64"}]}, {}, id="zone"),
        pytest.param({"addresses": [{"address": "::ffff:10.0.0.1/96"}]}, {}, id="mapped"),
        pytest.param({"addresses": [{**_TWO[1], "gateway": "x"}]}, {}, id="gateway"),
        pytest.param({"addresses": _TWO, "routes": [{"dst": "x"}]}, {}, id="route"),
        pytest.param({"addresses": _TWO, "routes": {"dst": "0.0.0.0/0"}}, {}, id="routes"),
        pytest.param({"addresses": _TWO, "dns": {"nameservers": "1.1.1.1"}}, {}, id="dns"),
        pytest.param({"addresses": _TWO}, {"args": {"IP": "10.0.0.5"}}, id="args-no-prefix"),
        pytest.param({"addresses": _TWO}, {"args": {"GATEWAY": "10.0.0.0/8"}}, id="args-gateway"),
        pytest.param({}, {"config": {"runtimeConfig": {"ips": ["10.0.0.5"]}}}, id="asked-bare"),
        pytest.param({}, {"config": {"runtimeConfig": {"ips": [7]}}}, id="asked-number"),
        pytest.param({}, {"config": {"runtimeConfig": []}}, id="runtime-config-list"),
        pytest.param({}, {"config": {"args": {"cni": "x"}}}, id="args-cni-text"),
    ],
)  # fmt: skip
def test_bad_input_is_an_invalid_config(ipam: dict[str, Any], more: dict[str, Any]) -> None:
    with pytest.raises(CniError, match=r"found .*, wanted ") as no:
        _plan(ipam, **more)
    assert no.value.code == Code.INVALID_CONFIG


@pytest.mark.skipif(_PLUGIN is None, reason="the static plugin is not installed")
@pytest.mark.parametrize(
    ("ipam", "more", "args"),
    [
        pytest.param({"addresses": _TWO, "routes": [{"dst": "0.0.0.0/0"}]}, {}, {}, id="written"),
        pytest.param({"addresses": _TWO}, {"runtimeConfig": {"ips": ["10.9.0.9/24"]}}, {},
                     id="ips"),
        pytest.param({"addresses": _TWO}, {}, {"IP": "10.1.0.7/16", "GATEWAY": "10.1.0.1"},
                     id="IP"),
    ],
)  # fmt: skip
def test_as_the_installed_plugin_says(
    ipam: dict[str, Any], more: dict[str, Any], args: dict[str, str]
) -> None:
    ipam = {"type": "static", **ipam}
    ours = static_plan(ipam, facts(ipam, config=more, args=args))
    theirs = _theirs({"cniVersion": "1.0.0", "name": "n", "ipam": ipam, **more}, args)
    assert Result(ips=ours.fixed, routes=ours.routes, dns=ours.dns) == theirs


def _theirs(config: dict[str, Any], args: dict[str, str]) -> Result:
    environment = {
        "CNI_COMMAND": "ADD", "CNI_CONTAINERID": "c", "CNI_NETNS": "/proc/self/ns/net",
        "CNI_IFNAME": "net1", "CNI_PATH": "/usr/lib/cni",
        "CNI_ARGS": ";".join(f"{key}={value}" for key, value in args.items()),
    }  # fmt: skip
    assert _PLUGIN
    said = subprocess.run(
        [_PLUGIN], input=json.dumps(config).encode(), env=environment, capture_output=True,
        timeout=30, check=True,
    )  # fmt: skip
    return parse(json.loads(said.stdout))
