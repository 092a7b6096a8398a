"""RoCE on the host: the lossless priority, what marks it, and what congestion does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from podrail.host.seam import Host, exists
from podrail.realise.functions import at, names, number, pf_netdev, require
from podrail.realise.qos import qos
from podrail.realise.step import Failed, Gone, Kind, Step, Value, kind, restrict
from podrail.realise.verified import Verified, ask, complaint, in_words

_OTHERS = (
    "another program keeps setting it (lldpad, openibd, DCBX in the firmware): stop that first"
)


@kind
class Pfc(Verified):
    """Priority → whether it pauses instead of dropping.

    mlx5 drops the link for a moment to set it (en_dcbnl.c:mlx5e_dcbnl_ieee_setpfc), and the VFs of
    the port feel that.
    """

    name = "pfc"
    disturbs_vfs = True
    advice = _OTHERS

    def read(self, host: Host, target: str) -> Value:
        return qos(host, target).pfc()

    def set(self, host: Host, target: str, value: Mapping[str, Value]) -> None:
        qos(host, target).set_pfc(value)

    def says(self, value: Value) -> str:
        on = [key for key, one in value.items() if one] if isinstance(value, Mapping) else []
        return f"priority {', '.join(on)}" if on else "off"


@kind
class DscpMap(Verified):
    """DSCP → priority; None where nothing maps it."""

    name = "dscp-map"
    advice = _OTHERS

    def read(self, host: Host, target: str) -> Value:
        return qos(host, target).dscp()

    def set(self, host: Host, target: str, value: Mapping[str, Value]) -> None:
        qos(host, target).set_dscp(value)


@kind
class Trust(Verified):
    """Which mark of a packet decides its priority: `{"trust": "dscp"}`.

    mlx5 leaves DSCP by dropping its whole map, so what is found then has the map in `dscp` too.
    """

    name = "trust"
    advice = _OTHERS

    def read(self, host: Host, target: str) -> Value:
        port = qos(host, target)
        return {"trust": port.trust(), "dscp": port.dscp()}

    def set(self, host: Host, target: str, value: Mapping[str, Value]) -> None:
        port = qos(host, target)
        if "dscp" in value:
            port.set_dscp(value["dscp"])
        if not self.same(port.trust(), value["trust"]):
            port.set_trust(value["trust"])

    def same(self, now: Value, to: Value) -> bool:
        """A driver that orders what it trusts may trust others after the wanted one."""
        if isinstance(now, str) and isinstance(to, str) and " " not in to:
            return now.split()[:1] == [to]
        return bool(now == to)

    def found(self, host: Host, step: Step) -> Value:
        now = self.read(host, step.target)
        loses_map = step.to["trust"] == "pcp" and now["trust"] == "dscp"
        return now if loses_map else restrict(now, step.to)

    def says(self, value: Value) -> str:
        return str(value["trust"]) if isinstance(value, Mapping) else str(value)


@kind
class Ecn(Kind):
    """`roce_np/3` (answers marked packets) and `roce_rp/3` (slows down) → whether they do.

    Only NVIDIA's own driver has these files (mlnx-ofa_kernel en_ecn.c).
    """

    name = "ecn"

    def read(self, host: Host, target: str) -> Value:
        require(host, target)
        place = self._place(host, target)
        return {
            f"{side}/{prio}": number(host, f"{place}/{side}/enable/{prio}") == 1
            for side in ("roce_np", "roce_rp")
            for prio in names(host, f"{place}/{side}/enable")
        }

    def _place(self, host: Host, pci: str) -> str:
        name = pf_netdev(host, pci)
        place = f"{at(pci)}/net/{name}/ecn"
        if not exists(host, place):
            raise Failed(
                f"{name} has no ecn/ in sysfs: under the inbox driver ECN for RoCE is set by "
                "the firmware alone",
                f"leave out roce.ecn and look at `mstconfig -d {pci} q ROCE_CC_PRIO_MASK_P1` (255: "
                "on for every priority), or install DOCA-OFED",
            )
        return place

    def write(self, host: Host, target: str, value: Value) -> None:
        now, place = self.read(host, target), self._place(host, target)
        for key in self.differing(now, value):
            if key not in now:
                raise Failed(
                    f"{place} has no {key}", f"choose one of {', '.join(now) or 'no priority'}"
                )
            side, prio = key.split("/")
            host.write(f"{place}/{side}/enable/{prio}", str(int(value[key])))

    def says(self, value: Value) -> str:
        return in_words(value)


@kind
class RoceTos(Kind):
    """Port → traffic class of what rdma_cm sends, and `view`: whether configfs shows the device.

    The kernel keeps the value without a view (drivers/infiniband/core/cma_configfs.c), so finding
    it where nobody has one means opening one and closing it again, as cma_roce_tos does.
    """

    name = "roce-tos"
    _ROOT = "/sys/kernel/config/rdma_cm"

    def read(self, host: Host, target: str) -> Value:
        device = _rdma_device(host, target)
        if not exists(host, self._ROOT):
            raise Failed(
                f"{self._ROOT} is not there: rdma_cm is not loaded, or configfs is not mounted",
                "modprobe rdma_cm; mount -t configfs none /sys/kernel/config",
            )
        ports: dict[str, Value] = dict.fromkeys(_ports(host, device))
        if not exists(host, f"{self._ROOT}/{device}"):
            return {"view": False, **ports}
        return {"view": True, **self._shown(host, device)}

    def _shown(self, host: Host, device: str) -> dict[str, Value]:
        place = f"{self._ROOT}/{device}/ports"
        return {p: number(host, f"{place}/{p}/default_roce_tos") for p in names(host, place)}

    @contextmanager
    def _opened(self, host: Host, device: str, *, stays: bool) -> Iterator[None]:
        view = f"{self._ROOT}/{device}"
        if not exists(host, view):
            _run(host, "mkdir", view)
        try:
            yield
        finally:
            if not stays:
                _run(host, "rmdir", view)

    def found(self, host: Host, step: Step) -> Value:
        now = self.read(host, step.target)
        if not now["view"]:
            device = _rdma_device(host, step.target)
            with self._opened(host, device, stays=False):
                now = {"view": False, **self._shown(host, device)}
        return restrict(now, step.to)

    def write(self, host: Host, target: str, value: Value) -> None:
        device = _rdma_device(host, target)
        with self._opened(host, device, stays=bool(value.get("view", True))):
            for port, tos in value.items():
                if port != "view" and tos is not None:
                    path = f"{self._ROOT}/{device}/ports/{port}/default_roce_tos"
                    host.write(path, str(int(tos)))

    def says(self, value: Value) -> str:
        tos = (
            {v for k, v in value.items() if k != "view"} if isinstance(value, Mapping) else {value}
        )
        return ", ".join("not shown" if one is None else str(one) for one in sorted(tos, key=str))


def _rdma_device(host: Host, pci: str) -> str:
    if not exists(host, at(pci)):
        raise Gone(pci)
    try:
        found = host.entries(f"{at(pci)}/infiniband")
    except FileNotFoundError:
        found = ()
    if not found:
        raise Failed(
            f"{pci} has no RDMA device",
            "load the driver's RDMA half (modprobe mlx5_ib), or leave out roce.tos; the ports of a "
            "RoCE bond share the device of one of them",
        )
    return found[0]


def _ports(host: Host, device: str) -> Sequence[str]:
    return names(host, f"/sys/class/infiniband/{device}/ports")


def _run(host: Host, *argv: str) -> None:
    ran = ask(host, argv, "coreutils")
    if ran.rc:
        raise Failed(complaint(ran), "run as root, with rdma_cm loaded and configfs mounted")
