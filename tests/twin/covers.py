"""Which behaviours of the twins a test proves."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T", bound=Callable[..., object])


def covers(*ids: str) -> Callable[[T], T]:
    """Mark a test with the ids of podrail.host.twins.behaviours it stands for."""

    def mark(test: T) -> T:
        test.__dict__["covers"] = ids
        return test

    return mark
