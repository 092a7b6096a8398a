"""How a port sorts traffic, through `dcb` (iproute2) or, where that is missing, `mlnx_qos`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Protocol

from podrail.host.seam import Host, Ran
from podrail.inventory.reader import as_dict
from podrail.realise.functions import driver, pf_netdev, require
from podrail.realise.step import Failed
from podrail.realise.verified import ask, complaint

DSCPS, PRIORITIES = range(64), range(8)
_PACKAGE = "iproute2 5.11 or newer (on RHEL: iproute), or mlnx-tools for mlnx_qos"

Pfc = dict[str, bool]
Map = dict[str, int | None]
"""DSCP → priority, None where nothing says."""


class Qos(Protocol):
    """One port."""

    def pfc(self) -> Pfc: ...

    def set_pfc(self, wanted: Mapping[str, bool]) -> None: ...

    def dscp(self) -> Map: ...

    def set_dscp(self, wanted: Mapping[str, int | None]) -> None: ...

    def trust(self) -> str:
        """`dscp`, `pcp`, or an order of selectors such as `dscp pcp`."""

    def set_trust(self, wanted: str) -> None: ...


def qos(host: Host, pci: str) -> Qos:
    """The port of a PF, through whichever program the machine has."""
    require(host, pci)
    name = pf_netdev(host, pci)
    for argv, speaker in ((("dcb", "-V"), Dcb), (("mlnx_qos", "--version"), MlnxQos)):
        try:
            ask(host, argv, _PACKAGE)
        except Failed:
            continue
        return speaker(host, pci, name)
    raise Failed("neither dcb nor mlnx_qos is installed on the machine", f"install {_PACKAGE}")


class _Port:
    def __init__(self, host: Host, pci: str, name: str) -> None:
        self.host, self.pci, self.name = host, pci, name

    def run(self, *argv: str) -> Ran:
        return ask(self.host, argv, _PACKAGE)

    def read(self, *argv: str) -> str:
        ran = self.run(*argv)
        if ran.rc == 0:
            return ran.stdout
        by = driver(self.host, self.pci) or "no driver"
        raise Failed(
            f"{self.name} ({by}) does not tell its traffic classes: {complaint(ran)}",
            "this needs a driver with DCB, as mlx5_core has on the Ethernet port of a PF; "
            "leave `roce` out for other NICs",
        )


class Dcb(_Port):
    """dcb(8). Every change is seen to afterwards: `dcb app replace` ends with 0 even on errors
    (iproute2 dcb/dcb_app.c:dcb_cmd_app_replace), and reports one where mlx5 has replaced the entry
    by itself (drivers/net/ethernet/mellanox/mlx5/core/en_dcbnl.c:mlx5e_dcbnl_ieee_setapp)."""

    def _json(self, what: str) -> dict[str, Any]:
        text = self.read("dcb", "-j", what, "show", "dev", self.name)
        try:
            return as_dict(json.loads(text))
        except ValueError as wrong:
            raise Failed(
                f"dcb printed no JSON for {self.name}: {wrong}", f"install {_PACKAGE}"
            ) from wrong

    def pfc(self) -> Pfc:
        listed = self._json("pfc").get("prio_pfc")
        if not isinstance(listed, list) or len(listed) != len(PRIORITIES):
            raise Failed(f"dcb told no PFC of {self.name}", f"install {_PACKAGE}")
        return {str(p): one in (True, "on", 1) for p, one in enumerate(listed)}

    def set_pfc(self, wanted: Mapping[str, bool]) -> None:
        on = [f"{p}:on" for p, one in {**self.pfc(), **wanted}.items() if one]
        self.run("dcb", "pfc", "set", "dev", self.name, "prio-pfc", "all:off", *on)

    def dscp(self) -> Map:
        """Of two priorities for one DSCP the higher counts (net/dcb/dcbnl.c)."""
        found: Map = dict.fromkeys(map(str, DSCPS))
        found.update({str(d): p for d, p in sorted(self._json("app").get("dscp_prio") or ())})
        return found

    def set_dscp(self, wanted: Mapping[str, int | None]) -> None:
        now = self.dscp()
        gone = [f"{d}:{now[d]}" for d, p in wanted.items() if p is None and now[d] is not None]
        new = [f"{d}:{p}" for d, p in wanted.items() if p is not None and p != now[d]]
        for way, entries in (("replace", new), ("del", gone)):
            if entries:
                self.run("dcb", "app", way, "dev", self.name, "dscp-prio", *entries)

    def _order(self) -> list[str] | None:
        """The selectors a driver lets one order; None where it has no such thing."""
        ran = self.run("dcb", "-j", "apptrust", "show", "dev", self.name)
        if ran.rc or not ran.stdout.strip():
            return None
        return [str(word) for word in as_dict(json.loads(ran.stdout)).get("order", ())]

    def trust(self) -> str:
        order = self._order()
        if order is not None:
            return " ".join(order) or "none"
        self._must_be_mlx5()
        return "dscp" if any(p is not None for p in self.dscp().values()) else "pcp"

    def set_trust(self, wanted: str) -> None:
        if self._order() is not None:
            order = wanted.split() if wanted != "none" else []
            self.run("dcb", "apptrust", "set", "dev", self.name, "order", *order)
        elif wanted == "pcp":
            self.run("dcb", "app", "flush", "dev", self.name, "dscp-prio")
        else:
            raise Failed(
                f"{self.name} trusts DSCP only while a DSCP is mapped, and none is",
                "give roce.dscp and roce.priority: the first entry makes mlx5 trust DSCP",
            )

    def _must_be_mlx5(self) -> None:
        """mlx5 trusts DSCP as long as its map has an entry (mlx5e_dcbnl_ieee_delapp)."""
        by = driver(self.host, self.pci)
        if by != "mlx5_core":
            raise Failed(
                f"{self.name} ({by or 'no driver'}) does not tell what it trusts",
                "leave out roce.trust, and set it with the vendor's own tool",
            )


class MlnxQos(_Port):
    """mlnx_qos of NVIDIA's mlnx-tools; it speaks text only."""

    def _shown(self) -> str:
        return self.read("mlnx_qos", "-i", self.name)

    def _set(self, *words: str) -> None:
        self.run("mlnx_qos", "-i", self.name, *words)

    def pfc(self) -> Pfc:
        row = re.search(r"^\s+enabled((?:\s+[01]){8})\s*$", self._shown(), re.MULTILINE)
        if row is None:
            raise Failed(f"mlnx_qos told no PFC of {self.name}", f"install {_PACKAGE}")
        return {str(p): bit == "1" for p, bit in enumerate(row[1].split())}

    def set_pfc(self, wanted: Mapping[str, bool]) -> None:
        merged = {**self.pfc(), **wanted}
        self._set("--pfc", ",".join(str(int(merged[str(p)])) for p in PRIORITIES))

    def dscp(self) -> Map:
        found: Map = dict.fromkeys(map(str, DSCPS))
        for prio, listed in re.findall(r"prio:([0-7]) dscp:([\d,]+)", self._shown()):
            found.update({str(int(d)): int(prio) for d in listed.split(",") if d})
        return found

    def set_dscp(self, wanted: Mapping[str, int | None]) -> None:
        now = self.dscp()
        for dscp, prio in wanted.items():
            if prio is None and now[dscp] is not None:
                self._set("--dscp2prio", f"del,{dscp},{now[dscp]}")
            elif prio is not None and prio != now[dscp]:
                self._set("--dscp2prio", f"set,{dscp},{prio}")

    def trust(self) -> str:
        told = re.search(r"^Priority trust state: (\w+)", self._shown(), re.MULTILINE)
        if told is None or told[1] == "none":
            raise Failed(f"{self.name} does not tell what it trusts", "leave out roce.trust")
        return told[1]

    def set_trust(self, wanted: str) -> None:
        self._set("--trust", wanted)
