"""What a PF's administrator sets on its VFs, and the VFs' own MTU."""

from __future__ import annotations

from typing import Any

from podrail.host.seam import Host
from podrail.inventory.links import VfInfo, vf_info
from podrail.inventory.reader import as_dicts, as_int, guid_of
from podrail.realise.functions import (
    at,
    batch,
    driver,
    link,
    names,
    netdev,
    number,
    pf_netdev,
    require,
    settle,
    virtfns,
)
from podrail.realise.kinds.driver import in_pairs, in_words, rebind
from podrail.realise.step import Failed, Kind, Step, Value, kind

EFFECTIVE = "its own"
_ZERO_MAC = "00:00:00:00:00:00"


def told(host: Host, pf: str) -> dict[int, VfInfo]:
    """What the PF says of its VFs."""
    return {i: vf_info(one) for i, one in _listed(host, pf)}


def _listed(host: Host, pf: str) -> list[tuple[int, dict[str, Any]]]:
    name = netdev(host, pf)
    listed = as_dicts(link(host, name).get("vfinfo_list")) if name else []
    return [(i, one) for one in listed if (i := as_int(one.get("vf"))) is not None]


def _vf(host: Host, pf: str, key: str, words: str) -> str:
    return f"link set dev {pf_netdev(host, pf)} vf {int(key)} {words}"


class _Setting(Kind):
    """One field of every VF, set through the PF."""

    inside_vfs = True

    def undo(self, host: Host, step: Step, was: Value) -> None:
        """On a VF that is gone there is nothing to undo."""
        vfs = virtfns(host, step.target)
        self.write(host, step.target, {k: v for k, v in was.items() if int(k) in vfs})

    def says(self, value: Value) -> str:
        return in_words(value)

    def line(self, was: Value, to: Value) -> str:
        return in_pairs(self.title, was, to)


@kind
class AdminMac(_Setting):
    """The VF's own MAC made the administrator's, so that it stays what it is.

    Not watched: a pod's network may ask for another, and gives it back.
    """

    name = "vf-mac"
    title = "admin MAC"
    watched = False

    def read(self, host: Host, target: str) -> Value:
        require(host, target)
        return {str(i): info.mac for i, info in told(host, target).items()}

    def holds(self, host: Host, step: Step) -> bool:
        return not self._missing(host, step.target, step.to)

    def write(self, host: Host, target: str, value: Value) -> None:
        missing = self._missing(host, target, value)
        # igb_ndo_set_vf_mac and its like take zero as "none any more"
        batch(host, [_vf(host, target, k, f"mac {mac or _ZERO_MAC}") for k, mac in missing.items()])

    def _missing(self, host: Host, target: str, value: Value) -> dict[str, str | None]:
        """VF index → the address it lacks; a VF without a netdev here keeps what it has."""
        now, own = self.read(host, target), _own_macs(host, target)
        wanted = {k: own.get(k, now.get(k)) if v == EFFECTIVE else v for k, v in value.items()}
        return {k: mac for k, mac in wanted.items() if mac != now.get(k)}


def _own_macs(host: Host, pf: str) -> dict[str, str]:
    """The address of each VF's netdev, where this namespace shows one."""
    found = {}
    for index, pci in virtfns(host, pf).items():
        name = netdev(host, pci)
        if name:
            found[str(index)] = host.read(f"{at(pci)}/net/{name}/address").strip()
    return found


@kind
class VfGuid(_Setting):
    """Node and port GUID of InfiniBand VFs; a VF that is bound already is bound again."""

    name = "vf-guid"
    title = "GUID"
    disturbs_vfs = True

    def read(self, host: Host, target: str) -> Value:
        require(host, target)
        return {str(i): _guid(one) for i, one in _listed(host, target)}

    def write(self, host: Host, target: str, value: Value) -> None:
        now, vfs = self.read(host, target), virtfns(host, target)
        changing = [key for key in self.differing(now, value) if value[key]]
        lines = [
            _vf(host, target, key, f"{which}_guid {value[key]}")
            for key in changing
            for which in ("node", "port")
        ]
        batch(host, lines)
        for key in changing:
            if driver(host, vfs[int(key)]) is not None:
                rebind(host, vfs[int(key)])


def _guid(one: dict[str, Any]) -> str | None:
    """Zero unless both are set; an InfiniBand VF needs both."""
    node, port = guid_of(one.get("node guid")), guid_of(one.get("port guid"))
    if node is None or port is None or not port.strip("0:"):
        return port or node
    return node


@kind
class VfLinkState(_Setting):
    """`auto` follows the port; an InfiniBand VF is born `disable`."""

    name = "vf-state"
    title = "link state"
    watched = False

    def read(self, host: Host, target: str) -> Value:
        require(host, target)
        return {str(i): info.link_state for i, info in told(host, target).items()}

    def write(self, host: Host, target: str, value: Value) -> None:
        now = self.read(host, target)
        keys = self.differing(now, value)
        batch(host, [_vf(host, target, key, f"state {value[key]}") for key in keys if value[key]])


@kind
class NodeGuid(_Setting):
    """No RoCE VF with a zero node GUID: rdma_cm fails on it. Binding again after the MAC is set
    lets mlx5 derive one (drivers/infiniband/hw/mlx5/main.c:mlx5_query_node_guid)."""

    name = "vf-node-guid"
    title = "node GUID"
    disturbs_vfs = True

    def read(self, host: Host, target: str) -> Value:
        require(host, target)
        return {str(i): _has_guid(host, pci) for i, pci in virtfns(host, target).items()}

    def same(self, now: Value, to: Value) -> bool:
        return now is not False  # None: no RDMA device to be seen

    def write(self, host: Host, target: str, value: Value) -> None:
        now, vfs = self.read(host, target), virtfns(host, target)
        zero = [vfs[int(key)] for key, wanted in value.items() if wanted and now.get(key) is False]
        for pci in zero:
            rebind(host, pci)
        left = [pci for pci in zero if _has_guid(host, pci) is False]
        if left:
            raise Failed(
                f"the node GUID of {', '.join(left)} is zero, also after the driver was bound anew",
                "rdma_cm cannot use such a VF: give it a MAC (ip link set PF vf N mac …), or "
                "update the card's firmware",
            )

    def undo(self, host: Host, step: Step, was: Value) -> None:
        """A zero GUID is nothing anybody wants back."""

    def says(self, value: Value) -> str:
        return in_words({k: _guid_word(v) for k, v in value.items()})

    def line(self, was: Value, to: Value) -> str:
        zero = {k: "zero" for k, has in was.items() if has is False}
        return in_pairs(self.title, zero, dict.fromkeys(zero, "set"))


def _guid_word(has: bool | None) -> str:
    return "zero" if has is False else "set"


def _has_guid(host: Host, pci: str) -> bool | None:
    devices = names(host, f"{at(pci)}/infiniband")
    if not devices:
        return None
    guid = host.read(f"{at(pci)}/infiniband/{devices[0]}/node_guid").strip()
    return bool(guid.strip("0:"))


@kind
class VfMtu(_Setting):
    """The MTU of VFs whose netdev is here; one in a pod's namespace is the pod's."""

    name = "vf-mtu"
    title = "MTU"

    def read(self, host: Host, target: str) -> Value:
        require(host, target)
        found = {str(i): netdev(host, pci) for i, pci in virtfns(host, target).items()}
        vfs = virtfns(host, target)
        return {
            key: number(host, f"{at(vfs[int(key)])}/net/{name}/mtu") if name else None
            for key, name in found.items()
        }

    def same(self, now: Value, to: Value) -> bool:
        return now is None or bool(now == to)

    def write(self, host: Host, target: str, value: Value) -> None:
        settle(host)
        vfs, now = virtfns(host, target), self.read(host, target)
        keys = [k for k in self.differing(now, value) if value[k] is not None]
        batch(host, [f"link set dev {netdev(host, vfs[int(k)])} mtu {value[k]}" for k in keys])
