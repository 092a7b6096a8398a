"""Equal blocks of a range of numbers, one for each node."""

from __future__ import annotations

from collections.abc import Iterable

from podrail.attach.ipam.spans import Span, joined


def nth_block(low: int, high: int, size: int, index: int, excluded: Iterable[Span]) -> int | None:
    """Where the block with that index starts; blocks of which nothing is left are not counted.

    None when the range ends before. Takes as long as there are exclusions, not blocks.
    """
    number = index
    for first, last in joined(excluded):
        begins = -((low - first) // size) if first > low else 0
        ends = (last + 1 - low) // size
        if begins > number:
            break
        number += max(0, ends - begins)
    start = low + number * size
    return start if start + size - 1 <= high else None
