"""How long a change takes.

VF creation is fitted to the times published for ConnectX-6 Lx (4 VFs 1.6 s, 8 2.6 s, 16 4.5 s,
125 65 s): each VF costs a little more than the one before. Drain and reboot are what operators
plan with.
"""

from __future__ import annotations

DRAIN_SECONDS = 90.0
"""The upstream operator's eviction timeout."""
REBOOT_SECONDS = 600.0
"""A GPU server's POST, memory training and boot."""
ADJUST_SECONDS = 1.0


def creation_seconds(vfs: int) -> float:
    """Writing `sriov_numvfs` and waiting until every VF has its driver."""
    return round(0.6 + 0.25 * vfs + 0.0022 * vfs * vfs, 1) if vfs else 0.0
