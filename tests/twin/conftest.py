"""The hosts the contract runs against: a twin, or the machine PODRAIL_CONTRACT_HOST names."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
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

    def vf(self, index: int) -> str:
        return self.host.readlink(f"{self.path}/virtfn{index}").rpartition("/")[2]

    def vf_netdev(self, index: int) -> str:
        return self.host.entries(f"/sys/bus/pci/devices/{self.vf(index)}/net")[0]

    def driver(self, address: str) -> str | None:
        try:
            link = self.host.readlink(f"/sys/bus/pci/devices/{address}/driver")
        except OSError:
            return None
        return link.rpartition("/")[2]

    def link(self) -> dict[str, Any]:
        ran = self.host.run(["ip", "-d", "-j", "link", "show", self.name])
        found: dict[str, Any] = json.loads(ran.stdout)[0]
        return found

    def vf_info(self, index: int) -> dict[str, Any]:
        info: dict[str, Any] = self.link()["vfinfo_list"][index]
        return info

    def ip(self, *words: str) -> tuple[int, str]:
        ran = self.host.run(["ip", "link", "set", self.name, *words])
        return ran.rc, ran.stderr.strip()


def pf_named(host: Host, name: str) -> Pf:
    address = host.resolve(f"/sys/class/net/{name}/device").rpartition("/")[2]
    return Pf(host, address, name)


def _igb_pfs(host: Host) -> list[str]:
    """igb PFs below a root port, which has ACS; the last one carries nothing else."""
    found = []
    for address in host.entries("/sys/bus/pci/devices"):
        at = f"/sys/bus/pci/devices/{address}"
        ids = (host.read(f"{at}/vendor").strip(), host.read(f"{at}/device").strip())
        if ids == ("0x8086", "0x10c9"):
            found.append(address)
    return found


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
    """An igb PF of the lab VM or of its twin, without VFs before and after."""
    host = contract_host or open_host("twin:igb")
    address = _igb_pfs(host)[-1]
    name = host.entries(f"/sys/bus/pci/devices/{address}/net")[0]
    found = Pf(host, address, name)
    found.write("sriov_numvfs", "0")
    yield found
    found.write("sriov_drivers_autoprobe", "1")
    found.write("sriov_numvfs", "0")


@pytest.fixture
def roce() -> Pf:
    """ens8f0 of roce-cx6."""
    return pf_named(open_host("twin:roce-cx6"), "ens8f0")


@pytest.fixture
def ib() -> Pf:
    """ibp60s0 of ib-cx7."""
    return pf_named(open_host("twin:ib-cx7"), "ibp60s0")
