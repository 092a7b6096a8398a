"""k8s.cni.cncf.io/v1: a network as Multus sees it."""

from __future__ import annotations

from typing import Any

from podrail.model.wire import Object, Wire


class NadSpec(Wire):
    config: str | None = None


class NetworkAttachmentDefinition(Object):
    spec: NadSpec | None = None
    status: Any = None


KINDS: tuple[type[Object], ...] = (NetworkAttachmentDefinition,)
