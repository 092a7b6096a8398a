"""One rail: a VF goes into a pod's namespace with its settings and addresses, and comes back.

What was found is written down first; whatever an ADD did is undone when a later step fails, and a
DEL brings the VF back also where the namespace is gone (the kernel then has returned the netdev).
"""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

from podrail.attach import netconf
from podrail.attach.ipam.addresses import Addresses
from podrail.attach.ipam.facts import facts_of
from podrail.attach.ipam.plan import forget_addresses, plan_addresses
from podrail.attach.kernel.message import VfWords
from podrail.attach.kernel.namespace import NotANamespace, opened
from podrail.attach.kernel.socket import RouteSocket
from podrail.attach.railconf import RailConf
from podrail.attach.request import Request
from podrail.attach.result import CniError, Code, Interface, Result, merge
from podrail.attach.store import ADDING, Attached, Attachments, Was
from podrail.host.seam import Host
from podrail.realise.functions import at, driver, netdev, settle, virtfns
from podrail.realise.kinds.driver import rebind
from podrail.realise.kinds.vf_settings import told


@dataclass(slots=True)
class Rails:
    """ADD, DEL and CHECK on this machine."""

    host: Host
    store: Attachments
    addresses: Addresses

    def add(self, request: Request) -> Result:
        """Give a pod its rail."""
        conf = netconf.load(request)
        assert conf.device is not None
        with _alone(conf.device), ExitStack() as undo, _explained(conf.device):
            self._sweep(conf.device, request)
            was = self._found(conf)
            one = _attached(request, conf.device, was)
            self.store.begin(one)
            undo.callback(self.store.forget, one.container, one.ifname)
            undo.callback(self._restore, one)
            result = self._addresses(request, undo)
            self._say(was, _words(conf, was.index), undo)
            whole = self._move(one, conf, result, undo)
            self.store.done(one.container, one.ifname)
            undo.pop_all()
        return whole

    def delete(self, request: Request) -> None:
        """Take it back; nothing to take back is good too."""
        forget_addresses(request.config.get("ipam"), facts_of(request), self.addresses)
        one = self.store.get(request.container_id, request.ifname)
        if one is not None:
            with _alone(one.pci), _explained(one.pci):
                self.bring_back(one)

    def check(self, request: Request) -> None:
        """Whether it is as the ADD left it; CniError says what is not."""
        one = self.store.get(request.container_id, request.ifname)
        if one is None:
            raise CniError(Code.UNKNOWN_CONTAINER, f"{request.ifname} was never attached here")
        with _explained(one.pci), opened(one.netns) as space, RouteSocket(space) as pod:
            link = pod.link(name=one.ifname)
            if not link.up:
                raise CniError(Code.IO_FAILURE, f"{one.ifname} is down, wanted up")

    def reconcile(self) -> list[Attached]:
        """What an ADD had begun when the service died is taken back."""
        begun = [one for one in self.store.all() if one.state == ADDING]
        for one in begun:
            with _alone(one.pci):
                self.bring_back(one)
        return begun

    # --- the parts ------------------------------------------------------------------------------

    def _sweep(self, pci: str, request: Request) -> None:
        """An attachment whose namespace is gone holds nothing: its DEL is late or lost."""
        stale = self.store.holding(pci) or self.store.get(request.container_id, request.ifname)
        if stale is not None and not _alive(stale.netns):
            self.bring_back(stale)

    def _found(self, conf: RailConf) -> Was:
        pci = str(conf.device)
        pf = _physfn(self.host, pci)
        index = next((i for i, vf in virtfns(self.host, pf).items() if vf == pci), None)
        name = netdev(self.host, pci)
        if index is None or name is None:
            raise _no_netdev(self.host, pci)
        with RouteSocket() as root:
            link = root.link(name=name)
        before = _told(self.host, pf, index) if _any(_words(conf, index)) else {}
        return Was(name, link.address, link.mtu, link.up, pf, index, before)

    def _addresses(self, request: Request, undo: ExitStack) -> Result:
        plan = plan_addresses(request.config.get("ipam"), facts_of(request))
        undo.callback(plan.remove, self.addresses)
        return plan.add(self.addresses)

    def _say(self, was: Was, words: VfWords, undo: ExitStack) -> None:
        """Through the PF, and back to what it had said."""
        if not _any(words):
            return
        undo.callback(self._unsay, was)
        with RouteSocket() as root:
            root.set_vf(root.link(name=_pf_name(self.host, was.pf)).index, words)

    def _unsay(self, was: Was) -> None:
        if was.vf:
            with RouteSocket() as root:
                pf = root.link(name=_pf_name(self.host, was.pf)).index
                root.set_vf(pf, VfWords(was.index, **was.vf))

    def _move(self, one: Attached, conf: RailConf, result: Result, undo: ExitStack) -> Result:
        with opened(one.netns) as space, RouteSocket() as root:
            index = root.link(name=one.was.name).index
            root.set_link(index, up=False)
            undo.callback(_leave, one)
            root.set_link(index, namespace=space, name=one.ifname)
            with RouteSocket(space) as pod:
                return _configure(pod, one, conf, result)

    def bring_back(self, one: Attached) -> None:
        """The VF as it was before, wherever it is now. Doing it again changes nothing."""
        _leave(one)
        self._unsay(one.was)
        self._restore(one)
        self.store.forget(one.container, one.ifname)

    def _restore(self, one: Attached) -> None:
        """After the PF took its word back: a VF may not leave a MAC its PF insists on, and where
        its driver has not heard of the new one it is bound again, which makes it ask."""
        if netdev(self.host, one.pci) is None:
            return  # its driver is gone, or it is on vfio-pci: there is no netdev to give back
        try:
            self._as_it_was(one)
        except OSError as no:
            if no.errno != errno.EADDRNOTAVAIL:
                raise
            rebind(self.host, one.pci)
            settle(self.host)
            self._as_it_was(one)

    def _as_it_was(self, one: Attached) -> None:
        with RouteSocket() as root:
            link = root.link(name=netdev(self.host, one.pci) or one.was.name)
            root.set_link(link.index, up=False)
            if one.was.name in link.altnames:  # udev's, which keeps the name from being given
                root.drop_altname(link.index, one.was.name)
            root.set_link(link.index, name=one.was.name, mtu=one.was.mtu)
            if link.address != one.was.mac:
                root.set_link(link.index, address=one.was.mac)
            if one.was.up:
                root.set_link(link.index, up=True)


# --- in the pod -----------------------------------------------------------------------------------


def _configure(pod: RouteSocket, one: Attached, conf: RailConf, result: Result) -> Result:
    index = pod.link(name=one.ifname).index
    pod.set_link(index, mtu=conf.mtu, address=conf.mac)
    pod.set_link(index, up=True)
    for address in result.ips:
        pod.add_address(index, ipaddress.ip_interface(address.address))
    for route in result.routes:
        pod.add_route(index, ipaddress.ip_network(route.dst, strict=False), route.gw or None)
    link = pod.link(index=index)
    interface = Interface(one.ifname, link.address, link.mtu, one.netns, pci_id=one.pci)
    ips = tuple(replace(address, interface=0) for address in result.ips)
    mine = replace(result, interfaces=(interface,), ips=ips)
    return merge(conf.prev, mine) if conf.prev else mine


def _leave(one: Attached) -> None:
    """Out of the pod under a name nobody else has there or here; a pod that is gone has let go."""
    with contextlib.suppress(FileNotFoundError, NotANamespace), opened(one.netns) as space:
        _take_out(space, one)


def _take_out(space: int, one: Attached) -> None:
    with RouteSocket(space) as pod, opened("/proc/self/ns/net") as home:
        try:
            link = pod.link(name=one.ifname)
        except OSError:
            return  # it never came, or somebody has taken it out already
        if link.parent and link.parent != one.pci:
            return  # the path leads to another pod by now, and this is that pod's own
        pod.set_link(link.index, up=False)
        pod.set_link(link.index, namespace=home, name=_passing(one.pci))


def _passing(pci: str) -> str:
    return f"pr{pci.replace(':', '').replace('.', '')}"[:15]


def _alive(netns: str) -> bool:
    try:
        with opened(netns):
            return True
    except OSError:
        return False


# --- on the machine -------------------------------------------------------------------------------


def _attached(request: Request, pci: str, was: Was) -> Attached:
    return Attached(
        request.container_id, request.ifname, pci, request.netns, ADDING, was, dict(request.config)
    )


def _physfn(host: Host, pci: str) -> str:
    try:
        return host.readlink(f"{at(pci)}/physfn").rpartition("/")[2]
    except OSError as no:
        raise CniError(
            Code.INVALID_CONFIG, f"deviceID {pci} is no virtual function of this machine",
            "the VF may have been made anew since it was handed out: podrail status",
        ) from no  # fmt: skip


def _no_netdev(host: Host, pci: str) -> CniError:
    bound = driver(host, pci)
    return CniError(
        Code.TRY_AGAIN_LATER,
        f"{pci} has no netdev here: its driver is {bound or 'none'}",
        "it may still be in another pod's namespace: podrail discover names its holder",
    )


def _pf_name(host: Host, pf: str) -> str:
    name = netdev(host, pf)
    if name is None:
        raise CniError(Code.TRY_AGAIN_LATER, f"the PF {pf} has no netdev here")
    return name


def _words(conf: RailConf, index: int) -> VfWords:
    return VfWords(
        index, conf.mac, conf.vlan, conf.vlan_qos, conf.vlan_proto, conf.spoofchk, conf.trust,
        conf.link_state, conf.min_tx_rate, conf.max_tx_rate, conf.guid,
    )  # fmt: skip


def _any(words: VfWords) -> bool:
    return replace(words, qos=0, proto="802.1q") != VfWords(words.index)


def _told(host: Host, pf: str, index: int) -> dict[str, Any]:
    """What the PF says of the VF now, in the words that set it."""
    info = told(host, pf).get(index)
    if info is None:
        return {}
    said = {
        "mac": info.mac, "vlan": info.vlan, "qos": info.qos or 0,
        "proto": (info.vlan_proto or "802.1q").lower(), "spoofchk": info.spoofchk,
        "trust": info.trust, "min_rate": info.min_tx_rate, "max_rate": info.max_tx_rate,
    }  # fmt: skip
    return {key: value for key, value in said.items() if value is not None}


_LOCKS: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)


@contextlib.contextmanager
def _alone(pci: str) -> Iterator[None]:
    """One at a time on a VF; others go on side by side."""
    with _LOCKS[pci]:
        yield


@contextlib.contextmanager
def _explained(pci: str) -> Iterator[None]:
    try:
        yield
    except OSError as no:
        about = f"{no.filename}: " if no.filename else ""
        raise CniError(Code.IO_FAILURE, f"{pci}: {about}{no.strerror}") from no
