"""Sizing: pods × VFs with a buffer, against what the NICs and the pools have."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from podrail.planning.size import Ask, Pool, Port, size


def test_the_seeds_arithmetic() -> None:
    sizing = size(Ask(pods_per_node=8), [Port("ens8f0", 16)])
    assert (sizing.minimum, sizing.low, sizing.high) == (8, 9, 10)
    assert sizing.fits


def test_addresses_are_pfs_by_vfs_by_nodes() -> None:
    """Seed 003: 4 PFs × 8 VFs are 32 addresses per node, so 112 last for three nodes, not four."""
    ports = [Port(f"ib{i}", 16, num_vfs=8) for i in range(4)]
    pool = Pool("sriov-network-ib-test", 112)
    assert size(Ask(4, 4, nodes=3), ports, [pool]).fits
    four = size(Ask(4, 4, nodes=4), ports, [pool])
    assert four.addresses == 128
    assert not four.fits
    assert four.binding is not None
    assert (four.binding.what, four.binding.spare) == ("addresses of sriov-network-ib-test", -16)


def test_the_nic_binds_before_the_policy_is_asked() -> None:
    sizing = size(Ask(pods_per_node=20), [Port("a", 16)])
    assert sizing.binding is not None
    assert sizing.binding.spare == 16 - 24


@given(
    st.integers(0, 200), st.integers(1, 8), st.integers(1, 50), st.integers(0, 100),
    st.lists(st.integers(1, 128), max_size=8),
)  # fmt: skip
def test_wanted_covers_the_minimum_and_pfs_share_it(
    pods: int, vfs: int, nodes: int, buffer: int, totals: list[int]
) -> None:
    ports = [Port(f"p{i}", total) for i, total in enumerate(totals)]
    sizing = size(Ask(pods, vfs, nodes, buffer), ports)
    assert sizing.wanted >= sizing.minimum == pods * vfs
    assert sizing.addresses >= sizing.wanted * nodes
    if sizing.per_pf is not None:
        assert sizing.per_pf * len(ports) >= sizing.wanted
    assert sizing.fits == all(limit.have >= limit.need for limit in sizing.limits)
