"""When a program said nothing usable."""

from __future__ import annotations

from podrail.model.errors import Unmeasured


def nothing(program: str, text: str, wanted: str) -> Unmeasured:
    """What the program said instead of what was wanted."""
    said = text.strip().splitlines()[-1] if text.strip() else "nothing"
    return Unmeasured(f"{program} said {said!r}; wanted {wanted}. Is a subnet manager running?")
