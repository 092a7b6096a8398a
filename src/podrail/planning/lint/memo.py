"""What many rules ask of a bundle is worked out once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import TypeVar

from podrail.model.bundle import Bundle

T = TypeVar("T")


def once(function: Callable[[Bundle], Iterable[T]]) -> Callable[[Bundle], tuple[T, ...]]:
    """Keep a function's answer with the bundle it was asked of."""

    @wraps(function)
    def kept(bundle: Bundle) -> tuple[T, ...]:
        if kept not in bundle.memo:
            bundle.memo[kept] = tuple(function(bundle))
        found: tuple[T, ...] = bundle.memo[kept]
        return found

    return kept
