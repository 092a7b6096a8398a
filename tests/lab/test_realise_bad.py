"""What goes wrong on a real kernel: a clear word, exit 5, and nothing half done.

The machine is compared before and after every test: what a failure leaves behind is a failure.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from podrail.lab.faults import Where, inflict
from podrail.lab.state import LabState
from tests.lab.inside.caller import Inside, Said
from tests.lab.inside.policies import policy
from tests.lab.test_lab import until
from tests.lab.test_realise import ALTNAME, NAME, PF, column, given_back, vfs_of

pytestmark = pytest.mark.usefixtures("as_found")

AT = f"/sys/bus/pci/devices/{PF}"
NUMVFS = f"{AT}/sriov_numvfs"
UNPLUGGED = {"nicSelector": {"rootDevices": [PF]}}
TINY = "/run/podrail-tests/tiny"


def refused(said: Said) -> str:
    """Why a PF was refused before anything was touched."""
    assert said.rc == 5, said
    (one,) = said.json["refused"]
    assert said.json["outcomes"] == []
    return f"{one['reason']}; {one['fix']}"


def put_back(said: Said) -> str:
    """Why a PF was put back as it was."""
    assert said.rc == 5, said
    (one,) = said.json["outcomes"]
    assert one["state"] == "undone", one
    return f"{one['reason']}; {one['fix']}"


# --- more than the kernel gives ---------------------------------------------------------------


def test_more_vfs_than_there_can_be(inside: Inside) -> None:
    why = refused(inside.apply(policy("rails", 8, NAME)))
    assert "numVfs 8 of rails is over sriov_totalvfs 7" in why
    state, reason, fix = inside.call("bad.raw", PF, "vfs", 8)
    assert (state, "refuses 8 VFs: more than sriov_totalvfs" in reason) == ("undone", True)
    assert "fewer" in fix


@pytest.fixture(params=["no driver", "a driver without SR-IOV"])
def not_igb(inside: Inside, request: pytest.FixtureRequest) -> Iterator[str]:
    """The PF taken from its driver, and perhaps given to one that cannot make VFs."""
    other = "vfio-pci" if request.param != "no driver" else ""
    inside.host.write("/sys/bus/pci/drivers/igb/unbind", PF)
    if other:
        inside.must("modprobe", other)
        inside.host.write(f"{AT}/driver_override", other)
        inside.host.write("/sys/bus/pci/drivers_probe", PF)
    yield other
    if other:
        inside.host.write(f"/sys/bus/pci/drivers/{other}/unbind", PF)
        inside.host.write(f"{AT}/driver_override", "\n")
    inside.host.write("/sys/bus/pci/drivers_probe", PF)
    inside.must("udevadm", "settle")


def test_a_pf_whose_driver_makes_no_vfs(inside: Inside, not_igb: str) -> None:
    why = put_back(inside.apply(policy("rails", 2, **UNPLUGGED)))
    assert "bind a PF driver with SR-IOV support" in why
    state, reason, fix = inside.call("bad.raw", PF, "vfs", 2)
    assert state == "undone"
    assert "cannot make VFs through sysfs, or no driver is bound" in reason
    assert "lspci -k" in fix
    inside.reset()


def test_a_vf_whose_driver_cannot_be_loaded(inside: Inside, lab: LabState) -> None:
    inside.must("modprobe", "igbvf")
    gone = Where(lab, "node1", inside.host, ("igbvf",))
    inflict(gone, "module-missing")
    inside.must("udevadm", "control", "--reload")  # udev loads modules by itself
    try:
        why = put_back(inside.apply(policy("rails", 2, NAME)))
    finally:
        inflict(gone, "module-missing", undo=True)
        inside.must("udevadm", "control", "--reload")
        inside.reset()
    assert "went to no driver" in why
    assert "load the VF driver's module" in why


# --- names, rights, places --------------------------------------------------------------------


def test_a_pf_that_was_renamed_is_found_by_its_other_name(inside: Inside) -> None:
    inside.must("ip", "link", "set", NAME, "name", "rail7")
    try:
        inside.apply(policy("rails", 2, ALTNAME)).good()
        assert len(vfs_of(inside)) == 2
        given_back(inside)
        assert inside.call("machine.pf", PF)["name"] == "rail7", "as it was found"
    finally:
        inside.must("ip", "link", "set", "rail7", "name", NAME)


def test_a_pf_that_is_renamed_later_is_given_back_all_the_same(inside: Inside) -> None:
    inside.apply(policy("rails", 1, ALTNAME)).good()
    inside.must("ip", "link", "set", NAME, "name", "rail7")
    try:
        assert inside.status().good().json["pfs"][0]["name"] == "rail7"
        given_back(inside)
    finally:
        inside.must("ip", "link", "set", "rail7", "name", NAME)


def test_sys_that_cannot_be_written(inside: Inside) -> None:
    file = inside.manifest(policy("rails", 2, NAME))
    remount = f"mount -o remount,bind,ro /sys && exec podrail apply -f {file}"
    ran = inside.host.run(["unshare", "-m", "sh", "-c", remount])
    assert ran.rc == 5, ran
    assert "nothing was changed" in ran.stderr
    assert "cannot be written" in ran.stderr
    assert "privileged" in ran.stderr
    inside.reset()


def test_somebody_who_is_not_root(inside: Inside) -> None:
    file = inside.manifest(policy("rails", 2, NAME))
    for argv in (["apply", "-f", file], ["reset"]):
        said = inside.podrail(*argv, uid=65534)
        assert (said.rc, "needs root: sudo podrail" in said.err) == (5, True)


@contextmanager
def managed(inside: Inside) -> Iterator[None]:
    """A default route through the PF, beside the node's own."""
    up = inside.call("machine.pf", PF)["up"]
    inside.must("ip", "link", "set", NAME, "up")
    inside.must("ip", "address", "add", "192.0.2.2/24", "dev", NAME)
    inside.must("ip", "route", "add", "default", "via", "192.0.2.1", "dev", NAME, "metric", "5000")
    yield
    inside.must("ip", "address", "flush", "dev", NAME)
    inside.must("ip", "link", "set", NAME, "up" if up else "down")


def test_the_way_to_the_machine_is_not_touched(inside: Inside) -> None:
    rails = policy("rails", 2, NAME)
    with managed(inside):
        why = refused(inside.apply(rails))
        assert f"the default route leaves through {NAME}" in why
        assert f"--allow-management {NAME}" in why
        assert "192.0.2.2" in inside.must("ip", "address", "show", "dev", NAME)
        inside.apply(rails, options=["--allow-management", NAME]).good()
        given_back(inside)


def test_what_became_the_way_to_the_machine_is_not_given_back(inside: Inside) -> None:
    inside.apply(policy("rails", 2, NAME)).good()
    with managed(inside):
        assert "management path" in refused(inside.reset())
        assert len(vfs_of(inside)) == 2
    given_back(inside)


# --- held VFs ---------------------------------------------------------------------------------


@pytest.fixture
def pod(inside: Inside) -> Iterator[str]:
    """Two VFs, the first of them in a pod's network namespace."""
    inside.apply(policy("rails", 2, NAME)).good()
    inside.must("ip", "netns", "add", "pod")
    inside.must("ip", "link", "set", f"{NAME}v0", "netns", "pod")
    yield "netns"
    inside.must("ip", "netns", "del", "pod")
    until(lambda: "pod" not in inside.must("ip", "netns", "list"))
    inside.reset("--force").good()


def test_a_vf_in_a_pod_is_not_taken_from_it(inside: Inside, pod: str) -> None:
    before = vfs_of(inside)
    why = refused(inside.apply(policy("rails", 4, NAME)))
    assert "vf 0: netns" in why
    assert "--force" in why
    said = inside.reset()
    assert (said.rc, "vf 0 (held by netns" in put_back(said)) == (5, True)
    assert vfs_of(inside) == before
    inside.apply(policy("rails", 2, NAME, mtu=1600)).good()
    assert column(vfs_of(inside), "mtu") == [None, 1600], "the pod's own is the pod's"
    assert inside.status().json["pfs"][0]["held"] == ["vf 0: netns (net device moved away)"]
    inside.apply(policy("rails", 4, NAME), options=["--force"]).good()
    assert len(vfs_of(inside)) == 4


def test_a_vf_that_a_process_has_open_is_not_taken_from_it(inside: Inside) -> None:
    inside.apply(policy("storage", 1, NAME, deviceType="vfio-pci")).good()
    (vf,) = vfs_of(inside)
    holder = inside.begin("bad.hold_group", vf["pci"])
    until(lambda: f"pid {holder}" in json.dumps(inside.status().json))
    why = refused(inside.apply(policy("storage", 2, NAME, deviceType="vfio-pci")))
    assert f"open by pid {holder}" in why
    assert f"open by pid {holder}" in put_back(inside.reset())
    inside.must("kill", "-9", str(holder))
    inside.wait(holder)
    given_back(inside)


def test_a_vf_that_is_taken_after_the_plan_was_made(inside: Inside) -> None:
    first, then = policy("rails", 1, NAME), policy("rails", 2, NAME)
    state, reason, fix = inside.call("bad.taken_meanwhile", PF, first, then)
    assert (state, "vfs would disturb vf 0 (held by netns" in reason) == ("undone", True)
    assert "--force" in fix


# --- the journal and the clock ----------------------------------------------------------------


@pytest.fixture
def tiny(inside: Inside) -> Iterator[str]:
    """A disk with hardly any room."""
    inside.must("mkdir", "-p", TINY)
    inside.must("mount", "-t", "tmpfs", "-o", "size=512k,mode=0700", "tmpfs", TINY)
    yield TINY
    inside.must("umount", TINY)


def test_no_room_for_the_journal(inside: Inside, tiny: str) -> None:
    inside.podrail("status", "--state", tiny).good()
    inside.call("bad.fill_disk", tiny)
    said = inside.apply(policy("rails", 2, NAME), options=["--state", tiny])
    assert (said.rc, "make room on that disk" in said.err) == (5, True), said
    assert "no step runs that is not written down first" in said.err
    assert vfs_of(inside) == []


def test_the_room_for_the_journal_ends_on_the_way(inside: Inside, tiny: str) -> None:
    ended = inside.call("bad.disk_full", PF, tiny, policy("rails", 2, NAME))
    ((state, reason),) = ended["said"]
    assert (state, "disk is full): make room" in reason) == ("undone", True)
    assert ended["left"] == [], "what was done before is taken back"
    assert (ended["resumed"], ended["back"]) == (["done"], ["done"]), "nothing was lost"


def test_a_clock_that_jumps_by_years(inside: Inside) -> None:
    ended = inside.call("bad.clock_jumps", policy("rails", 1, NAME))
    assert ended["states"] == ["done", "done"]
    assert ended["longest"] < 60


# --- two at once, and one that is stopped -----------------------------------------------------


def test_a_second_podrail_waits_for_the_first(inside: Inside) -> None:
    file = inside.manifest(policy("rails", 4, NAME))
    first = inside.start("apply", "-f", file, "-o", "json")
    until(lambda: inside.host.read(NUMVFS).strip() == "4")
    second = inside.reset().good()
    assert [o["state"] for o in inside.wait(first).good().json["outcomes"]] == ["done"]
    assert [o["state"] for o in second.json["outcomes"]] == ["done"]
    assert vfs_of(inside) == []


def test_a_second_podrail_that_cannot_wait_names_the_first(inside: Inside) -> None:
    text, pid = inside.call("bad.beside", 0.1)
    assert f"another podrail (pid {pid}) is at work" in text


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
def test_what_is_stopped_in_the_middle_is_put_back(inside: Inside, number: int) -> None:
    file = inside.manifest(policy("rails", 4, NAME))
    pid = inside.start("apply", "-f", file)
    until(lambda: inside.host.read(NUMVFS).strip() == "4")
    group = f"-{pid}" if number == signal.SIGINT else str(pid)  # a terminal reaches them all
    inside.must("kill", f"-{int(number)}", "--", group)
    said = inside.wait(pid)
    assert (said.rc, "interrupted" in said.err) == (130, True), said
    assert vfs_of(inside) == []
    given_back(inside)
