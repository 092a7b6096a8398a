"""What many rules ask of a bundle is worked out once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from functools import wraps
from typing import TypeVar

from podrail.model.bundle import Bundle

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


def once(function: Callable[[Bundle], Iterable[T]]) -> Callable[[Bundle], tuple[T, ...]]:
    """Keep a function's answer with the bundle it was asked of."""

    @wraps(function)
    def kept(bundle: Bundle) -> tuple[T, ...]:
        if kept not in bundle.memo:
            bundle.memo[kept] = tuple(function(bundle))
        found: tuple[T, ...] = bundle.memo[kept]
        return found

    return kept


def once_for(function: Callable[[Bundle, K], T]) -> Callable[[Bundle, K], T]:
    """The same for a question about one thing of the bundle."""

    @wraps(function)
    def kept(bundle: Bundle, key: K) -> T:
        if (kept, key) not in bundle.memo:
            bundle.memo[kept, key] = function(bundle, key)
        found: T = bundle.memo[kept, key]
        return found

    return kept


def grouped(
    function: Callable[[Bundle], Iterable[tuple[K, T]]],
) -> Callable[[Bundle], dict[K, tuple[T, ...]]]:
    """An index: the values of each key, in the order given."""

    @wraps(function)
    def kept(bundle: Bundle) -> dict[K, tuple[T, ...]]:
        if kept not in bundle.memo:
            found: dict[K, list[T]] = {}
            for key, value in function(bundle):
                found.setdefault(key, []).append(value)
            bundle.memo[kept] = {key: tuple(values) for key, values in found.items()}
        index: dict[K, tuple[T, ...]] = bundle.memo[kept]
        return index

    return kept
