"""twin:igb tells the truth of a lab node: the same machine in every state it can be brought to.

What may differ: random MACs and interface numbers; the patch level of the kernel and the package
version in the BIOS string, which are those of the image and of QEMU; and modules that the twin does
not know at all, which other tests of this tier may have left on the node.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from podrail.host.open import open_host
from podrail.host.seam import Host
from podrail.host.twin import TwinHost
from podrail.host.twins.igb import MACHINE
from podrail.inventory import discover
from podrail.lab.host import LabHost
from tests.twin.conftest import until

DEVICES = "/sys/bus/pci/devices"
PFS = {"0000:43:00.0": "enp67s0", "0000:81:00.0": "ens2"}
VF = "0000:81:10.4"
ADMIN_MAC = "02:00:00:00:00:10"
KNOWN = {**MACHINE.modules, **MACHINE.loadable}
NUMBERS = ("ifindex", "iflink")


# --- the states -------------------------------------------------------------------------------


def as_booted(host: Host) -> None:
    """PFs just probed and down, and no module the boot did not load."""
    for pf in PFS:
        host.write(f"{DEVICES}/{pf}/sriov_numvfs", "0")
        for way in ("unbind", "bind"):
            host.write(f"/sys/bus/pci/drivers/igb/{way}", pf)
    host.run(["udevadm", "settle"])
    loaded = [line.split(" ")[0] for line in host.read("/proc/modules").splitlines()]
    for module in loaded:  # the newest first, so users before what they use
        if module not in MACHINE.modules:
            host.run(["modprobe", "-r", module])


def with_vfs(host: Host) -> None:
    for pf in PFS:
        host.write(f"{DEVICES}/{pf}/sriov_numvfs", "3")
    host.run(["udevadm", "settle"])


def with_vfio(host: Host) -> None:
    host.write(f"{DEVICES}/{VF}/driver/unbind", VF)
    host.write(f"{DEVICES}/{VF}/driver_override", "vfio-pci")
    host.run(["modprobe", "vfio-pci"])


def with_settings(host: Host) -> None:
    for words in (["mac", ADMIN_MAC], ["vlan", "100", "qos", "3"], ["trust", "on"]):
        assert host.run(["ip", "link", "set", "ens2", "vf", "0", *words]).rc == 0


def up_and_told(host: Host) -> None:
    """The PF up, so that it tells its VF the MAC the administrator chose."""
    host.run(["ip", "link", "set", "ens2", "up"])
    until(lambda: host.read("/sys/class/net/ens2/carrier") == "1\n", "a carrier on ens2")
    for way in ("unbind", "bind"):
        host.write(f"/sys/bus/pci/drivers/igbvf/{way}", "0000:81:10.0")
    host.run(["udevadm", "settle"])


STATES = {
    "as booted": as_booted,
    "three VFs on each PF": with_vfs,
    "a VF on vfio-pci": with_vfio,
    "a VF with settings": with_settings,
    "the PF up": up_and_told,
}
"""Each builds on the one before."""


# --- what is compared -------------------------------------------------------------------------


def inventory(host: Host) -> dict[str, Any]:
    found: dict[str, Any] = discover(host).to_json()
    node = found["node"]
    node["kernel"] = node["kernel"].split(".")[:2]
    node["bios"] = node["bios"].split(" ")[::2]
    modules = {m["name"]: m for m in found["modules"] if m["name"] in KNOWN}
    for module in modules.values():
        module["used_by"] = sorted(name for name in module["used_by"] if name in KNOWN)
    found["modules"] = modules
    for vf in (vf for pf in found["pfs"] for vf in pf["vfs"]):
        vf["mac"] = vf["mac"] if vf["mac"] in (ADMIN_MAC, None) else "random"
    return found


def links(host: Host) -> dict[str, Any]:
    """`ip -d -j link`, by name."""
    shown = json.loads(host.run(["ip", "-d", "-j", "link", "show"]).stdout)
    return {link["ifname"]: _without_chance(link) for link in shown if "parentbus" in link}


def _without_chance(link: dict[str, Any]) -> dict[str, Any]:
    del link["ifindex"]
    for info in (link, *link.get("vfinfo_list", ())):
        for key in ("address", "permaddr"):
            if key in info and not info[key].startswith(("52:54:00:", "02:00:", "00:00:")):
                info[key] = "random"
    return link


def routes(host: Host) -> list[str]:
    """`ip -j route show table all` of both families, without what runs down."""
    shown = json.loads(host.run(["ip", "-j", "route", "show", "table", "all"]).stdout)
    kept = ({k: v for k, v in r.items() if k not in ("expires", "metrics")} for r in shown)
    return sorted(json.dumps(route) for route in kept)


def flat(value: Any, at: str = "") -> Iterator[tuple[str, Any]]:
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, one in items:
        nested = isinstance(one, dict | list) and one
        yield from flat(one, f"{at}/{key}") if nested else [(f"{at}/{key}", one)]


def differences(twin: Any, node: Any) -> list[tuple[str, Any, Any]]:
    """(where, what the twin says, what the kernel says)."""
    ours, theirs = dict(flat(twin)), dict(flat(node))
    gone = "not there"
    return [
        (at, ours.get(at, gone), theirs.get(at, gone))
        for at in sorted(ours.keys() | theirs.keys())
        if ours.get(at, gone) != theirs.get(at, gone)
    ]


@dataclass(slots=True)
class Both:
    """The twin and the node, brought from state to state together."""

    twin: TwinHost
    node: LabHost
    reached: int = 1

    def bring_to(self, state: str) -> None:
        wanted = list(STATES).index(state) + 1
        for step in list(STATES.values())[self.reached : wanted]:
            step(self.twin)
            step(self.node)
        self.reached = max(self.reached, wanted)


@pytest.fixture(scope="module")
def both(node1: LabHost) -> Iterator[Both]:
    """A fresh twin, and the node as it was booted."""
    as_booted(node1)
    address = ["ip", "-j", "-6", "addr", "show", "enp0s3"]
    until(lambda: "fec0::" in node1.run(address).stdout, "QEMU's router advertisement")
    twin = open_host("twin:igb")
    assert isinstance(twin, TwinHost)
    yield Both(twin, node1)
    as_booted(node1)


@pytest.mark.parametrize("state", STATES)
def test_twin_and_node_are_the_same_machine(both: Both, state: str) -> None:
    both.bring_to(state)
    assert differences(inventory(both.twin), inventory(both.node)) == []
    assert differences(links(both.twin), links(both.node)) == []
    until(lambda: routes(both.node) == routes(both.twin), f"{routes(both.twin)} on the node", 5.0)


def content(host: Host, path: str) -> str | int | None:
    try:
        return host.read(path)
    except OSError as no:
        return no.errno


def test_every_file_a_twin_has_below_sys_reads_so_on_the_node(
    both: Both,
) -> None:
    twin, node = both.twin, both.node
    left_out = ("/config", "/resource", *(f"/{name}" for name in NUMBERS))
    files = [p for p in twin._files if p.startswith("/sys/") and not p.endswith(left_out)]
    random = {f"{n.path}/address" for n in twin.netdevs.values() if n.permanent}
    assert len(files) > 300
    assert [
        (path, content(twin, path), content(node, path))
        for path in files
        if path not in random and content(twin, path) != content(node, path)
    ] == []


def test_every_link_a_twin_has_below_sys_leads_there_on_the_node(
    both: Both,
) -> None:
    twin, node = both.twin, both.node
    paths = [path for path in twin._links if path.startswith("/sys/")]
    assert [p for p in paths if node.readlink(p) != twin.readlink(p)] == []
