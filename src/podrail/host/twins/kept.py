"""What a machine keeps in its devices and no file shows: firmware settings, e-switch modes.

It is held in the twin's tree, where no machine has anything, so that the tree stays the whole
state of a twin.
"""

from __future__ import annotations

import json
from typing import Any

from podrail.host.twin import TwinHost

ROOT = "/.twin"


def _place(what: str, of: str) -> str:
    return f"{ROOT}/{what}/{of}"


def kept(host: TwinHost, what: str, of: str) -> dict[str, Any] | None:
    """What was kept, None where nothing was."""
    text = host.text(_place(what, of))
    found: dict[str, Any] | None = json.loads(text) if text else None
    return found


def keep(host: TwinHost, what: str, of: str, value: dict[str, Any]) -> None:
    host.put(_place(what, of), json.dumps(value))


def all_kept(host: TwinHost, what: str) -> tuple[str, ...]:
    """Of whom something is kept."""
    return tuple(sorted(host.names(f"{ROOT}/{what}")))
