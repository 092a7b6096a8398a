"""The named twins: models of the machines the seeds describe, and of the lab VM."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from podrail.model.errors import UsageError

if TYPE_CHECKING:
    from podrail.host.twin import TwinHost
    from podrail.host.twins.spec import Machine

_NAMES = ("cx6-ib", "hgx-h100", "ib-cx7", "igb", "roce-cx6")


def names() -> tuple[str, ...]:
    """Every twin there is."""
    return _NAMES


def machine(name: str) -> Machine:
    """The specification of a twin."""
    if name not in _NAMES:
        import difflib

        near = difflib.get_close_matches(name, _NAMES, 1, 0.3)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise UsageError(f"there is no twin {name!r}; there are {', '.join(_NAMES)}.{hint}")
    module = importlib.import_module(f"{__name__}.{name.replace('-', '_')}")
    found: Machine = module.MACHINE
    return found


def twin(name: str) -> TwinHost:
    """A fresh twin."""
    wanted = machine(name)
    from podrail.host.twins.build import build

    return build(wanted, f"twin:{name}")
