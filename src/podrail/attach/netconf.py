"""The configuration of a network: the keys of sriov-cni, ib-sriov-cni, rdma-cni and our own.

`type` says whose keys count: a NAD written for an upstream plugin means here what it meant there,
and a key that plugin does not know is ignored, and told. `podrail` knows them all. Keys are found
whatever their case, as Go's encoding/json finds them. The JSON itself does not leave this module.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping

from podrail.attach import request as cni
from podrail.attach.railconf import Attachment, Bandwidth, Ipam, RailConf
from podrail.attach.reading import Folded, Reading, octets
from podrail.attach.request import Request, plain_path
from podrail.attach.result import CniError, Code, Result, parse, wrong

SRIOV, IB_SRIOV, RDMA, PODRAIL = "sriov", "ib-sriov", "rdma", "podrail"

_ETHERNET = frozenset(
    {"vlan", "vlanQoS", "vlanProto", "mac", "min_tx_rate", "max_tx_rate", "spoofchk", "trust",
     "link_state", "logLevel", "logFile"}
)  # fmt: skip
_INFINIBAND = frozenset(
    {"guid", "pkey", "link_state", "rdmaIsolation", "ibKubernetesEnabled", "vfioPciMode"}
)
KEYS: Mapping[str, frozenset[str]] = {
    SRIOV: _ETHERNET, IB_SRIOV: _INFINIBAND, RDMA: frozenset(),
    PODRAIL: _ETHERNET | _INFINIBAND | {"mtu"},
}  # fmt: skip
"""The keys each type acts on, besides those of every CNI plugin and the device's."""
_COMMON = frozenset(
    {"cniVersion", "cniVersions", "name", "type", "args", "capabilities", "ipam", "ipMasq", "dns",
     "prevResult", "runtimeConfig", "disableCheck", "disableGC", "deviceID", "pciBusID",
     "cni.dev/valid-attachments", "cni.dev/attachments"}
)  # fmt: skip
_BANDWIDTH = ("ingressRate", "ingressBurst", "egressRate", "egressBurst")
_LEVELS = ("panic", "error", "warning", "info", "debug")

# A domain has four digits or more: Linux drivers/pci/probe.c:pci_setup_device, "%04x:%02x:%02x.%d".
_PCI = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]")
_PKEY = re.compile(r"0x[0-9a-f]{1,4}")
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
_MTU = (68, 65535)
_RATE_MAX = 2**31 - 1
# Where Multus puts it. A NAD's author is not root, and may write `runtimeConfig` too.
_DEVINFO = ("/var/run/k8s.cni.cncf.io/devinfo/", "/run/k8s.cni.cncf.io/devinfo/")
_NO_DEVICE = (
    "the PCI address of a VF: the NAD needs the annotation k8s.v1.cni.cncf.io/resourceName, and "
    "the pod that resource"
)
_IB_READY = ("mellanox.infiniband.app", "configured")


def load(request: Request) -> RailConf:
    """What the request asks for; CniError 7 names everything that is wrong with it.

    DEL and GC do without what is wrong: the ADD was refused for it, and a DEL that failed for the
    same reason would never end.
    """
    reader = _Reader(request)
    conf = reader.read()
    if reader.problems and request.command not in (cni.DEL, cni.GC):
        raise _together(reader.problems)
    return conf


def _together(problems: list[CniError]) -> CniError:
    first, *more = problems
    return CniError(first.code, first.msg, "; ".join(one.msg for one in more))


def attachments(request: Request) -> frozenset[Attachment]:
    """What a GC is to leave alone (CNI spec 1.1, GC). Unreadable is an error: all would go."""
    # libcni writes both names, since the spec once had the second.
    found = request.config.get(
        "cni.dev/valid-attachments", request.config.get("cni.dev/attachments")
    )
    where = "cni.dev/valid-attachments"
    if not isinstance(found, list):
        raise wrong(where, found, "a list")
    return frozenset(_attachment(one, f"{where}[{at}]") for at, one in enumerate(found))


def _attachment(one: object, where: str) -> Attachment:
    ids = [one.get(key) for key in ("containerID", "ifname")] if isinstance(one, dict) else [None]
    if not all(isinstance(found, str) and found for found in ids):
        raise wrong(where, one, "containerID and ifname")
    return Attachment(*(str(found) for found in ids))


class _Reader(Reading):
    """Reads one configuration into a RailConf."""

    def __init__(self, request: Request) -> None:
        super().__init__(request.config, _COMMON)
        self._request = request
        self._runtime = Folded(self.mapping(self.config, "runtimeConfig"))
        self._args = Folded(self.mapping(Folded(self.mapping(self.config, "args")), "cni"))
        self._env = Folded(request.args)
        self._type = self._plugin()
        self.own = KEYS[self._type]

    def read(self) -> RailConf:
        prev = self.attempt(self._prev)
        vlan, qos, proto = self._vlan()
        lowest, highest = self._rates()
        return RailConf(
            type=self._type, name=self._request.network, device=self._device(prev),
            vlan=vlan, vlan_qos=qos, vlan_proto=proto, mac=self._mac(),
            min_tx_rate=lowest, max_tx_rate=highest,
            spoofchk=self.switch("spoofchk"), trust=self.switch("trust"),
            link_state=self.one_of("link_state", ("auto", "enable", "disable")),
            mtu=self.number("mtu", *_MTU), guid=self._guid(), pkey=self._pkey(),
            rdma_isolation=self.flag("rdmaIsolation"), ib_kubernetes=self._ib_kubernetes(),
            vfio=self.flag("vfioPciMode"), rdma_name=self._rdma_name(), ips=self._ips(),
            device_info=self._device_info(), bandwidth=self._bandwidth(), ipam=self._ipam(),
            prev=prev, log_level=self._level(), log_file=self.text("logFile"),
            ignored=self._ignored(), problems=tuple(one.msg for one in self.problems),
        )  # fmt: skip

    def _plugin(self) -> str:
        found = self.config.get("type")
        if isinstance(found, str) and found in KEYS:
            return found
        self.wrong("type", found, ", ".join(KEYS))
        return PODRAIL

    def _vlan(self) -> tuple[int | None, int, str]:
        vlan, qos = self.number("vlan", 0, 4094), self.number("vlanQoS", 0, 7)
        proto = self.text("vlanProto")
        if proto is not None and proto.lower() not in ("802.1q", "802.1ad"):
            self.wrong("vlanProto", proto, "802.1q or 802.1ad")
            proto = None
        self._needs_vlan("vlanQoS", vlan, qos is not None, bool(qos))
        self._needs_vlan("vlanProto", vlan, proto is not None, (proto or "").lower() == "802.1ad")
        return vlan, qos or 0, (proto or "802.1q").lower()

    def _needs_vlan(self, key: str, vlan: int | None, given: bool, acts: bool) -> None:
        """Upstream wants a vlan beside the key, and one other than 0 where the key does something
        (sriov-cni pkg/config). The operator writes both as 0 where neither is meant."""
        if given and self.get("vlan") is None:
            self.wrong(key, self.get(key), "vlan beside it")
        elif acts and vlan == 0:
            self.wrong(key, self.get(key), "a vlan from 1 to 4094 beside it")

    def _rates(self) -> tuple[int | None, int | None]:
        low, high = (self.number(key, 0, _RATE_MAX) for key in ("min_tx_rate", "max_tx_rate"))
        if low and high and low > high:  # 0 is no limit
            self.wrong("min_tx_rate", low, f"at most max_tx_rate, which is {high}")
        return low, high

    def _mac(self) -> str | None:
        if "mac" not in self.own:
            return None
        found = self.given(
            ("runtimeConfig.mac", self._runtime.get("mac")), ("CNI_ARGS MAC", self._env.get("MAC")),
            ("mac", self.get("mac")),
        )  # fmt: skip
        return self._octets(found, 6, _bad_mac, "a unicast MAC such as 02:00:00:00:00:01")

    def _guid(self) -> str | None:
        if "guid" not in self.own:
            return None
        found = self.given(
            ("runtimeConfig.infinibandGUID", self._runtime.get("infinibandGUID")),
            ("args.cni.guid", self._args.get("guid")), ("CNI_ARGS guid", self._env.get("guid")),
            ("guid", self.get("guid")),
        )  # fmt: skip
        return self._octets(found, 8, _bad_guid, "eight octets such as 02:00:00:00:00:00:00:01")

    def _octets(
        self, found: list[tuple[str, str]], count: int, bad: Callable[[bytes], bool], wanted: str
    ) -> str | None:
        """The first of those given, which must be good; those after it do not count."""
        if not found:
            return None
        text = octets(found[0][1], count)
        if text is None or bad(bytes.fromhex(text.replace(":", ""))):
            self.wrong(*found[0], wanted)
            return None
        return text

    def _pkey(self) -> int | None:
        found = self.text("pkey")
        if found is None:
            return None
        # The highest bit is the membership; a key of 0 is invalid (IBA 10.9.2).
        if _PKEY.fullmatch(found.lower()) and int(found, 16) & 0x7FFF:
            return int(found, 16)
        self.wrong("pkey", found, "0x0001 to 0xffff")
        return None

    def _ib_kubernetes(self) -> bool:
        enabled = self.flag("ibKubernetesEnabled")
        key, wanted = _IB_READY
        found = self._args.get(key)
        if enabled and self._request.command == cni.ADD and found != wanted:
            self.problems.append(
                CniError(
                    Code.TRY_AGAIN_LATER,
                    f"args.cni {key!r} is not yet {wanted!r}: ib-kubernetes has not given this pod "
                    "its GUID; see the log of ib-kubernetes",
                )
            )
        return enabled

    def _rdma_name(self) -> str | None:
        if self._type not in (RDMA, PODRAIL):
            return None
        where = "args.cni.rdmaDeviceName"
        found = self.typed(self._args.get("rdmaDeviceName"), where, str, "a string")
        if not found or _PLAIN.fullmatch(found):
            return found or None
        self.wrong(where, found, "a device name of at most 63 letters, digits, `.`, `_`, `-`")
        return None

    def _device(self, prev: Result | None) -> str | None:
        given = [self._address(*one) for one in self._named()]
        devices = list(dict.fromkeys(filter(None, given))) or _of_interface(prev, self._request)
        if len(devices) > 1:
            self.wrong("deviceID", ", ".join(devices), "one device")
        if not given and not devices and self._must_name():
            self.wrong("deviceID", None, _NO_DEVICE)
        return devices[0] if len(devices) == 1 else None

    def _named(self) -> list[tuple[str, str]]:
        return self.given(
            ("deviceID", self.config.get("deviceID")),
            ("pciBusID", self.config.get("pciBusID")),
            ("runtimeConfig.deviceID", self._runtime.get("deviceID")),
            ("CNI_ARGS deviceID", self._env.get("deviceID")),
        )

    def _address(self, where: str, found: str) -> str | None:
        if _PCI.fullmatch(found.lower()):
            return found.lower()
        self.wrong(where, found, "a PCI address such as 0000:81:10.2")
        return None

    def _must_name(self) -> bool:
        return self._type != RDMA and self._request.command in (cni.ADD, cni.CHECK)

    def _ips(self) -> tuple[str, ...]:
        found = self.typed(self._runtime.get("ips"), "runtimeConfig.ips", list, "a list") or []
        return tuple(ip for at, one in enumerate(found) if (ip := self._ip(at, one)))

    def _ip(self, at: int, one: object) -> str | None:
        where, wanted = f"runtimeConfig.ips[{at}]", "an address such as 10.0.0.5/24"
        text = self.typed(one, where, str, wanted)
        try:
            if text is not None:
                ipaddress.ip_interface(text)
        except ValueError:
            self.wrong(where, text, wanted)
            return None
        return text

    def _device_info(self) -> str | None:
        where = "runtimeConfig.CNIDeviceInfoFile"
        found = self.typed(self._runtime.get("CNIDeviceInfoFile"), where, str, "a path")
        if not found or (plain_path(found) and found.startswith(_DEVINFO)):
            return found or None
        self.wrong(where, found, f"a file below {_DEVINFO[0]}")
        return None

    def _bandwidth(self) -> Bandwidth | None:
        found = self.mapping(self._runtime, "bandwidth")
        return (
            Bandwidth(*(self._bits(found.get(key), key) for key in _BANDWIDTH)) if found else None
        )

    def _bits(self, found: object, key: str) -> int | None:
        where, wanted = f"runtimeConfig.bandwidth.{key}", "a number from 0"
        number = self.typed(found, where, int, wanted)
        if number is not None and number < 0:
            self.wrong(where, number, wanted)
        return number

    def _ipam(self) -> Ipam:
        body = self.mapping(self.config, "ipam")
        kind = self.typed(Folded(body).get("type"), "ipam.type", str, "a string") or ""
        if kind == "dhcp" and self._type == IB_SRIOV:
            self.wrong("ipam.type", kind, "another type: ib-sriov has no dhcp")
        if kind and not _PLAIN.fullmatch(kind):
            self.wrong("ipam.type", kind, "the name of a plugin")
            return Ipam()
        return Ipam(kind, body)

    def _prev(self) -> Result | None:
        found = self.config.get("prevResult")
        if found is None and self._type == RDMA and self._request.command in (cni.ADD, cni.CHECK):
            raise wrong("prevResult", None, "a result: rdma stands after another plugin in a chain")
        return None if found is None else parse(found)

    def _level(self) -> str | None:
        found = self.text("logLevel")
        return found if found in _LEVELS else None

    def _ignored(self) -> tuple[str, ...]:
        known = {key.lower() for key in _COMMON | self.own}
        return tuple(sorted(key for key in self._request.config if key.lower() not in known))


def _bad_mac(mac: bytes) -> bool:
    """Linux include/linux/etherdevice.h:is_valid_ether_addr; a driver answers EINVAL."""
    return bool(mac[0] & 1) or not any(mac)


def _bad_guid(guid: bytes) -> bool:
    """What a VF without one has: all zeros, or all ones."""
    return set(guid) in ({0}, {255})


def _of_interface(prev: Result | None, request: Request) -> list[str]:
    """The device a plugin before us named for this interface (CNI 1.1)."""
    found = prev.interfaces if prev else ()
    return [
        one.pci_id.lower() for one in found
        if one.name == request.ifname and one.sandbox and _PCI.fullmatch(one.pci_id.lower())
    ]  # fmt: skip
