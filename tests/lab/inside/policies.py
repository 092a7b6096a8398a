"""Policies as tests write them."""

from __future__ import annotations

import json
from typing import Any


def policy(name: str, count: int, *pfs: str, **spec: Any) -> str:
    """A SriovNetworkNodePolicy for PFs by name (`ens2`, `ens2#0-1`), as JSON, which is YAML."""
    return json.dumps(
        {
            "apiVersion": "sriovnetwork.openshift.io/v1",
            "kind": "SriovNetworkNodePolicy",
            "metadata": {"name": name, "namespace": "sriov-network-operator"},
            "spec": {
                "resourceName": name.replace("-", "_"),
                "nodeSelector": {},
                "numVfs": count,
                "nicSelector": {"pfNames": list(pfs)},
                **spec,
            },
        }
    )
