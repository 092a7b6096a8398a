"""`devlink dev eswitch` and `devlink dev param` of a twin; only mlx5 has devlink handles here.

The mode is kept and shown. Representors, which switchdev brings on a real machine, are not
modelled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from podrail.host.seam import Ran
from podrail.host.twin import PciFunction, TwinHost
from podrail.host.twins.kept import keep, kept
from podrail.host.twins.programs.answer import compact, not_modelled, refused, said

_KIND = "devlink"
_STEERING = "flow_steering_mode"
_MODES = ("legacy", "switchdev")


def _state(host: TwinHost, function: PciFunction) -> dict[str, Any]:
    """mlx5 steers through its firmware (dmfs) unless told otherwise, since 5.17 by itself (smfs)
    (fs_core.c:mlx5_fs_core_alloc)."""
    usual = {"mode": "legacy", _STEERING: "smfs" if host.kernel >= (5, 17) else "dmfs"}
    return kept(host, _KIND, function.address) or usual


def devlink(host: TwinHost, argv: Sequence[str]) -> Ran:
    """What podrail asks: `eswitch show|set` and `param show|set` of one device."""
    words = [word for word in argv[1:] if word != "-j"]
    json = "-j" in argv
    match words:
        case ["dev", "eswitch", "show", handle] if json:
            return _of_eswitch(host, argv, handle, None)
        case ["dev", "eswitch", "set", handle, "mode", mode] if mode in _MODES:
            return _of_eswitch(host, argv, handle, mode)
        case ["dev", "param", "show", handle, "name", name] if json:
            return _of_param(host, argv, handle, name, None)
        case ["dev", "param", "set", handle, "name", name, "value", value, "cmode", "runtime"]:
            return _of_param(host, argv, handle, name, value)
    return not_modelled(argv)


def _function(host: TwinHost, handle: str) -> PciFunction | None:
    function = host.functions.get(handle.removeprefix("pci/"))
    return function if function and host.driver(function) == "mlx5_core" else None


def _kernel_says(argv: Sequence[str], message: str, what: str = "") -> Ran:
    return refused(argv, 1, f"kernel answers: {message}", what and compact({what: {}}) + "\n")


def _of_eswitch(host: TwinHost, argv: Sequence[str], handle: str, mode: str | None) -> Ran:
    shown = "dev" if mode is None else ""
    function = _function(host, handle)
    if function is None:
        return _kernel_says(argv, "No such device", shown)
    port = function.spec.port
    if port is None or port.infiniband:
        # eswitch_offloads.c:mlx5_devlink_eswitch_get: no eswitch on InfiniBand or on a VF
        return _kernel_says(argv, "Operation not supported", shown)
    state = _state(host, function)
    if mode is None:
        told = {"mode": state["mode"], "inline-mode": "none", "encap-mode": "basic"}
        return said(argv, compact({"dev": {handle: told}}) + "\n")
    keep(host, _KIND, function.address, {**state, "mode": mode})
    return said(argv, "")


def _of_param(
    host: TwinHost, argv: Sequence[str], handle: str, name: str, value: str | None
) -> Ran:
    function = _function(host, handle)
    shown = "param" if value is None else ""
    if function is None:
        return _kernel_says(argv, "No such device", shown)
    if name != _STEERING:  # net/devlink/param.c:devlink_param_get_from_info finds none
        return _kernel_says(argv, "Invalid argument", shown)
    state = _state(host, function)
    if value is None:
        entry = {"name": name, "type": "driver-specific"}
        values = [{"cmode": "runtime", "value": state[name]}]
        return said(argv, compact({"param": {handle: [{**entry, "values": values}]}}) + "\n")
    if state["mode"] == "switchdev":  # devlink.c:mlx5_devlink_fs_mode_validate
        return _kernel_says(argv, "Operation not supported")
    keep(host, _KIND, function.address, {**state, name: value})
    return said(argv, "")
