"""The hosts the contract runs against: a twin, or the machine PODRAIL_CONTRACT_HOST names."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from podrail.cli.shared import opened
from podrail.host.open import open_host
from podrail.host.seam import Host


@dataclass(frozen=True, slots=True)
class Pf:
    """A PF to try things on, spoken to through the host seam only."""

    host: Host
    address: str
    name: str

    @property
    def path(self) -> str:
        return f"/sys/bus/pci/devices/{self.address}"

    def read(self, attribute: str) -> str:
        return self.host.read(f"{self.path}/{attribute}").strip()

    def write(self, attribute: str, text: str) -> None:
        self.host.write(f"{self.path}/{attribute}", text)

    def settle(self) -> None:
        """Until udev has named what came; a machine without udev has nothing to wait for."""
        with contextlib.suppress(FileNotFoundError):
            assert self.host.run(["udevadm", "settle"]).rc == 0

    def make(self, count: int) -> None:
        """That many VFs, with the names they keep."""
        self.write("sriov_numvfs", str(count))
        self.settle()

    def rebind(self, index: int) -> None:
        for way in ("unbind", "bind"):
            self.host.write(f"/sys/bus/pci/drivers/igbvf/{way}", self.vf(index))
        self.settle()

    def vf(self, index: int) -> str:
        return self.host.readlink(f"{self.path}/virtfn{index}").rpartition("/")[2]

    def vf_netdev(self, index: int) -> str:
        return self.host.entries(f"/sys/bus/pci/devices/{self.vf(index)}/net")[0]

    def netdev(self, name: str) -> dict[str, Any]:
        ran = self.host.run(["ip", "-d", "-j", "link", "show", name])
        found: dict[str, Any] = json.loads(ran.stdout)[0]
        return found

    def driver(self, address: str) -> str | None:
        try:
            link = self.host.readlink(f"/sys/bus/pci/devices/{address}/driver")
        except OSError:
            return None
        return link.rpartition("/")[2]

    def link(self) -> dict[str, Any]:
        return self.netdev(self.name)

    def vf_info(self, index: int) -> dict[str, Any]:
        info: dict[str, Any] = self.link()["vfinfo_list"][index]
        return info

    def ip(self, *words: str) -> tuple[int, str]:
        ran = self.host.run(["ip", "link", "set", self.name, *words])
        return ran.rc, ran.stderr.strip()


def until(true: Callable[[], bool], what: str, seconds: float = 30.0) -> None:
    """Wait for a condition."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"{what}: not within {seconds:g} s"
        time.sleep(0.05)


def pf_named(host: Host, name: str) -> Pf:
    address = host.resolve(f"/sys/class/net/{name}/device").rpartition("/")[2]
    return Pf(host, address, name)


def _igb_pf(host: Host, place: int) -> Pf:
    """An igb PF: the first is behind a switch without ACS, the last below a root port, which has
    ACS."""
    found = []
    for address in host.entries("/sys/bus/pci/devices"):
        at = f"/sys/bus/pci/devices/{address}"
        ids = (host.read(f"{at}/vendor").strip(), host.read(f"{at}/device").strip())
        if ids == ("0x8086", "0x10c9"):
            found.append(address)
    name = host.entries(f"/sys/bus/pci/devices/{found[place]}/net")[0]
    return Pf(host, found[place], name)


@pytest.fixture(scope="session")
def contract_host() -> Iterator[Host | None]:
    """The machine that was named, kept open; None where each test has a twin of its own."""
    spec = os.environ.get("PODRAIL_CONTRACT_HOST")
    if spec is None:
        yield None
        return
    host, _ = opened(spec, (), ())
    yield host
    getattr(host, "close", lambda: None)()


@pytest.fixture
def pf(contract_host: Host | None) -> Iterator[Pf]:
    """An igb PF of the lab's node or of its twin, down and without VFs before and after."""
    found = _igb_pf(contract_host or open_host("twin:igb"), 0)
    _bare(found)
    yield found
    _bare(found)


def _bare(pf: Pf) -> None:
    if pf.read("sriov_drivers_autoprobe") != "1":
        pf.write("sriov_drivers_autoprobe", "1")
    if pf.read("sriov_numvfs") != "0":
        pf.make(0)


@pytest.fixture(scope="module")
def vfs(contract_host: Host | None) -> Iterator[Pf]:
    """The other igb PF, up and with three VFs; tests put back what they change.

    One for all tests of a module: on a real kernel VFs take seconds to come and to go.
    """
    found = _igb_pf(contract_host or open_host("twin:igb"), -1)
    _bare(found)
    found.ip("up")
    found.make(3)
    carrier = f"{found.path}/net/{found.name}/carrier"
    until(lambda: found.host.read(carrier) == "1\n", f"a carrier on {found.name}")
    yield found
    found.make(0)
    found.ip("down")


@pytest.fixture
def roce() -> Pf:
    """ens8f0 of roce-cx6."""
    return pf_named(open_host("twin:roce-cx6"), "ens8f0")


@pytest.fixture
def ib() -> Pf:
    """ibp60s0 of ib-cx7."""
    return pf_named(open_host("twin:ib-cx7"), "ibp60s0")
