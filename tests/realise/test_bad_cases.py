"""What can go wrong ends with a clear reason, exit code 5, and the machine as it was."""

from __future__ import annotations

import errno
import itertools
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from podrail.host.linux import LinuxHost
from podrail.host.twin import Netdev, PciFunction, TwinHost, fail
from podrail.host.twins import drivers, sriov, twin
from tests.realise.support import (
    CHECKPOINT,
    Bench,
    Cli,
    bench,
    good,
    hold_by_netns,
    hold_by_pod,
    hold_by_verbs,
    hold_by_vfio,
    numvfs,
    of,
    pf_of,
    policy,
    run_of,
    same,
    tree,
    vf_of,
)
from tests.realise.test_crash import CASES, Scenario


@pytest.fixture
def igb(tmp_path: Path) -> Cli:
    return Cli(twin("igb"), tmp_path)


@pytest.fixture
def roce(tmp_path: Path) -> Cli:
    return Cli(twin("roce-cx6"), tmp_path)


def refused(cli: Cli, *policies: str, says: tuple[str, ...]) -> str:
    """The apply is refused in these words, and nothing is different."""
    assert isinstance(cli.host, TwinHost)
    before = tree(cli.host)
    result = cli.apply(*policies)
    assert result.exit_code == 5, result.output
    for words in says:
        assert words in result.output, (words, result.output)
    same(before, tree(cli.host))
    return result.output


# --- the card and the kernel ------------------------------------------------------------------


def test_more_vfs_than_an_intel_card_has(igb: Cli) -> None:
    refused(
        igb, policy("p", "ens2", 8),
        says=("numVfs 8 of p is over sriov_totalvfs 7", "ask for at most 7", "nothing was touched"),
    )  # fmt: skip


def test_more_vfs_than_a_mellanox_card_is_set_to(roce: Cli) -> None:
    says = ("over sriov_totalvfs 16", "NUM_OF_VFS=32", "--firmware")
    refused(roce, policy("p", "ens8f0", 32), says=says)


def test_sriov_is_off(igb: Cli) -> None:
    assert isinstance(igb.host, TwinHost)
    igb.host.put(f"{igb.host.functions['0000:81:00.0'].path}/sriov_totalvfs", "0\n")
    refused(igb, policy("p", "ens2", 4), says=("SR-IOV is off", "BIOS"))


def _writing(monkeypatch: pytest.MonkeyPatch, host: TwinHost, counts: set[str], code: int) -> None:
    """The kernel refuses these numbers of VFs and takes others."""

    def store(one: TwinHost, real: str, text: str) -> None:
        if text.strip() in counts:
            raise fail(code, real)
        sriov.store_numvfs(one, real, text)

    monkeypatch.setitem(host.writers, "sriov_numvfs", store)


REFUSALS = [
    pytest.param(errno.ENOMEM, ("no room for 6 VFs", "pci=realloc"), id="no-memory"),
    pytest.param(errno.ENOENT, ("cannot make VFs", "lspci -k"), id="no-callback"),
    pytest.param(errno.EOPNOTSUPP, ("cannot make VFs now", "BlueField in DPU mode"), id="dpu"),
    pytest.param(errno.EBUSY, ("busy", "podrail discover"), id="busy"),
    pytest.param(errno.EIO, ("does not answer", "dmesg"), id="dead-card"),
    pytest.param(errno.EPROTO, ("firmware or its mode",), id="protocol"),
    pytest.param(errno.EXDEV, ("sriov_numvfs", "Invalid cross-device link"), id="any-other"),
]


@pytest.mark.parametrize("first", [0, 4], ids=["from-none", "from-4"])
@pytest.mark.parametrize(("code", "says"), REFUSALS)
def test_the_kernel_refuses_the_number(
    igb: Cli, monkeypatch: pytest.MonkeyPatch, code: int, says: tuple[str, ...], first: int
) -> None:
    assert isinstance(igb.host, TwinHost)
    if first:
        assert igb.apply(policy("p", "ens2", first)).exit_code == 0
    _writing(monkeypatch, igb.host, {"6"}, code)
    said = refused(igb, policy("p", "ens2", 6, mtu=4000), says=(*says, "put back as it was"))
    assert os.strerror(code) in said
    status = igb("status")
    assert status.exit_code == 1
    assert "failed" in status.output
    assert os.strerror(code) in status.output


def test_a_driver_without_sriov(igb: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drivers, "SRIOV", ("mlx5_core",))
    refused(igb, policy("p", "ens2", 2), says=("cannot make VFs through sysfs", "lspci -k"))


def test_a_pf_without_a_driver(igb: Cli) -> None:
    assert isinstance(igb.host, TwinHost)
    igb.host.write("/sys/bus/pci/drivers/igb/unbind", "0000:81:00.0")
    root = policy("p", "x", 2).replace('{"pfNames": ["x"]}', '{"rootDevices": ["0000:81:00.0"]}')
    refused(igb, root, says=("0000:81:00.0", "driver"))


# --- VFs --------------------------------------------------------------------------------------


def _bare(monkeypatch: pytest.MonkeyPatch, index: int, *, after: int = 1000) -> None:
    """A VF driver that binds and registers no netdev, the first so many times."""
    real, left = drivers._register, itertools.count(1)

    def register(
        host: TwinHost, function: PciFunction, netdev: Netdev, *more: object, **options: object
    ) -> None:
        if function.index == index and next(left) <= after:
            return
        real(host, function, netdev, *more, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(drivers, "_register", register)


@pytest.mark.parametrize("count", [4, 16], ids=["probed", "bound"])
def test_a_vf_never_gets_a_netdev(roce: Cli, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    _bare(monkeypatch, 2)
    says = ("vf 2 (0000:9c:00.4) has driver mlx5_core but never got a netdev", "dmesg")
    refused(roce, policy("p", "ens8f0", count), says=says)


def test_a_vf_gets_its_netdev_when_it_is_bound_again(
    roce: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(roce.host, TwinHost)
    _bare(monkeypatch, 2, after=1)
    assert roce.apply(policy("p", "ens8f0", 4)).exit_code == 0
    assert roce.host.functions["0000:9c:00.4"].netdev == "ens8f0v2"


def test_no_module_for_vfio(igb: Cli) -> None:
    assert isinstance(igb.host, TwinHost)
    igb.host.modules.pop("vfio_pci")
    says = ("module vfio-pci cannot be loaded", "modprobe vfio-pci")
    refused(igb, policy("p", "ens2", 3, deviceType="vfio-pci"), says=says)


def test_an_mtu_that_a_vf_refuses(igb: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(drivers.MAX_MTU, "igbvf", 2000)
    says = ("mtu 9000", "mtu greater than device maximum", "put back as it was")
    refused(igb, policy("p", "ens2", 3, mtu=9000), says=says)


# --- names ------------------------------------------------------------------------------------


def test_a_pf_is_reached_by_its_altname_and_after_a_rename(igb: Cli) -> None:
    assert isinstance(igb.host, TwinHost)
    assert igb.apply(policy("p", "enp129s0", 3)).exit_code == 0
    run_of(igb.host, "ip", "link", "set", "ens2", "name", "rail0")
    before = tree(igb.host)
    result = igb.apply(policy("p", "enp129s0", 3))
    assert (result.exit_code, "as wanted already" in result.output) == (0, True)
    same(before, tree(igb.host))
    assert igb.apply(policy("p", "enp129s0", 5)).exit_code == 0
    assert numvfs(igb.host, "0000:81:00.0") == 5
    assert igb("reset").exit_code == 0
    assert igb.host.entries("/sys/bus/pci/devices/0000:81:00.0/net") == ("rail0",)


# --- who may ----------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES, errno.EPERM])
def test_a_sys_that_cannot_be_written(igb: Cli, code: int) -> None:
    assert isinstance(igb.host, TwinHost)
    igb.host.refusals["/sys"] = code
    refused(igb, policy("p", "ens2", 2), says=("nothing was changed", os.strerror(code), "Next:"))


def test_reset_on_a_sys_that_cannot_be_written(igb: Cli) -> None:
    assert isinstance(igb.host, TwinHost)
    igb.apply(policy("p", "ens2", 2))
    before = tree(igb.host)
    igb.host.refusals["/sys"] = errno.EROFS
    result = igb("reset")
    assert (result.exit_code, "nothing was changed" in result.output) == (5, True)
    same(before, tree(igb.host))


@pytest.mark.parametrize("verb", ["apply", "reset"])
def test_not_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    cli = Cli(LinuxHost(str(tmp_path)), tmp_path / "state")
    options = ("-f", "-") if verb == "apply" else ()
    result = cli(verb, *options, stdin=policy("p", "ens2", 2))
    assert (result.exit_code, "needs root: sudo podrail" in result.output) == (5, True)
    assert not (tmp_path / "state").exists()


def test_the_management_path(roce: Cli) -> None:
    says = ("eno1  0000:04:00.0  refuse", "management path", "--allow-management eno1")
    refused(roce, policy("p", "eno1", 2), says=says)


# --- who holds a VF ---------------------------------------------------------------------------

HOLDING = [
    pytest.param(hold_by_pod, {}, "pod 8d2f-1 (container train)", id="pod"),
    pytest.param(hold_by_netns, {}, "netns /var/run/netns/cni-1", id="netns"),
    pytest.param(hold_by_vfio, {"deviceType": "vfio-pci"}, "open by pid 4711", id="vfio"),
    pytest.param(hold_by_verbs, {"isRdma": True}, "2 users on mlx5_", id="verbs"),
]
Hold = Callable[[TwinHost, str], None]


@pytest.mark.parametrize(("hold", "spec", "holder"), HOLDING)
def test_a_held_vf_is_not_taken_unless_forced(
    roce: Cli, hold: Hold, spec: dict[str, object], holder: str
) -> None:
    assert isinstance(roce.host, TwinHost)
    pf = pf_of(roce.host, "ens8f0")
    assert roce.apply(policy("p", "ens8f0", 4, **spec)).exit_code == 0
    hold(roce.host, vf_of(roce.host, pf, 1))
    says = ("vf 1", holder, "drain the node", "--force")
    refused(roce, policy("p", "ens8f0", 6, **spec), says=says)
    before = tree(roce.host)
    given_back = roce("reset")
    assert given_back.exit_code == 5, given_back.output
    assert all(words in given_back.output for words in ("vf 1", holder, "--force"))
    same(before, tree(roce.host))
    forced = roce.apply(policy("p", "ens8f0", 6, **spec), options=["--force"])
    assert (forced.exit_code, numvfs(roce.host, pf)) == (0, 6), forced.output


@pytest.mark.parametrize(("hold", "spec", "holder"), HOLDING)
def test_a_vf_is_taken_between_plan_and_step(
    tmp_path: Path, hold: Hold, spec: dict[str, object], holder: str
) -> None:
    one, held = bench("roce-cx6", tmp_path / "1"), bench("roce-cx6", tmp_path / "2")
    pf = pf_of(one.host, "ens8f0")
    for each in (one, held):
        good(each.apply(policy("p", "ens8f0", 4, **spec)))
    hold(held.host, vf_of(held.host, pf, 1))

    def take(point: str) -> None:
        if point.startswith("after open"):
            hold(one.host, vf_of(one.host, pf, 1))

    one.at_point = take
    (outcome,) = one.apply(policy("p", "ens8f0", 6, **spec))
    assert outcome.state == "undone", outcome
    assert "vf 1 (held by" in outcome.reason
    assert holder in outcome.reason
    same(tree(held.host), tree(one.host))


def test_other_vfs_may_change_beside_a_held_one(roce: Cli) -> None:
    assert isinstance(roce.host, TwinHost)
    pf = pf_of(roce.host, "ens8f0")
    both = policy("p", "ens8f0#0-1", 4), policy("q", "ens8f0#2-3", 4)
    assert roce.apply(*both).exit_code == 0
    hold_by_pod(roce.host, vf_of(roce.host, pf, 0))
    vfio = policy("q", "ens8f0#2-3", 4, deviceType="vfio-pci")
    assert roce.apply(both[0], vfio).exit_code == 0
    driven = [roce.host.driver(vf) for vf in roce.host.functions[pf].vfs]
    assert driven == ["mlx5_core"] * 2 + ["vfio-pci"] * 2
    roce.host.remove(CHECKPOINT)


def test_going_back_takes_nothing_from_who_came_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """VFs are made, a pod takes one, a later step fails: the pod keeps it, and that is said."""
    one = bench("igb", tmp_path)
    monkeypatch.setitem(drivers.MAX_MTU, "igbvf", 2000)

    def take(point: str) -> None:
        if "turn" in point:
            hold_by_pod(one.host, vf_of(one.host, "0000:81:00.0", 1))

    one.at_point = take
    (outcome,) = one.apply(policy("p", "ens2", 3, mtu=9000))
    assert outcome.state == "failed"
    assert "could not be taken back" in outcome.reason
    assert "vf 1 (held by pod 8d2f-1" in outcome.reason
    assert numvfs(one.host, "0000:81:00.0") == 3
    one.host.remove(CHECKPOINT)
    one.at_point = None
    good(one.reset())
    assert numvfs(one.host, "0000:81:00.0") == 0


# --- who was not asked ------------------------------------------------------------------------

ASKED = {"igb": ("ens2", "enp67s0"), "roce-cx6": ("ens8f0",), "ib-cx7": ("ibp60s0",)}


@pytest.mark.parametrize("scenario", CASES)
def test_a_pf_nobody_asked_for_stays_as_it_is(scenario: Scenario, tmp_path: Path) -> None:
    one = Bench(twin(scenario.twin), tmp_path)
    others = _others(one.host, ASKED[scenario.twin])
    before = of(tree(one.host), *others)
    assert len(before) > 20
    scenario.first(one)
    scenario.act(one)
    same(before, of(tree(one.host), *others))


def _others(host: TwinHost, asked: tuple[str, ...]) -> list[str]:
    mine = {pf_of(host, name) for name in asked}
    return [f.address for f in host.functions.values() if f.spec.port and f.address not in mine]


def test_one_pf_asked_for_leaves_its_twin_alone(tmp_path: Path) -> None:
    one = bench("igb", tmp_path)
    before = of(tree(one.host), "0000:43:00.0")
    good(one.apply(policy("p", "ens2", 7, mtu=9000)))
    good(one.reset())
    assert before
    same(before, of(tree(one.host), "0000:43:00.0"))


# --- the clock --------------------------------------------------------------------------------


def test_a_clock_that_jumps_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Years forth and back between every two looks at it."""
    quiet = bench("roce-cx6", tmp_path / "quiet")
    steps = policy("p", "ens8f0", 4, mtu=9000), policy("p", "ens8f0", 6)
    for wanted in steps:
        good(quiet.apply(wanted))
    odd = bench("roce-cx6", tmp_path / "odd")
    ages = itertools.cycle([9e9, 0.0, 1.7e9, -5.0, 4e9])
    with monkeypatch.context() as patched:
        patched.setattr(time, "time", lambda: next(ages))
        for wanted in steps:
            good(odd.apply(wanted))
        same(tree(quiet.host), tree(odd.host))
        with odd.state() as state:
            assert [b.run for b in state.journal._jobs()] == [1, 2]
            assert state.journal.unfinished() == []
        good(odd.reset())
    same(tree(twin("roce-cx6")), tree(odd.host))


def test_a_renamed_pf_is_not_taken_for_an_unwanted_one(tmp_path: Path) -> None:
    host = twin("igb")
    cli = Cli(host, tmp_path)
    assert cli("apply", "-f", "-", stdin=policy("p", "ens2", 2)).exit_code == 0
    host.run(("ip", "link", "set", "dev", "ens2", "name", "mine0"))
    before = tree(host)
    result = cli("apply", "-f", "-", stdin=policy("p", "ens2", 2))
    assert result.exit_code == 5
    assert "it was ens2 when podrail set it up and is mine0 now" in result.output
    assert "name mine0 in pfNames" in result.output
    assert tree(host) == before
