"""Making VFs, and making them again as they were."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podrail.host.seam import Ran
from podrail.host.twin import TwinHost
from podrail.host.twins import sriov, twin
from podrail.realise.functions import virtfns
from podrail.realise.kinds import vfs as module
from podrail.realise.kinds.vfs import make
from podrail.realise.step import KINDS, Failed, Gone, Step
from tests.realise.support import numvfs, run_of, same, tree

PF = "0000:81:00.0"
AT = f"/sys/bus/pci/devices/{PF}"
KIND = KINDS["vfs"]


@pytest.fixture
def host() -> TwinHost:
    return twin("igb")


def written(host: TwinHost, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every number written to sriov_numvfs from now on."""
    seen: list[str] = []

    def store(one: TwinHost, real: str, text: str) -> None:
        seen.append(text)
        sriov.store_numvfs(one, real, text)

    monkeypatch.setitem(host.writers, "sriov_numvfs", store)
    return seen


@pytest.mark.parametrize(
    ("first", "then", "numbers"),
    [(0, 4, ["4"]), (4, 6, ["0", "6"]), (4, 4, []), (4, 0, ["0"]), (0, 0, [])],
)
def test_zero_comes_first(
    host: TwinHost, monkeypatch: pytest.MonkeyPatch, first: int, then: int, numbers: list[str]
) -> None:
    make(host, PF, first)
    seen = written(host, monkeypatch)
    make(host, PF, then)
    assert seen == numbers
    assert (numvfs(host, PF), len(virtfns(host, PF))) == (then, then)


def test_vfs_that_do_not_come_are_missed(host: TwinHost, monkeypatch: pytest.MonkeyPatch) -> None:
    def lose_one(one: TwinHost, real: str, text: str) -> None:
        sriov.store_numvfs(one, real, text)
        if text != "0":
            one.remove(f"{AT}/virtfn1")
            one.remove(f"{one.functions[PF].path}/virtfn1")

    monkeypatch.setitem(host.writers, "sriov_numvfs", lose_one)
    with pytest.raises(Failed, match="2 VFs after 120 s, wanted 3"):
        make(host, PF, 3)


def test_a_card_that_was_pulled_out_is_gone(host: TwinHost) -> None:
    step = Step("vfs", "0000:99:00.0", 3)
    for call in (KIND.do, KIND.holds, KIND.found):
        with pytest.raises(Gone, match="0000:99"):
            call(host, step)


def test_names_settle_before_they_are_used(host: TwinHost, monkeypatch: pytest.MonkeyPatch) -> None:
    """udev names a VF after the write has returned (tests/data/lab/udev-4-vfs.txt)."""
    seen: list[str] = []
    real = host.run

    def run(argv: Sequence[str], **more: Any) -> Ran:
        seen.append(argv[0])
        return real(argv, **more)

    monkeypatch.setattr(host, "run", run)
    make(host, PF, 2)
    assert "udevadm" in seen


def test_udev_that_hangs_is_said(host: TwinHost) -> None:
    host.put_program(("udevadm",), lambda argv: Ran(tuple(argv), 1, ""))
    with pytest.raises(Failed, match="udev was still busy after 60 s"):
        make(host, PF, 2)


def test_a_machine_without_udev_has_nothing_to_settle(host: TwinHost) -> None:
    host.remove_program(("udevadm",))
    make(host, PF, 2)
    assert numvfs(host, PF) == 2


# --- portraits --------------------------------------------------------------------------------

_settings = st.fixed_dictionaries(
    {},
    optional={
        "vlan": st.sampled_from(["0", "7", "100"]),
        "mac": st.sampled_from(["02:00:00:00:00:01", "02:00:00:00:00:02"]),
        "trust": st.sampled_from(["on", "off"]),
        "spoofchk": st.sampled_from(["on", "off"]),
        "state": st.sampled_from(["enable", "disable", "auto"]),
        "max_tx_rate": st.sampled_from(["0", "100", "5000"]),
    },
)
_vf = st.tuples(
    _settings,
    st.sampled_from(["mlx5_core", "vfio-pci", None]),
    st.one_of(st.none(), st.integers(0, 99)),
    st.sampled_from(["1500", "4000"]),
)


def _make_by_hand(host: TwinHost, pf: str, wanted: list[Any]) -> None:
    at = f"/sys/bus/pci/devices/{pf}"
    host.write(f"{at}/sriov_numvfs", str(len(wanted)))
    for index, (words, driver, number, mtu) in enumerate(wanted):
        for key, value in words.items():
            run_of(host, "ip", "link", "set", "ens8f0", "vf", str(index), key, value)
        pci = host.functions[pf].vfs[index].address
        host.write("/sys/bus/pci/drivers/mlx5_core/unbind", pci)
        if driver == "vfio-pci":
            host.write(f"/sys/bus/pci/devices/{pci}/driver_override", "vfio-pci\n")
        if driver:
            host.write("/sys/bus/pci/drivers_probe", pci)
        if driver == "mlx5_core":
            name = f"ens8f0v{index}" if number is None else f"odd{index}x{number}"
            if number is not None:
                run_of(host, "ip", "link", "set", f"ens8f0v{index}", "name", name)
            run_of(host, "ip", "link", "set", name, "mtu", mtu)


@settings(max_examples=25)
@given(wanted=st.lists(_vf, min_size=1, max_size=4), between=st.integers(0, 5))
def test_whatever_was_found_is_made_again(wanted: list[Any], between: int) -> None:
    host, pf = twin("roce-cx6"), "0000:9c:00.0"
    _make_by_hand(host, pf, wanted)
    found = KIND.found(host, Step("vfs", pf, between))
    make(host, pf, 0)
    make(host, pf, between)
    KIND.write(host, pf, found)
    assert KIND.read(host, pf) == found
    assert KIND.holds(host, Step("vfs", pf, found))


def test_nothing_found_is_nothing_made(host: TwinHost) -> None:
    before = tree(host)
    found = KIND.found(host, Step("vfs", PF, 3))
    assert found == {"count": 0, "vfs": {}}
    make(host, PF, 3)
    assert not KIND.holds(host, Step("vfs", PF, found))
    KIND.write(host, PF, found)
    same(before, tree(host))


def test_in_words() -> None:
    assert KIND.says({"count": 3, "vfs": {}}) == "3"
    assert KIND.says(4) == "4"
    assert module.APPEAR_SECONDS == 120.0


def test_a_number_the_kernel_refuses_is_its_errno(host: TwinHost) -> None:
    with pytest.raises(OSError, match="range") as no:
        make(host, PF, 8)
    assert no.value.errno == errno.ERANGE
