"""What stands on a port, read from a real kernel in a namespace of this test's own."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

pytestmark = pytest.mark.netns

LOOK = """\
import json
from podrail.host.linux import LinuxHost
from podrail.inventory import links, stack
from podrail.inventory.reader import Reader
reader = Reader(LinuxHost())
net = links.read_links(reader)
stood = stack.build(reader, net)
names = sorted(net.by_name)
print(json.dumps({
    "names": names,
    "above": {name: list(stood.over(name)) for name in names},
    "management": {name: stood.management([name]) for name in names},
    "addresses": {name: list(addresses) for name, addresses in net.addresses.items()},
}))
"""


def look(*commands: str) -> dict[str, dict[str, Any]]:
    """The links of a fresh namespace after these `ip` commands."""
    steps = "".join(f"ip {command} && " for command in ("link set lo up", *commands))
    done = subprocess.run(
        ["unshare", "-n", "sh", "-c", f'{steps}exec "$0" -c "$1"', sys.executable, LOOK],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, dict[str, Any]] = json.loads(done.stdout)
    return found


BRIDGE = (
    "link add v0 type veth peer name v1",
    "link add br0 type bridge",
    "link set v0 master br0",
    "link set v0 up",
    "link set br0 up",
)


def test_a_default_route_on_a_bridge_is_the_ports_management_path() -> None:
    seen = look(*BRIDGE, "addr add 192.0.2.2/24 dev br0", "route add default via 192.0.2.1 dev br0")
    assert "br0" in seen["above"]["v0"]
    assert "default route" in str(seen["management"]["v0"])
    assert seen["addresses"]["br0"] == ["192.0.2.2/24"]


def test_a_default_route_in_another_table_counts() -> None:
    seen = look(
        "link add v0 type veth peer name v1",
        "link set v0 up",
        "addr add 192.0.2.2/24 dev v0",
        "route add default via 192.0.2.1 dev v0 table 100",
    )
    assert "default route" in str(seen["management"]["v0"])


def test_a_rail_that_answers_from_its_own_address_carries_no_management() -> None:
    """Source routing, as every multi-rail host has it: a table and a rule per rail."""
    rail = (
        "link add v0 type veth peer name v1",
        "link set v0 up",
        "addr add 192.0.2.2/24 dev v0",
        "route add default via 192.0.2.1 dev v0 table 100",
    )
    own = look(*rail, "rule add from 192.0.2.2 table 100")
    assert own["management"]["v0"] is None
    everyone = look(*rail, "rule add from 192.0.2.2 table 100", "rule add fwmark 7 table 100")
    assert "default route" in str(everyone["management"]["v0"])


def test_a_port_with_an_address_alone_carries_no_management() -> None:
    seen = look(*BRIDGE, "addr add 192.0.2.2/24 dev br0")
    assert seen["management"]["v0"] is None


def test_a_macvlan_stands_on_its_port() -> None:
    seen = look(
        "link add v0 type veth peer name v1",
        "link set v0 up",
        "link add link v0 name mv0 type macvlan mode bridge",
        "link set mv0 up",
        "addr add 2001:db8::2/64 dev mv0 nodad",
        "-6 route add default via 2001:db8::1 dev mv0",
    )
    assert "mv0" in seen["above"]["v0"]
    assert "default route" in str(seen["management"]["v0"])
