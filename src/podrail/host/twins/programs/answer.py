"""How the programs of a twin answer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from podrail.host.seam import Ran


def said(argv: Sequence[str], text: str) -> Ran:
    """The program did what it was asked."""
    return Ran(tuple(argv), 0, text)


def refused(argv: Sequence[str], rc: int, message: str, stdout: str = "") -> Ran:
    """The program failed with a message."""
    return Ran(tuple(argv), rc, stdout, f"{message}\n" if message else "")


def not_modelled(argv: Sequence[str]) -> Ran:
    """A form of the program no twin knows; a twin says so rather than guess."""
    return refused(argv, 255, f"twin: {' '.join(argv)!r} is not modelled")


def compact(value: Any) -> str:
    """JSON as iproute2 prints it."""
    return json.dumps(value, separators=(",", ":"))
