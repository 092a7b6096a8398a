"""The field's own kinds, in upstream's exact wire form, found by API group and kind."""

from __future__ import annotations

from functools import cache

from podrail.model.wire import Object


@cache
def registry() -> dict[tuple[str, str], type[Object]]:
    """(group, kind) → model."""
    from podrail.model.kinds import sriov

    return {("sriovnetwork.openshift.io", model.__name__): model for model in sriov.KINDS}


def model_of(api_version: str, kind: str) -> type[Object] | None:
    """The model of an object, or None for a kind podrail does not know."""
    group = api_version.rpartition("/")[0]
    return registry().get((group, kind))
