"""`dcb` and `mlnx_qos` of a twin: how an mlx5 port sorts traffic.

Of all drivers here only mlx5 has DCB modelled, on the Ethernet port of a PF
(drivers/net/ethernet/mellanox/mlx5/core/en_dcbnl.c). What dcb prints follows iproute2's dcb/*.c;
that it prints an empty line and exits with 1 where there is no DCB was seen with iproute2 6.1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from podrail.host.seam import Ran
from podrail.host.twin import TwinHost
from podrail.host.twins.kept import keep, kept
from podrail.host.twins.programs.answer import compact, not_modelled, refused, said

_CABLE_LENGTH = 7  # en_dcbnl.c: MLX5E_DEFAULT_CABLE_LEN
_VERSION = "dcb utility, iproute2-6.1.0\n"


class Port:
    """What the card keeps of one port: PFC as a bit mask, and the map whose first entry makes it
    trust DSCP."""

    def __init__(self, host: TwinHost, pci: str) -> None:
        self._host, self._pci = host, pci
        state: dict[str, Any] = kept(host, "dcb", pci) or {}
        self.pfc: int = state.get("pfc", 0)
        self.dscp: dict[int, int] = {int(d): p for d, p in state.get("dscp", {}).items()}

    @property
    def trust(self) -> str:
        return "dscp" if self.dscp else "pcp"

    def save(self) -> None:
        entries = {str(d): p for d, p in sorted(self.dscp.items())}
        keep(self._host, "dcb", self._pci, {"pfc": self.pfc, "dscp": entries})


def _port(host: TwinHost, name: str) -> Port | str:
    """The port, or why the kernel shows none."""
    netdev = host.netdevs.get(name)
    if netdev is None:
        return "No such device"
    function = host.functions.get(netdev.pci or "")
    own = function is not None and function.physfn is None and function.spec.port is not None
    if function is None or not own or host.driver(function) != "mlx5_core":
        return "Operation not supported"
    if function.spec.port is not None and function.spec.port.infiniband:
        return "Operation not supported"
    return Port(host, function.address)


def dcb(host: TwinHost, argv: Sequence[str]) -> Ran:
    """`dcb [-j] pfc|app show dev NAME`, `dcb pfc set …`, `dcb app add|del|replace|flush …`."""
    json = "-j" in argv
    match [word for word in argv[1:] if word != "-j"]:
        case ["-V"]:
            return said(argv, _VERSION)
        case ["pfc" | "app" as what, "show", "dev", name] if json:
            return _on(host, argv, name, lambda port: said(argv, _shown(port, what)))
        case ["pfc", "set", "dev", name, "prio-pfc", *pairs]:
            return _on(host, argv, name, lambda port: _set_pfc(argv, port, pairs))
        case ["app", "flush", "dev", name, "dscp-prio"]:
            return _on(host, argv, name, lambda port: _flush(argv, port))
        case ["app", "add" | "del" | "replace" as way, "dev", name, "dscp-prio", *pairs]:
            return _on(host, argv, name, lambda port: _change(argv, port, way, pairs))
        case ["pfc" | "app", *_]:
            return not_modelled(argv)
        case [other, *_]:
            return refused(argv, 1, f'Object "{other}" is unknown', "\n" if json else "")
    return not_modelled(argv)


def _on(host: TwinHost, argv: Sequence[str], name: str, do: Callable[[Port], Ran]) -> Ran:
    port = _port(host, name)
    if isinstance(port, Port):
        return do(port)
    return refused(argv, 1, f"Attribute read: {port}", "\n" if "-j" in argv else "")


def _shown(port: Port, what: str) -> str:
    if what == "app":
        entries = [[d, p] for d, p in sorted(port.dscp.items())]
        return compact({"dscp_prio": entries} if entries else {}) + "\n"
    on = [bool(port.pfc >> p & 1) for p in range(8)]
    head = {"pfc_cap": 8, "macsec_bypass": False, "delay": _CABLE_LENGTH}
    return compact({**head, "prio_pfc": on}) + "\n"


def _set_pfc(argv: Sequence[str], port: Port, pairs: Sequence[str]) -> Ran:
    for pair in pairs:
        key, _, way = pair.partition(":")
        bits = 0xFF if key == "all" else 1 << int(key)
        port.pfc = port.pfc | bits if way == "on" else port.pfc & ~bits
    port.save()
    return said(argv, "")


def _flush(argv: Sequence[str], port: Port) -> Ran:
    port.dscp.clear()
    port.save()
    return said(argv, "")


def _change(argv: Sequence[str], port: Port, way: str, pairs: Sequence[str]) -> Ran:
    entries = [tuple(int(n) for n in pair.split(":")) for pair in pairs]
    replaced = way == "replace" and any(port.dscp.get(d, p) != p for d, p in entries)
    for dscp, prio in entries:
        if way != "del":
            port.dscp[dscp] = prio  # mlx5e_dcbnl_ieee_setapp drops the old entry by itself
        elif port.dscp.get(dscp) != prio:
            return refused(argv, 1, "Attribute write: No such file or directory")
        else:
            del port.dscp[dscp]
    port.save()
    if not replaced:
        return said(argv, "")
    # so dcb_cmd_app_replace finds nothing to remove, says so, and still ends with 0
    told = "Attribute write: No such file or directory\nCould not remove replaced APP entries"
    return refused(argv, 0, told)


# --- mlnx_qos -----------------------------------------------------------------------------------


def mlnx_qos(host: TwinHost, argv: Sequence[str]) -> Ran:
    """`mlnx_qos -i NAME [--pfc LIST] [--trust …] [--dscp2prio …]` (mlnx-tools python/mlnx_qos)."""
    if list(argv[1:]) == ["--version"]:
        return said(argv, "mlnx_qos 1.2\n")
    words = list(argv[1:])
    if words[:1] != ["-i"] or len(words) < 2:
        return not_modelled(argv)
    port = _port(host, words[1])
    if not isinstance(port, Port):
        return refused(argv, 1, f"Netlink error: {port}")
    for option, value in zip(words[2::2], words[3::2], strict=True):
        if not _qos_option(port, option, value):
            return not_modelled(argv)
    port.save()
    return said(argv, _qos_text(port))


def _qos_option(port: Port, option: str, value: str) -> bool:
    match option, value.split(","):
        case "--pfc", list() as bits if len(bits) == 8:
            port.pfc = sum(1 << p for p, bit in enumerate(bits) if bit == "1")
        case "--trust", ["pcp"]:
            port.dscp.clear()
        case "--trust", ["dscp"]:
            port.dscp = port.dscp or {d: d >> 3 for d in range(64)}
        case "--dscp2prio", ["set", dscp, prio]:
            port.dscp[int(dscp)] = int(prio)
        case "--dscp2prio", ["del", dscp, _]:
            port.dscp.pop(int(dscp), None)
        case _:
            return False
    return True


def _qos_text(port: Port) -> str:
    lines = ["DCBX mode: OS controlled", f"Priority trust state: {port.trust}"]
    if port.dscp:
        lines.append("dscp2prio mapping:")
        for prio in range(8):
            listed = [f"{d:02d}," for d in sorted(port.dscp, reverse=True) if port.dscp[d] == prio]
            chunks = [listed[i : i + 8] for i in range(0, len(listed), 8)]
            lines += [f"\tprio:{prio} dscp:{''.join(chunk)}" for chunk in chunks]
    bits = "".join(f"{port.pfc >> p & 1}   " for p in range(8))
    lines += ["default priority:", f"Cable len: {_CABLE_LENGTH}", "PFC configuration:"]
    lines += ["\tpriority    0   1   2   3   4   5   6   7", f"\tenabled     {bits}"]
    return "".join(f"{line}\n" for line in lines)
