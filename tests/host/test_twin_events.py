"""A twin tells what a kernel tells: in its order, to everybody who watches."""

from __future__ import annotations

import contextlib
import re
import select
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podrail.host.seam import LOST, Event, Watch
from podrail.host.twin import TwinHost
from podrail.host.twins import consequences, twin

LAB = Path(__file__).parent.parent / "data" / "lab"
KERNEL = re.compile(r"KERNEL\[[0-9.]+\] (\w+) +(\S+) \((\w+)\)")
PF = "/sys/class/net/ens2/device"
DRIVERS = "/sys/bus/pci/drivers"


def recorded() -> list[tuple[str, str]]:
    """(action, subject) of what the kernel of a lab node told while four VFs came."""
    lines = (LAB / "udev-4-vfs.txt").read_text().splitlines()
    return [(found[1], numberless(found[2])) for line in lines if (found := KERNEL.match(line))]


def numberless(path: str) -> str:
    """Which ethN is free depends on how far udev is."""
    return re.sub(r"/net/eth\d+$", "/net/ethN", path)


def subject(event: Event) -> str:
    """The last PCI function of a path, and what is below it."""
    found = re.search(r".*(0000:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7].*)", event.path)
    return numberless(found[1]) if found else event.path


def told(watch: Watch) -> list[tuple[str, str]]:
    found = watch.wait(0)
    return [(event.action, subject(event)) for event in found if event.source == "uevent"]


def links(watch: Watch) -> list[tuple[str, str]]:
    return [(event.action, event.name) for event in watch.wait(0) if event.source == "link"]


@pytest.fixture
def host() -> TwinHost:
    """An igb twin whose VF driver is there, so that VFs are bound as they come."""
    host = twin("igb")
    host.run(["modprobe", "igbvf"])
    return host


def of(subject: str, found: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [event for event in found if event[1].split("/")[0] == subject]


def test_vfs_come_as_on_a_lab_node(host: TwinHost) -> None:
    with host.watch() as watch:
        host.write(f"{PF}/sriov_numvfs", "4")
        found = told(watch)
    seen = recorded()
    assert sorted(found) == sorted(seen)
    vfs = [f"0000:81:10.{index}" for index in (0, 2, 4, 6)]
    for address in ("0000:81:00.0", *vfs):
        assert of(address, found) == of(address, seen) != []
    last = [event for event in seen if event[0] != "move"][-1]
    assert (
        last == [event for event in found if event[0] != "move"][-1] == ("change", "0000:81:00.0")
    )


def test_vfs_without_their_driver_get_it_from_udev() -> None:
    host = twin("igb")
    with host.watch() as watch:
        host.write(f"{PF}/sriov_numvfs", "1")
        found = told(watch)
    assert [action for action, _ in found] == ["add", "change", "change", "add", "bind", "move"]


def test_vfs_go(host: TwinHost) -> None:
    host.write(f"{PF}/sriov_numvfs", "2")
    with host.watch() as watch:
        host.write(f"{PF}/sriov_numvfs", "0")
        found = watch.wait(0)
    vf = "0000:81:10.0"
    assert [(e.source, e.action, e.name or subject(e)) for e in found[:4]] == [
        ("link", "del", "ens2v0"),
        ("uevent", "remove", "ens2v0"),
        ("uevent", "unbind", vf),
        ("uevent", "remove", vf),
    ]
    assert len(found) == 8  # sriov_disable tells nothing of the PF


def test_autoprobe_off_brings_functions_only(host: TwinHost) -> None:
    host.write(f"{PF}/sriov_drivers_autoprobe", "0")
    with host.watch() as watch:
        host.write(f"{PF}/sriov_numvfs", "1")
        assert told(watch) == [
            ("add", "0000:81:10.0"),
            ("change", "0000:81:10.0"),
            ("change", "0000:81:00.0"),
        ]


def test_a_driver_is_changed(host: TwinHost) -> None:
    host.write(f"{PF}/sriov_numvfs", "1")
    vf = "0000:81:10.0"
    with host.watch() as watch:
        host.write(f"{DRIVERS}/igbvf/unbind", vf)
        assert told(watch) == [("remove", f"{vf}/net/ens2v0"), ("unbind", vf)]
        host.write(f"/sys/bus/pci/devices/{vf}/driver_override", "vfio-pci")
        assert told(watch) == []
        host.run(["modprobe", "vfio-pci"])
        assert told(watch) == [("add", f"{vf}/vfio-dev/vfio0"), ("bind", vf)]
        host.write(f"{DRIVERS}/vfio-pci/unbind", vf)
        assert told(watch) == [("remove", f"{vf}/vfio-dev/vfio0"), ("unbind", vf)]


def test_a_pf_loses_its_driver_and_its_vfs_first(host: TwinHost) -> None:
    host.write(f"{PF}/sriov_numvfs", "1")
    with host.watch() as watch:
        host.write(f"{DRIVERS}/igb/unbind", "0000:81:00.0")
        assert told(watch) == [
            ("remove", "0000:81:10.0/net/ens2v0"),
            ("unbind", "0000:81:10.0"),
            ("remove", "0000:81:10.0"),
            ("remove", "0000:81:00.0/net/ens2"),
            ("unbind", "0000:81:00.0"),
        ]


def test_a_card_is_pulled(host: TwinHost) -> None:
    with host.watch() as watch:
        consequences.change(host, "/sys/bus/pci/devices/0000:81:00.0", None)
        assert [action for action, _ in told(watch)] == ["remove", "unbind", "remove"]


def test_an_rdma_device_comes_and_goes() -> None:
    host = twin("roce-cx6")
    pf = host.functions[host.netdevs["ens8f0"].pci or ""]
    with host.watch() as watch:
        host.write(f"{pf.path}/sriov_numvfs", "1")
        place = f"{pf.vfs[0].path}/infiniband/{pf.vfs[0].rdma}"
        host.write(f"{pf.path}/sriov_numvfs", "0")
        found = [e for e in watch.wait(0) if e.subsystem == "infiniband"]
    assert [(e.action, e.path) for e in found] == [("add", place), ("remove", place)]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("mtu", "9000"), [("new", "ens2")]),
        (("mtu", "1500"), []),
        (("up",), [("new", "ens2")]),
        (("down",), []),
        (("name", "rail0"), [("new", "rail0")]),
        (("address", "02:00:00:00:00:99"), [("new", "ens2")]),
        (("vf", "0", "mac", "02:00:00:00:00:10"), []),
        (("mtu", "9217"), []),
    ],
)
def test_what_is_set_on_a_link(
    host: TwinHost, words: tuple[str, ...], expected: list[tuple[str, str]]
) -> None:
    host.write(f"{PF}/sriov_numvfs", "1")
    with host.watch() as watch:
        host.run(["ip", "link", "set", "dev", "ens2", *words])
        assert links(watch) == expected


def test_a_pf_that_is_up_tells_what_is_set_on_its_vfs(host: TwinHost) -> None:
    host.write(f"{PF}/sriov_numvfs", "2")
    host.run(["ip", "link", "set", "ens2", "up"])
    lines = [f"link set dev ens2 vf {vf} mac 02:00:00:00:00:1{vf}\n" for vf in (0, 1)]
    with host.watch() as watch:
        host.run(["ip", "-batch", "-"], stdin="".join(lines))
        assert links(watch) == [("new", "ens2")] * 2


def test_an_mtu_written_to_sysfs(host: TwinHost) -> None:
    with host.watch() as watch:
        host.write("/sys/class/net/ens2/mtu", "9000")
        assert watch.wait(0) == (Event("link", "new", "", "ens2", "net"),)


def test_a_rename_moves_the_device(host: TwinHost) -> None:
    with host.watch() as watch:
        host.run(["ip", "link", "set", "ens2", "name", "rail0"])
        assert told(watch) == [("move", "0000:81:00.0/net/rail0")]


# --- the watch ------------------------------------------------------------------------------------


def test_everybody_hears_everything_from_the_moment_they_watch(host: TwinHost) -> None:
    with host.watch() as first:
        host.write("/sys/class/net/ens2/mtu", "9000")
        with host.watch() as second:
            host.emit(LOST)
            assert (len(first.wait(None)), second.wait(None)) == (2, (LOST,))
        host.emit(LOST)
        assert first.wait(5.0) == (LOST,)
        assert first.wait(None) == ()
    assert not host.watched


def test_a_watch_can_be_selected(host: TwinHost) -> None:
    with host.watch() as early, host.watch() as late:
        number = early.fileno()
        assert select.select([early], [], [], 0)[0] == []
        host.emit(LOST)
        host.emit(LOST)
        assert select.select([early, late], [], [], 0)[0] == [early, late]
        assert (len(early.wait(0)), len(late.wait(0))) == (2, 2)
        assert select.select([early, late], [], [], 0)[0] == []
        assert early.fileno() == number


# --- nothing changes in silence -------------------------------------------------------------------


class Follower:
    """What a machine must look like, from its uevents alone."""

    def __init__(self, host: TwinHost) -> None:
        self.functions, self.drivers, self.netdevs = state(host)

    def follow(self, events: tuple[Event, ...]) -> None:
        for event in events:
            place, _, name = event.path.rpartition("/")
            if event.subsystem == "net" and event.source == "uevent":
                self.netdevs.pop(place, None)
                if event.action != "remove":
                    self.netdevs[place] = name
            elif event.subsystem == "pci":
                self._function(event.action, name)

    def _function(self, action: str, address: str) -> None:
        known = self.functions if action in ("add", "remove") else self.drivers
        if action in ("add", "bind"):
            known.add(address)
        elif action in ("remove", "unbind"):
            known.remove(address)


def state(host: TwinHost) -> tuple[set[str], set[str], dict[str, str]]:
    bound = {address for address, f in host.functions.items() if host.driver(f)}
    places = (netdev.path.rpartition("/") for netdev in host.netdevs.values() if netdev.pci)
    return set(host.functions), bound, {place: name for place, _, name in places}


NAMES = {"igb": ("enp67s0", "ens2"), "ib-cx7": ("ibp60s0", "ibp94s0")}
VFS = ("igbvf", "mlx5_core", "vfio-pci")
changes = st.one_of(
    st.tuples(st.just("numvfs"), st.sampled_from(["0", "1", "3", "9"])),
    st.tuples(st.sampled_from(["unbind", "bind"]), st.sampled_from(VFS)),
    st.tuples(st.just("override"), st.sampled_from(["vfio-pci", "\n"])),
    st.tuples(st.just("modprobe"), st.sampled_from(["igbvf", "vfio-pci"])),
    st.tuples(st.just("rename"), st.sampled_from(["rail0", "rail1"])),
)


def change(host: TwinHost, pf: str, what: str, value: str) -> None:
    """One thing somebody does; the kernel may refuse it."""
    first = host.functions[pf].vfs[0].address if host.functions[pf].vfs else "none"
    if what == "numvfs":
        host.write(f"/sys/bus/pci/devices/{pf}/sriov_numvfs", value)
    elif what == "modprobe":
        host.run(["modprobe", value])
    elif what == "rename":
        host.run(["ip", "link", "set", "dev", host.functions[pf].netdev or "none", "name", value])
    elif what == "override":
        host.write(f"/sys/bus/pci/devices/{first}/driver_override", value)
    else:
        host.write(f"{DRIVERS}/{value}/{what}", first)


@settings(max_examples=60)
@given(st.sampled_from(sorted(NAMES)), st.lists(st.tuples(st.integers(0, 1), changes), max_size=12))
def test_who_follows_the_events_knows_the_machine(
    name: str, sequence: list[tuple[int, tuple[str, str]]]
) -> None:
    host = twin(name)
    pfs = [host.netdevs[netdev].pci or "" for netdev in NAMES[name]]
    follower = Follower(host)
    with host.watch() as watch:
        for which, (what, value) in sequence:
            with contextlib.suppress(OSError):
                change(host, pfs[which], what, value)
            follower.follow(watch.wait(0))
            assert (follower.functions, follower.drivers, follower.netdevs) == state(host)
