"""A PF's own netdev: MTU, administrative state, name."""

from __future__ import annotations

from podrail.host.seam import Host
from podrail.realise.functions import at, batch, names, netdev, number, pf_netdev, require
from podrail.realise.step import Failed, Gone, Kind, Step, Value, kind

_IFF_UP = 0x1


def _own(host: Host, pci: str) -> str:
    require(host, pci)
    return pf_netdev(host, pci)


@kind
class Mtu(Kind):
    """A number, or `{"least": N}`: VFs cannot exceed their PF, and a larger PF harms nobody."""

    name = "mtu"

    def read(self, host: Host, target: str) -> Value:
        return number(host, f"{at(target)}/net/{_own(host, target)}/mtu")

    def write(self, host: Host, target: str, value: Value) -> None:
        batch(host, [f"link set dev {_own(host, target)} mtu {_mtu(value)}"])

    def disturbs(self, step: Step) -> bool:
        return not isinstance(
            step.to, dict
        )  # many drivers reset the port; raising it was asked for

    def same(self, now: Value, to: Value) -> bool:
        return int(now) >= _mtu(to) if isinstance(to, dict) else bool(now == to)

    def says(self, value: Value) -> str:
        return str(_mtu(value))


def _mtu(value: Value) -> int:
    return int(value["least"] if isinstance(value, dict) else value)


@kind
class LinkState(Kind):
    """`up` or `down`, as the administrator sets it."""

    name = "link"

    def disturbs(self, step: Step) -> bool:
        return bool(step.to == "down")  # a VF's carrier goes with its PF's

    def read(self, host: Host, target: str) -> Value:
        flags = number(host, f"{at(target)}/net/{_own(host, target)}/flags")
        return "up" if flags & _IFF_UP else "down"

    def write(self, host: Host, target: str, value: Value) -> None:
        batch(host, [f"link set dev {_own(host, target)} {'up' if value == 'up' else 'down'}"])


@kind
class Name(Kind):
    """The netdev's name, kept through what makes the driver register it anew."""

    name = "name"

    def read(self, host: Host, target: str) -> Value:
        found = netdev(host, target)
        if found is None:
            raise Gone(target)
        return found

    def write(self, host: Host, target: str, value: Value) -> None:
        now = self.read(host, target)
        if now == value:
            return
        if value in names(host, "/sys/class/net"):
            raise Failed(
                f"{target} is called {now} and cannot be {value} again: another netdev has it",
                f"rename that one, then: ip link set {now} name {value}",
            )
        batch(host, [f"link set dev {now} name {value}"])
