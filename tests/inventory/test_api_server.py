"""The way to the API server, given by address or by name."""

from __future__ import annotations

import pytest

from podrail.host.memory import MemoryHost
from podrail.host.twins import twin
from podrail.inventory import discover
from podrail.inventory.render import render
from tests.inventory.machines import IP_ROUTE, default_by, says
from tests.inventory.test_management_path import NEAR, machine, only_pf


def api(host: MemoryHost, server: str) -> None:
    host.put("/etc/kubernetes/kubelet.conf", f"clusters:\n- cluster:\n    server: {server}\n")


def test_route_to_the_api_server() -> None:
    host = machine(route="elsewhere")
    routes = [*default_by("elsewhere"), {"dst": "192.168.7.0/24", "dev": "ens1"}]
    says(host, IP_ROUTE, routes)
    assert only_pf(host).management is None
    api(host, "https://192.168.7.9:6443")
    assert only_pf(host).management == (
        "the route to the API server 192.168.7.9 leaves through ens1"
    )


NAME = "api-int.c.example.com"
GETENT = ("getent", "ahosts", NAME)


def named() -> MemoryHost:
    host = machine(route="elsewhere")
    says(host, IP_ROUTE, [*default_by("elsewhere"), NEAR])
    api(host, f"https://{NAME}:6443")
    return host


def test_an_api_server_named_in_etc_hosts() -> None:
    host = named()
    host.put("/etc/hosts", f"127.0.0.1 localhost\n10.9.0.5 other {NAME.upper()} # api\n")
    assert only_pf(host).management == (
        f"the route to the API server {NAME} (10.9.0.5) leaves through ens1"
    )
    assert not [fact for fact in discover(host).unknown if "#server" in fact.path]


def test_an_api_server_the_resolver_knows() -> None:
    host = named()
    lines = [f"{at}  {kind}" for at in ("10.7.0.5", "10.9.0.5") for kind in ("STREAM x", "RAW")]
    says(host, GETENT, "\n".join(lines))
    assert f"{NAME} (10.9.0.5)" in (only_pf(host).management or "")


@pytest.mark.parametrize("installed", [True, False])
def test_an_api_server_nobody_resolves_is_unknown_and_shown_first(installed: bool) -> None:
    host = named()
    if installed:
        says(host, GETENT, "", rc=2)
    host.put("/etc/hosts", f"# 10.9.0.5 {NAME}\n")
    found = discover(host)
    reasons = {fact.path: fact.reason for fact in found.unknown}
    assert f"the API server {NAME} is a name" in reasons["/etc/kubernetes/kubelet.conf#server"]
    lines = render(found)
    at = next(i for i, line in enumerate(lines) if "└─ unknown" in line)
    assert "kubelet.conf#server" in lines[at + 1]


@pytest.mark.parametrize(
    "path",
    [
        "/var/lib/rancher/k3s/agent/kubelet.kubeconfig",
        "/var/lib/rancher/rke2/agent/kubelet.kubeconfig",
        "/var/snap/microk8s/current/credentials/kubelet.config",
    ],
)
def test_kubeconfigs_of_other_distributions(path: str) -> None:
    host = machine(route="elsewhere")
    says(host, IP_ROUTE, [NEAR])
    host.put(path, "clusters:\n- cluster:\n    server: https://10.9.0.5:6443\n")
    assert "API server 10.9.0.5" in (only_pf(host).management or "")
    host.put(path, "clusters:\n- cluster:\n    server: https://127.0.0.1:6444\n")
    reasons = {fact.path: fact.reason for fact in discover(host).unknown}
    assert "127.0.0.1 is a proxy on this machine" in reasons[f"{path}#server"]


def test_a_route_of_a_higher_metric_counts_too() -> None:
    host = named()
    says(host, IP_ROUTE, [{"dst": "10.9.0.0/24", "dev": "eth9"}, {**NEAR, "metric": 200}])
    says(host, GETENT, "10.9.0.5 STREAM x\n")
    assert only_pf(host).management is not None


@pytest.mark.parametrize("name", ["roce-cx6", "ib-cx7"])
def test_an_openshift_node_knows_its_api_by_name(name: str) -> None:
    host = twin(name)
    assert "//api-int." in host.read("/var/lib/kubelet/kubeconfig")
    assert discover(host).unknown == ()
