"""Fat trees in the words of ibsim: which port is cabled to which, and the net file that says so.

Rail-optimised: rail r of every host is plugged into leaf r of the host's pod, so two hosts of one
pod meet on any rail after one switch. The net file has the form ibnetdiscover writes and ibsim
reads; a cable's width and speed stand in its comment, where ibsim looks for them (sim_net.c,
parse_port_link_width_and_speed).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from podrail.model.errors import UsageError

SPEEDS = ("SDR", "DDR", "QDR", "FDR10", "FDR", "EDR", "HDR", "NDR")
"""ibsim 0.10 ends at HDR."""
WIDTHS = (1, 2, 4, 8, 12)

_CA_OUI, _SWITCH_OUI = 0x0C42A1, 0xB8599F
_CA_DEVICE, _SWITCH_DEVICE = 0x101B, 0xD2F0  # ConnectX-6 and Quantum, the HDR generation
_LEAF, _SPINE = 1, 2
_MAX_LIDS = 30_000  # ibsim's linear forwarding tables end at 30720

End = tuple[int, int]
"""A port in the subnet: the GUID iblinkinfo shows for it, and its number."""


@dataclass(frozen=True, slots=True)
class Cable:
    """One end of a cable, seen from the node that owns it."""

    port: int
    peer: str
    peer_port: int
    width: int = 4
    speed: str = "HDR"


@dataclass(frozen=True, slots=True)
class Node:
    """A switch or a host channel adapter."""

    name: str
    switch: bool
    guid: int
    description: str
    ports: int
    device: int
    cables: tuple[Cable, ...] = ()

    def port_guid(self, port: int) -> int:
        """All ports of a switch share its GUID; a channel adapter's follow its own."""
        return self.guid if self.switch else self.guid + port

    def cable(self, port: int) -> Cable | None:
        return next((cable for cable in self.cables if cable.port == port), None)


@dataclass(frozen=True, slots=True)
class Net:
    """Everything in one subnet, switches first."""

    nodes: tuple[Node, ...]
    _names: dict[str, Node] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_names", {node.name: node for node in self.nodes})

    def __getitem__(self, name: str) -> Node:
        return self._names[name]

    def __contains__(self, name: str) -> bool:
        return name in self._names

    @property
    def switches(self) -> tuple[Node, ...]:
        return tuple(node for node in self.nodes if node.switch)

    @property
    def adapters(self) -> tuple[Node, ...]:
        return tuple(node for node in self.nodes if not node.switch)

    def end(self, name: str, port: int) -> End:
        return self[name].port_guid(port), port

    def wiring(self) -> frozenset[frozenset[End]]:
        """Every cable as its two ends; what a discovery must find."""
        return frozenset(
            frozenset({self.end(node.name, c.port), self.end(c.peer, c.peer_port)})
            for node in self.nodes
            for c in node.cables
        )

    def reach(self, start: str, cut: Iterable[tuple[str, int]] = ()) -> frozenset[frozenset[End]]:
        """The cables in the part of the net that holds `start` once the `cut` ones are gone."""
        gone, seen, todo, found = set(cut), {start}, [start], set()
        while todo:
            node = self[todo.pop()]
            for c in node.cables:
                if {(node.name, c.port), (c.peer, c.peer_port)} & gone:
                    continue
                found.add(frozenset({self.end(node.name, c.port), self.end(c.peer, c.peer_port)}))
                if c.peer not in seen:
                    seen.add(c.peer)
                    todo.append(c.peer)
        return frozenset(found)


@dataclass(frozen=True, slots=True)
class FatTree:
    """What to build. Every count is checked against the switches' radix."""

    hosts: int = 2
    rails: int = 2
    leaves: int = 0
    """0: one leaf per rail, a single pod."""
    spines: int = 1
    uplinks: int = 1
    """Cables from each leaf to each spine."""
    radix: int = 40
    speed: str = "HDR"
    width: int = 4
    subnet: int = 0
    """Part of every GUID and of the subnet prefix, so that two fabrics never look alike."""

    def __post_init__(self) -> None:
        if not self.leaves:
            object.__setattr__(self, "leaves", self.rails)
        for wrong in _wrong(self):
            raise UsageError(wrong)

    @property
    def pods(self) -> int:
        return self.leaves // self.rails

    @property
    def hosts_per_pod(self) -> int:
        return -(-self.hosts // self.pods)

    @property
    def prefix(self) -> int:
        """The subnet prefix the subnet manager hands out; the default one for subnet 0."""
        return 0xFE80_0000_0000_0000 + self.subnet

    def net(self) -> Net:
        """The cabled tree."""
        leaves = (self._leaf(number) for number in range(self.leaves))
        spines = (self._spine(number) for number in range(self.spines))
        adapters = (self._adapter(h, r) for h in range(self.hosts) for r in range(self.rails))
        return Net((*leaves, *spines, *adapters))

    def _cable(self, port: int, peer: str, peer_port: int) -> Cable:
        return Cable(port, peer, peer_port, self.width, self.speed)

    def _uplink(self, spine: int, link: int) -> int:
        """Uplinks take a leaf's highest ports."""
        return self.radix - (self.spines - spine) * self.uplinks + link + 1

    def _leaf(self, number: int) -> Node:
        pod, rail = divmod(number, self.rails)
        first = pod * self.hosts_per_pod
        hosts = range(first, min(first + self.hosts_per_pod, self.hosts))
        down = [self._cable(h - first + 1, _adapter_name(h, rail), 1) for h in hosts]
        up = [
            self._cable(self._uplink(s, u), f"S-spine{s}", number * self.uplinks + u + 1)
            for s in range(self.spines)
            for u in range(self.uplinks)
        ]
        return self._switch("leaf", _LEAF, number, (*down, *up))

    def _spine(self, number: int) -> Node:
        down = [
            self._cable(leaf * self.uplinks + u + 1, f"S-leaf{leaf}", self._uplink(number, u))
            for leaf in range(self.leaves)
            for u in range(self.uplinks)
        ]
        return self._switch("spine", _SPINE, number, tuple(down))

    def _switch(self, word: str, level: int, number: int, cables: tuple[Cable, ...]) -> Node:
        guid = _SWITCH_OUI << 40 | self.subnet << 32 | level << 24 | number << 8
        name = f"{word}{number}"
        return Node(f"S-{name}", True, guid, name, self.radix, _SWITCH_DEVICE, cables)

    def _adapter(self, host: int, rail: int) -> Node:
        guid = _CA_OUI << 40 | self.subnet << 32 | (host + 1) << 16 | rail << 8
        pod, place = divmod(host, self.hosts_per_pod)
        cable = self._cable(1, f"S-leaf{pod * self.rails + rail}", place + 1)
        # A host's adapters describe themselves as `HOSTNAME DEVICE` (rdma-core's rdma-ndd).
        description = f"node{host + 1} mlx5_{rail}"
        return Node(_adapter_name(host, rail), False, guid, description, 1, _CA_DEVICE, (cable,))


def _adapter_name(host: int, rail: int) -> str:
    return f"H-node{host + 1}-rail{rail}"


def _wrong(tree: FatTree) -> Iterator[str]:
    for word, value, most in (
        ("hosts", tree.hosts, 65_534), ("rails", tree.rails, 255), ("leaves", tree.leaves, 65_535),
        ("uplinks", tree.uplinks, 254), ("radix", tree.radix, 254),
    ):  # fmt: skip
        if not 1 <= value <= most:
            yield f"{word} {value}: a fat tree has 1 to {most}"
    if not 0 <= tree.spines <= 65_535 or not 0 <= tree.subnet <= 255:
        yield f"spines {tree.spines}, subnet {tree.subnet}: wanted 0 to 65535 and 0 to 255"
    if tree.speed not in SPEEDS or tree.width not in WIDTHS:
        yield f"{tree.width}x{tree.speed} is no link: widths are {WIDTHS}, speeds {SPEEDS}"
    if tree.leaves % tree.rails:
        yield (
            f"leaves {tree.leaves}, rails {tree.rails}: every rail has a leaf of its own in each "
            f"pod; wanted a multiple of {tree.rails} leaves"
        )
    if tree.leaves > 1 and not tree.spines:
        yield f"leaves {tree.leaves} without a spine are not one subnet; add --spines 1"
    yield from _too_many(tree)


def _too_many(tree: FatTree) -> Iterator[str]:
    needs = tree.hosts_per_pod + tree.spines * tree.uplinks
    if needs > tree.radix:
        yield (
            f"a leaf needs {needs} ports ({tree.hosts_per_pod} hosts, {tree.spines * tree.uplinks} "
            f"uplinks) and has {tree.radix}; take more leaves, fewer hosts or fewer spines"
        )
    if tree.leaves * tree.uplinks > tree.radix:
        yield (
            f"a spine needs {tree.leaves * tree.uplinks} ports and has {tree.radix}; "
            "take fewer leaves or fewer uplinks"
        )
    lids = tree.hosts * tree.rails + tree.leaves + tree.spines
    if lids > _MAX_LIDS:
        yield f"{lids} ports need a LID; ibsim's forwarding tables hold {_MAX_LIDS}"


def degrade(net: Net, name: str, port: int, width: int, speed: str) -> Net:
    """The same net with one cable slower, at both of its ends."""
    cable = net[name].cable(port) if name in net else None
    if cable is None:
        raise UsageError(f"{name} port {port} has no cable to slow down")
    if width not in WIDTHS or speed not in SPEEDS:
        raise UsageError(f"{width}x{speed} is no link: widths are {WIDTHS}, speeds {SPEEDS}")
    ends = {(name, port), (cable.peer, cable.peer_port)}

    def slowed(node: Node) -> tuple[Cable, ...]:
        slow = {c: replace(c, width=width, speed=speed) for c in node.cables}
        return tuple(slow[c] if (node.name, c.port) in ends else c for c in node.cables)

    return Net(tuple(replace(node, cables=slowed(node)) for node in net.nodes))


# --- the net file -----------------------------------------------------------------------------


def render(net: Net) -> str:
    """The net file ibsim reads."""
    return "\n".join(line for node in net.nodes for line in _section(net, node))


def _section(net: Net, node: Node) -> Iterator[str]:
    yield "vendid=0x2c9"
    yield f"devid={node.device:#x}"
    yield f"sysimgguid={node.guid:#x}"
    if node.switch:
        yield f"switchguid={node.guid:#x}({node.guid:x})"
        said = f'"{node.description}" enhanced port 0 lid 0 lmc 0'
        yield f'Switch\t{node.ports} "{node.name}"\t\t# {said}'
    else:
        yield f"caguid={node.guid:#x}"
        yield f'Ca\t{node.ports} "{node.name}"\t\t# "{node.description}"'
    for cable in node.cables:
        yield _line(net, node, cable)
    yield ""


def _line(net: Net, node: Node, cable: Cable) -> str:
    peer = net[cable.peer]
    link = f'"{peer.description}" lid 0 {cable.width}x{cable.speed}'
    if not node.switch:
        mine = f"[{cable.port}]({node.port_guid(cable.port):x})"
        return f'{mine}\t"{peer.name}"[{cable.peer_port}]\t\t# lid 0 lmc 0 {link}'
    theirs = "" if peer.switch else f"({peer.port_guid(cable.peer_port):x})"
    return f'[{cable.port}]\t"{peer.name}"[{cable.peer_port}]{theirs}\t\t# {link}'


_HEAD = re.compile(r'(Switch|Ca)\t(\d+) "([^"]+)"\t\t# "([^"]*)"')
_CABLE = re.compile(r'\[(\d+)\](?:\(\w+\))?\t"([^"]+)"\[(\d+)\].* lid \d+ (\d+)x(\w+)$')


def parse(text: str) -> Net:
    """A net file back as the net it was rendered from."""
    return Net(tuple(_node(part) for part in text.split("\n\n") if part.strip()))


def _node(section: str) -> Node:
    lines = section.strip().splitlines()
    values = dict(line.split("=", 1) for line in lines if re.match(r"\w+=", line))
    head = next((found for line in lines if (found := _HEAD.match(line))), None)
    guid = values.get("switchguid", values.get("caguid", "")).partition("(")[0]
    if head is None or not guid:
        raise UsageError(f"no node with a GUID in this part of the net file: {lines[0]!r}")
    kind, ports, name, description = head.groups()
    cables = tuple(_parsed_cable(line) for line in lines if line.startswith("["))
    return Node(
        name, kind == "Switch", int(guid, 16), description, int(ports),
        int(values.get("devid", "0"), 16), cables,
    )  # fmt: skip


def _parsed_cable(line: str) -> Cable:
    found = _CABLE.match(line)
    if found is None:
        raise UsageError(f"not a cable of a net file: {line!r}")
    port, peer, peer_port, width, speed = found.groups()
    return Cable(int(port), peer, int(peer_port), int(width), speed)
