"""Which VF device id belongs to which PF, and what the cards are called.

Sources: the PCI ID database, and the `supported-nic-ids` list of the upstream operator. 15b3:101e
is only ever a virtual function, shared by several generations.
"""

from __future__ import annotations

MELLANOX, INTEL, NVIDIA = "15b3", "8086", "10de"

VF_OF_PF: dict[tuple[str, str], str] = {
    (MELLANOX, "1013"): "1014",
    (MELLANOX, "1015"): "1016",
    (MELLANOX, "1017"): "1018",
    (MELLANOX, "1019"): "101a",
    (MELLANOX, "101b"): "101c",
    (MELLANOX, "101d"): "101e",
    (MELLANOX, "101f"): "101e",
    (MELLANOX, "1021"): "101e",
    (MELLANOX, "1023"): "101e",
    (MELLANOX, "1025"): "101e",
    (MELLANOX, "a2d6"): "101e",
    (MELLANOX, "a2dc"): "101e",
    (INTEL, "10c9"): "10ca",
    (INTEL, "1572"): "154c",
    (INTEL, "158a"): "154c",
    (INTEL, "158b"): "154c",
    (INTEL, "1583"): "154c",
    (INTEL, "1592"): "1889",
    (INTEL, "1593"): "1889",
    (INTEL, "159b"): "1889",
}

NAMES: dict[tuple[str, str], str] = {
    (MELLANOX, "1013"): "ConnectX-4",
    (MELLANOX, "1015"): "ConnectX-4 Lx",
    (MELLANOX, "1017"): "ConnectX-5",
    (MELLANOX, "1019"): "ConnectX-5 Ex",
    (MELLANOX, "101b"): "ConnectX-6",
    (MELLANOX, "101d"): "ConnectX-6 Dx",
    (MELLANOX, "101f"): "ConnectX-6 Lx",
    (MELLANOX, "1021"): "ConnectX-7",
    (MELLANOX, "1023"): "ConnectX-8",
    (MELLANOX, "1025"): "ConnectX-9",
    (MELLANOX, "a2d6"): "BlueField-2",
    (MELLANOX, "a2dc"): "BlueField-3",
    (INTEL, "10c9"): "82576",
    (INTEL, "1572"): "X710",
    (INTEL, "158b"): "XXV710",
    (INTEL, "1592"): "E810-C",
    (INTEL, "1593"): "E810-C",
    (INTEL, "159b"): "E810-XXV",
}

VF_IDS: frozenset[tuple[str, str]] = frozenset((vendor, vf) for (vendor, _), vf in VF_OF_PF.items())


def pfs_of_vf(vendor: str, vf: str) -> list[str]:
    """The PF ids whose virtual functions carry this id."""
    return [pf for (maker, pf), made in VF_OF_PF.items() if (maker, made) == (vendor, vf)]


def name(vendor: str, device: str) -> str:
    """`ConnectX-7`, or the bare ids of a card not in the table."""
    return NAMES.get((vendor, device), f"{vendor}:{device}")
