"""`ethtool -g|-G|-c|-C` of a twin; what else it can is in `tools`.

The text is that of ethtool 6.1 on a virtio NIC, the numbers those of mlx5, the only driver of which
these settings are modelled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from podrail.host.seam import Ran
from podrail.host.twin import TwinHost
from podrail.host.twins.kept import keep, kept
from podrail.host.twins.programs import tools
from podrail.host.twins.programs.answer import not_modelled, refused, said

# drivers/net/ethernet/mellanox/mlx5/core/en.h: MLX5E_PARAMS_{MAXIMUM,DEFAULT,MINIMUM}_LOG_*_SIZE
_MOST, _LEAST = 8192, {"rx": 2, "tx": 64}
_RINGS: dict[str, Any] = {"rx": 1024, "tx": 1024}
# lib/dim/net_dim.c: the profile both directions start with; en/params.c: what they have without
_COALESCING: dict[str, Any] = {
    "adaptive-rx": True, "adaptive-tx": True,
    "rx-usecs": 8, "rx-frames": 128, "tx-usecs": 8, "tx-frames": 64,
}  # fmt: skip
_FIXED = {"rx-usecs": 3, "rx-frames": 32, "tx-usecs": 16, "tx-frames": 32}
_LEVELS = ("rx-usecs", "rx-frame", "tx-usecs", "tx-frame")
_LONGEST = {"usecs": 0xFFF, "frames": 0xFFFF}  # MLX5_MAX_CQ_PERIOD, MLX5_MAX_CQ_COUNT


def ethtool(host: TwinHost, argv: Sequence[str]) -> Ran:
    """The options modelled here, else those of `tools.ethtool`."""
    option = argv[1] if len(argv) > 2 else ""
    if option not in ("-g", "-G", "-c", "-C"):
        return tools.ethtool(host, argv)
    netdev = host.netdevs.get(argv[2])
    if netdev is None:
        told = "netlink error: no device matches name (offset 24)\nnetlink error: No such device"
        return refused(argv, 1, told)
    function = host.functions.get(netdev.pci or "")
    if function is None:  # net/ethtool/rings.c: a netdev without hardware has no such operation
        return refused(argv, 1, "netlink error: Operation not supported")
    if host.driver(function) != "mlx5_core":
        return not_modelled(argv)
    kind, start, shown, change = _OPTIONS[option.lower()]
    state = kept(host, kind, function.address) or dict(start)
    if option in _OPTIONS:
        return said(argv, shown(argv[2], state))
    answer = _unknown(argv, state) or change(argv, state)
    if isinstance(answer, Ran):
        return answer
    keep(host, kind, function.address, answer)
    return said(argv, "")


def _unknown(argv: Sequence[str], state: dict[str, Any]) -> Ran | None:
    word = next((word for word in argv[3::2] if word not in state), None)
    if word is None:
        return None
    told = "ethtool: bad command line argument(s)\nFor more information run ethtool -h"
    return refused(argv, 1, f"ethtool ({argv[1]}): unknown parameter '{word}'\n{told}")


def _wanted(argv: Sequence[str]) -> dict[str, str]:
    return dict(zip(argv[3::2], argv[4::2], strict=False))


def _set_rings(argv: Sequence[str], state: dict[str, Any]) -> dict[str, Any] | Ran:
    """net/ethtool/rings.c:ethnl_set_rings, then en_ethtool.c:mlx5e_ethtool_set_ringparam."""
    wanted = {key: int(text) for key, text in _wanted(argv).items()}
    if any(size > _MOST for size in wanted.values()):
        told = "netlink error: requested ring size exceeds maximum (offset 36)"
        return refused(argv, 81, f"{told}\nnetlink error: Invalid argument")
    if any(size < _LEAST[key] for key, size in wanted.items()):
        return refused(argv, 81, "netlink error: Invalid argument")
    return {**state, **{key: 1 << (size - 1).bit_length() for key, size in wanted.items()}}


def _set_coalescing(argv: Sequence[str], state: dict[str, Any]) -> dict[str, Any] | Ran:
    """en_ethtool.c:mlx5e_ethtool_set_coalesce: turning adapting on or off sets its own numbers."""
    wanted = _wanted(argv)
    numbers = {key: int(text) for key, text in wanted.items() if not key.startswith("adaptive")}
    if any(value > _LONGEST[key[3:]] for key, value in numbers.items()):
        return refused(argv, 1, "netlink error: Numerical result out of range")
    new = {**state, **numbers}
    for side in ("rx", "tx"):
        way = wanted.get(f"adaptive-{side}")
        if way is not None and (way == "on") != state[f"adaptive-{side}"]:
            start = _COALESCING if way == "on" else _FIXED
            new |= {f"{side}-{word}": start[f"{side}-{word}"] for word in ("usecs", "frames")}
            new[f"adaptive-{side}"] = way == "on"
    return new


def _rings(name: str, state: dict[str, Any]) -> str:
    def rows(rx: int, tx: int) -> str:
        return f"RX:\t\t{rx}\nRX Mini:\tn/a\nRX Jumbo:\tn/a\nTX:\t\t{tx}\n"

    return (
        f"Ring parameters for {name}:\nPre-set maximums:\n{rows(_MOST, _MOST)}"
        f"Current hardware settings:\n{rows(state['rx'], state['tx'])}"
        "RX Buf Len:\t\tn/a\nCQE Size:\t\tn/a\nTX Push:\toff\nTCP data split:\toff\n"
    )


def _coalescing(name: str, state: dict[str, Any]) -> str:
    rx, tx = ("on" if state[f"adaptive-{side}"] else "off" for side in ("rx", "tx"))
    numbers = "".join(
        f"{side}-usecs: {state[f'{side}-usecs']}\n{side}-frames: {state[f'{side}-frames']}\n"
        f"{side}-usecs-irq: n/a\n{side}-frames-irq: n/a\n\n"
        for side in ("rx", "tx")
    )
    rest = "".join(
        "".join(f"{word}-{level}: n/a\n" for word in _LEVELS) + "\n" for level in ("low", "high")
    )
    return (
        f"Coalesce parameters for {name}:\nAdaptive RX: {rx}  TX: {tx}\nstats-block-usecs: n/a\n"
        "sample-interval: n/a\npkt-rate-low: n/a\npkt-rate-high: n/a\n\n"
        f"{numbers}{rest}CQE mode RX: on  TX: off\n\n"
    )


_Show = Callable[[str, dict[str, Any]], str]
_Change = Callable[[Sequence[str], dict[str, Any]], dict[str, Any] | Ran]
_OPTIONS: dict[str, tuple[str, dict[str, Any], _Show, _Change]] = {
    "-g": ("rings", _RINGS, _rings, _set_rings),
    "-c": ("coalescing", _COALESCING, _coalescing, _set_coalescing),
}
