from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from podrail.attach.ipam.blocks import nth_block

_NUMBER = st.integers(0, 60)


@given(_NUMBER, _NUMBER, st.integers(1, 9), st.integers(0, 12),
       st.lists(st.tuples(_NUMBER, _NUMBER).map(sorted), max_size=4))  # fmt: skip
def test_as_counting_them_out(
    low: int, length: int, size: int, index: int, excluded: list[list[int]]
) -> None:
    high = low + length
    out = {n for a, b in excluded for n in range(a, b + 1)}
    starts = range(low, high - size + 2, size)
    left = [s for s in starts if not out.issuperset(range(s, s + size))]
    wanted = left[index] if index < len(left) else None
    assert nth_block(low, high, size, index, [(a, b) for a, b in excluded]) == wanted


def test_a_pool_of_2_to_the_64_blocks_takes_no_longer() -> None:
    assert nth_block(0, 2**128 - 1, 2**64, 2**63, [(0, 2**65)]) == (2**63 + 2) * 2**64
