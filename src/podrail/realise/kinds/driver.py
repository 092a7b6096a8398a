"""Which driver has a VF, and whether the kernel probes new VFs by itself."""

from __future__ import annotations

from collections.abc import Mapping

from podrail.host.seam import Host, exists
from podrail.planning.decide import ranges
from podrail.realise.functions import (
    USERSPACE,
    at,
    await_netdev,
    batch,
    driver,
    netdev,
    number,
    require,
    settle,
    virtfns,
)
from podrail.realise.step import Failed, Kind, Step, Value, kind

_BARE = " without a netdev"
NETDEVICE = "netdevice"
"""Whatever driver the kernel has for the VF's own id."""

_FEW = 3
_PROBE = "/sys/bus/pci/drivers_probe"


@kind
class Autoprobe(Kind):
    """Off while VFs are made that must be set up before a driver sees them."""

    name = "autoprobe"
    watched = False

    def read(self, host: Host, target: str) -> Value:
        require(host, target)
        return host.read(f"{at(target)}/sriov_drivers_autoprobe").strip() == "1"

    def write(self, host: Host, target: str, value: Value) -> None:
        host.write(f"{at(target)}/sriov_drivers_autoprobe", "1" if value else "0")

    def says(self, value: Value) -> str:
        return "on" if value else "off"


@kind
class VfDriver(Kind):
    """VF index → driver: `netdevice`, `vfio-pci`, the name of one, or None for no driver.

    What was found has the netdev's name and MTU too, which another driver loses.
    """

    name = "vf-driver"
    title = "driver"
    inside_vfs = True
    disturbs_vfs = True

    def read(self, host: Host, target: str) -> Value:
        require(host, target)
        netdevs = exists(host, f"{at(target)}/net")
        return {str(i): _bound(host, pci, netdevs) for i, pci in virtfns(host, target).items()}

    def write(self, host: Host, target: str, value: Value) -> None:
        vfs, now = virtfns(host, target), self.read(host, target)
        here = {key: vfs[int(key)] for key in value if int(key) in vfs}
        changing = {k: _driver(value[k]) for k in self.differing(now, value) if k in here}
        for key, wanted in changing.items():
            if not self.same(driver(host, here[key]), wanted):
                give(host, here[key], wanted)
        for key, pci in here.items():
            if _driver(value[key]) not in USERSPACE:
                _clear(host, pci)
        _await(host, {k: here[k] for k, wanted in changing.items() if _makes_netdev(wanted)})
        dress(host, {pci: value[k] for k, pci in here.items() if isinstance(value[k], Mapping)})

    def found(self, host: Host, step: Step) -> Value:
        require(host, step.target)
        vfs = virtfns(host, step.target)
        return {key: look(host, vfs[int(key)]) for key in step.to if int(key) in vfs}

    def same(self, now: Value, to: Value) -> bool:
        now, to = _driver(now), _driver(to)
        if to == NETDEVICE:
            return now is not None and now not in USERSPACE and not now.endswith(_BARE)
        return bool(now == to)

    def says(self, value: Value) -> str:
        return in_words(value)

    def line(self, was: Value, to: Value) -> str:
        return in_pairs(self.title, was, to)


def _bound(host: Host, pci: str, netdevs: bool) -> str | None:
    """A driver that has registered no netdev leaves no `net` there; in a pod, an empty one."""
    found = driver(host, pci)
    bare = netdevs and found and found not in USERSPACE and not exists(host, f"{at(pci)}/net")
    return f"{found}{_BARE}" if bare else found


def in_pairs(title: str, was: Value, to: Value) -> str:
    """`driver of vf 0-3: igbvf → vfio-pci` for two mappings of VFs; those alike go together."""
    groups: dict[tuple[str, str], list[int]] = {}
    for key, one in to.items():
        had = was.get(key) if isinstance(was, Mapping) else was
        if had != one:
            groups.setdefault((in_word(had), in_word(one)), []).append(int(key))
    if len(groups) > _FEW:
        (_, first), *_ = groups
        everyone = ranges(index for at in groups.values() for index in at)
        return f"{title} of vf {everyone}: each its own, the first {first}"
    return "; ".join(f"{title} of vf {ranges(at)}: {a} → {b}" for (a, b), at in groups.items())


def in_word(value: Value) -> str:
    """One value of a VF."""
    return "none" if _driver(value) is None else str(_driver(value))


def _driver(value: Value) -> Value:
    return value["driver"] if isinstance(value, Mapping) else value


def look(host: Host, pci: str) -> dict[str, Value]:
    """What a VF loses with its driver."""
    name = netdev(host, pci)
    mtu = number(host, f"{at(pci)}/net/{name}/mtu") if name else None
    return {"driver": driver(host, pci), "name": name, "mtu": mtu}


def dress(host: Host, looks: Mapping[str, Mapping[str, Value]]) -> None:
    """Functions, by address, with the names and MTUs they had; one without a netdev has none."""
    named = {pci: one for pci, one in looks.items() if one["name"] and netdev(host, pci)}
    if not named:
        return
    settle(host)
    for key in ("name", "mtu"):
        has = {pci: look(host, pci) for pci in named}
        wrong = [pci for pci, one in has.items() if one[key] != named[pci][key]]
        batch(host, [f"link set dev {has[p]['name']} {key} {named[p][key]}" for p in wrong])


def in_words(value: Value) -> str:
    """`vf 0-3 igbvf, vf 4-7 vfio-pci` for a mapping of VFs."""
    if not isinstance(value, Mapping):
        return str(value)
    groups: dict[str, list[int]] = {}
    for key, one in value.items():
        groups.setdefault(in_word(one), []).append(int(key))
    return ", ".join(f"vf {ranges(at)} {one}" for one, at in groups.items()) or "none"


def _makes_netdev(wanted: Value) -> bool:
    return wanted is not None and wanted not in USERSPACE


def give(host: Host, pci: str, wanted: str | None) -> None:
    """Take a function from its driver and give it to another.

    With driver_override set the kernel offers it to that driver alone, autoprobe or not
    (drivers/pci/pci-driver.c:pci_match_device, pci_device_can_probe).
    """
    if wanted in USERSPACE:
        _load(host, str(wanted))
    release(host, pci)
    named = "" if wanted in (None, NETDEVICE) else wanted
    host.write(f"{at(pci)}/driver_override", f"{named}\n")
    if wanted is None:
        return
    probe(host, pci)
    if wanted not in USERSPACE:
        _clear(host, pci)
    now = driver(host, pci)
    if now is None or (wanted in USERSPACE) != (now in USERSPACE):
        raise Failed(
            f"{pci} was offered to {wanted} and went to {now or 'no driver'}",
            f"look at `dmesg`; is the module there? modprobe {wanted}"
            if wanted != NETDEVICE
            else "load the VF driver's module (`lspci -k -s` names it); is the PF's "
            "sriov_drivers_autoprobe 1?",
        )


def _clear(host: Host, pci: str) -> None:
    """An override that is left behind would keep every other driver away for good."""
    path = f"{at(pci)}/driver_override"
    if host.read(path).strip() != "(null)":
        host.write(path, "\n")


def release(host: Host, pci: str) -> None:
    bound = driver(host, pci)
    if bound is not None:
        host.write(f"/sys/bus/pci/drivers/{bound}/unbind", pci)


def probe(host: Host, pci: str) -> None:
    """Offer a function to the drivers; the write returns when one has taken it or none wants it."""
    host.write(_PROBE, pci)


def rebind(host: Host, pci: str) -> None:
    """The same driver again, which then reads what the PF has set for the VF."""
    bound = driver(host, pci)
    release(host, pci)
    probe(host, pci)
    if bound is not None and driver(host, pci) is None:
        raise Failed(f"{pci} did not come back to {bound}", "look at `dmesg`")


def _load(host: Host, wanted: str) -> None:
    if exists(host, f"/sys/bus/pci/drivers/{wanted}"):
        return
    ran = host.run(("modprobe", wanted), timeout=30.0)
    if ran.rc or not exists(host, f"/sys/bus/pci/drivers/{wanted}"):
        raise Failed(
            f"the module {wanted} cannot be loaded: {ran.stderr.strip() or 'no reason given'}",
            f"install the kernel's module package, then: modprobe {wanted}",
        )


def _await(host: Host, vfs: Mapping[str, str]) -> None:
    """Upstream's patience: ten seconds, then the driver once more, then it is a failure."""
    if not vfs:
        return
    settle(host)
    for index, pci in vfs.items():
        if await_netdev(host, pci):
            continue
        rebind(host, pci)
        if not await_netdev(host, pci):
            raise Failed(
                f"vf {index} ({pci}) has driver {driver(host, pci)} but never got a netdev",
                f"look at `dmesg | grep {pci}`; is the PF up, and the VF driver the right one?",
            )
