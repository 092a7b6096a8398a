"""One fault on a twin, as a fault file would bring it."""

from __future__ import annotations

import json

from podrail.host.faults import apply, parse
from podrail.host.twin import TwinHost


def fault(host: TwinHost, path: str, value: object) -> TwinHost:
    """The same host, changed."""
    apply(host, parse(json.dumps({"id": "f", "set": [{"path": path, "value": value}]}), "f"))
    return host
