"""Reading a JSON object that anybody may have written: typed, keeping all that is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from podrail.attach.result import CniError, wrong

T = TypeVar("T")

_OCTETS = re.compile(r"[0-9a-f]{2}(?:([:-])[0-9a-f]{2})(?:\1[0-9a-f]{2})*")


class Folded:
    """An object whose keys are found in any case, the exact one first, as Go finds them."""

    def __init__(self, body: Mapping[str, Any]) -> None:
        self._body = body
        self._folded = {key.lower(): value for key, value in body.items()}

    def get(self, key: str) -> object:
        return self._body[key] if key in self._body else self._folded.get(key.lower())


class Reading:
    """Reads the keys in `own` of an object; any other is as if it were not there."""

    def __init__(self, body: Mapping[str, Any], own: frozenset[str]) -> None:
        self.problems: list[CniError] = []
        self.config = Folded(body)
        self.own = own

    def wrong(self, where: str, found: object, wanted: str) -> None:
        self.problems.append(wrong(where, found, wanted))

    def attempt(self, read: Callable[[], T]) -> T | None:
        try:
            return read()
        except CniError as no:
            self.problems.append(no)
            return None

    def typed(self, found: object, where: str, kind: type[T], wanted: str) -> T | None:
        """The value if it is of that type; a bool is not taken for a number."""
        if found is None:
            return None
        if isinstance(found, kind) and (kind is bool or not isinstance(found, bool)):
            return found
        self.wrong(where, found, wanted)
        return None

    def mapping(self, body: Folded, key: str) -> dict[str, Any]:
        return self.typed(body.get(key), key, dict, "an object") or {}

    def get(self, key: str) -> object:
        return self.config.get(key) if key in self.own else None

    def text(self, key: str) -> str | None:
        """None where it is empty, as upstream has it."""
        return self.typed(self.get(key), key, str, "a string") or None

    def flag(self, key: str) -> bool:
        return self.typed(self.get(key), key, bool, "true or false") or False

    def number(self, key: str, low: int, high: int) -> int | None:
        wanted = f"a number from {low} to {high}"
        found = self.typed(self.get(key), key, int, wanted)
        if found is None or low <= found <= high:
            return found
        self.wrong(key, found, wanted)
        return None

    def one_of(self, key: str, allowed: tuple[str, ...]) -> str | None:
        found = self.text(key)
        if found is None or found in allowed:
            return found
        self.wrong(key, found, " or ".join(allowed))
        return None

    def switch(self, key: str) -> bool | None:
        found = self.one_of(key, ("on", "off"))
        return None if found is None else found == "on"

    def given(self, *places: tuple[str, object]) -> list[tuple[str, str]]:
        """Those that are given, and where; each must be a string."""
        texts = ((where, self.typed(one, where, str, "a string")) for where, one in places)
        return [(where, text) for where, text in texts if text]


def octets(text: str, count: int) -> str | None:
    """So many octets with one separator, in the kernel's spelling."""
    low = text.lower()
    good = len(low) == 3 * count - 1 and _OCTETS.fullmatch(low)
    return low.replace("-", ":") if good else None
