"""Events of a real kernel, in a namespace that each scenario is started in alone.

A scenario is a function of this module; `inside` runs it with `unshare -n` and gives what it
returned, so nothing here touches the links of the machine.
"""

from __future__ import annotations

import json
import select
import socket
import subprocess
import sys
from collections.abc import Callable
from time import monotonic
from typing import Any

import pytest

from podrail.host import events, wait
from podrail.host.linux import LinuxHost
from podrail.host.seam import LOST, Event
from tests.conftest import ROOT

pytestmark = pytest.mark.netns

AGES = 3600.0
SOON = 5.0
"""Seconds that are never waited in full, unless something is broken."""


def inside(scenario: Callable[[], Any]) -> Any:
    """What the scenario returns in a fresh namespace."""
    argv = ["unshare", "-n", sys.executable, "-m", __name__, scenario.__name__]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def ip(*words: str) -> None:
    ran = LinuxHost().run(["ip", "link", *words])
    assert ran.rc == 0, ran.stderr


def brief(found: tuple[Event, ...] | list[Event]) -> list[list[str]]:
    return [[event.source, event.action, event.path, event.name] for event in found]


def heard(watch: events.KernelWatch, last: Event) -> list[Event]:
    """Everything up to an event that must come."""
    found: list[Event] = []
    while last not in found:
        came = watch.wait(SOON)
        assert came, f"{last} did not come, only {found}"
        found += came
    return found


def gone(name: str) -> Event:
    return Event("uevent", "remove", f"/sys/devices/virtual/net/{name}", name, "net")


# --- scenarios ------------------------------------------------------------------------------------


def life_of_a_link() -> list[list[str]]:
    with events.KernelWatch() as watch:
        ip("add", "v0", "type", "veth", "peer", "name", "p0")
        ip("set", "v0", "mtu", "1400")
        ip("set", "v0", "mtu", "1400")
        ip("set", "v0", "name", "v1")
        ip("set", "v1", "up")
        ip("del", "v1")
        found = heard(watch, gone("p0"))
        if Event("link", "del", name="p0", subsystem="net") not in found:
            found += heard(watch, Event("link", "del", name="p0", subsystem="net"))
        return brief([event for event in found if event.name in ("v0", "v1")])


def life_in_a_bridge() -> list[list[str]]:
    ip("add", "v0", "type", "veth", "peer", "name", "p0")
    ip("add", "br0", "type", "bridge")
    with events.KernelWatch() as watch:
        ip("set", "v0", "master", "br0")
        ip("set", "v0", "nomaster")
        ip("set", "v0", "mtu", "1400")
        ip("del", "br0")
        return brief([e for e in heard(watch, gone("br0")) if e.name == "v0"])


def change_behind_the_look() -> list[Any]:
    """The link comes right after the first look; nothing but an event can tell within the time."""
    wait.FIRST_PAUSE = AGES
    host, looks = LinuxHost(), list[bool]()

    def condition() -> bool:
        looks.append(host.run(["ip", "link", "show", "v0"]).rc == 0)
        if len(looks) == 1:
            ip("add", "v0", "type", "veth", "peer", "name", "p0")
        return looks[-1]

    began = monotonic()
    return [wait.until(host, condition, AGES), looks[0], monotonic() - began]


def nothing_happens() -> float:
    """Seconds of a wait that brought nothing; devices of the machine may speak up meanwhile."""
    with LinuxHost().watch() as watch:
        while watch.wait(0):
            pass
        began = monotonic()
        while watch.wait(0.1):
            began = monotonic()
        return monotonic() - began


def time_is_over() -> list[Any]:
    began = monotonic()
    return [wait.until(LinuxHost(), lambda: False, 0.2), monotonic() - began]


def forged() -> list[list[str]]:
    """A root process sends what looks like the kernel's word, to the group and to the socket."""
    message = b"add@/devices/forged\0ACTION=add\0DEVPATH=/devices/forged\0SUBSYSTEM=net\0"
    protocol = 15  # NETLINK_KOBJECT_UEVENT
    with (
        events.KernelWatch() as watch,
        socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol) as other,
    ):
        other.bind((0, 0))
        port, _ = watch._sockets[0].getsockname()
        other.sendto(message, (port, 0))
        ip("add", "v0", "type", "veth", "peer", "name", "p0")
        ip("del", "v0")
        return brief([e for e in heard(watch, gone("p0")) if "forged" in e.path])


def overrun() -> list[bool]:
    """More than fits while nobody listens; what comes afterwards is heard again."""
    events._BUFFER = 4096
    with events.KernelWatch() as watch:
        for number in range(16):
            ip("add", f"v{number}", "type", "veth", "peer", "name", f"p{number}")
        found = watch.wait(SOON)
        while watch.wait(0):
            pass
        ip("set", "v0", "mtu", "1400")
        again = heard(watch, Event("link", "new", name="v0", subsystem="net"))
        return [LOST in found, len(found) < 64, LOST in again]


def readable() -> list[bool]:
    with LinuxHost().watch() as watch:
        before = select.select([watch], [], [], 0)[0] == []
        ip("add", "v0", "type", "veth", "peer", "name", "p0")
        after = select.select([watch], [], [], SOON)[0] == [watch]
        return [before, after, bool(watch.wait(0))]


# --- what they must show --------------------------------------------------------------------------


def test_a_link_comes_changes_and_goes() -> None:
    found = inside(life_of_a_link)
    place = "/sys/devices/virtual/net"
    assert [event[1:] for event in found if event[0] == "uevent"] == [
        ["add", f"{place}/v0", "v0"],
        ["move", f"{place}/v1", "v1"],
        ["remove", f"{place}/v1", "v1"],
    ]
    links = [(action, name) for source, action, _, name in found if source == "link"]
    assert links[:2] == [("new", "v0")] * 2  # it came, and one of the two MTUs was another
    assert set(links[2:-1]) == {("new", "v1")}
    assert len(links[2:-1]) >= 2  # the name, and up
    assert links[-1] == ("del", "v1")


def test_a_port_that_leaves_its_bridge_is_still_there() -> None:
    found = inside(life_in_a_bridge)
    assert {(source, action) for source, action, *_ in found} == {("link", "new")}


def test_a_change_between_the_look_and_the_wait_is_heard() -> None:
    came, first, seconds = inside(change_behind_the_look)
    assert (came, first) == (True, False)
    assert seconds < SOON


def test_nothing_is_nothing_and_takes_its_time() -> None:
    assert 0.1 <= inside(nothing_happens) < SOON


def test_what_never_holds_ends_in_time() -> None:
    came, seconds = inside(time_is_over)
    assert not came
    assert 0.2 <= seconds < SOON


def test_only_the_kernel_is_believed() -> None:
    assert inside(forged) == []


def test_an_overrun_is_said() -> None:
    assert inside(overrun) == [True, True, False]


def test_a_watch_can_be_selected() -> None:
    assert inside(readable) == [True, True, True]


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]]()))
