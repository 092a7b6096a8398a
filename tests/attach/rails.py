"""Configurations of rails, for tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from podrail.attach.netconf import load
from podrail.attach.railconf import RailConf
from podrail.attach.request import Request
from podrail.attach.result import CniError

VF = "0000:81:10.2"
MAC = "02:00:00:00:00:01"
GUID = "02:00:00:00:00:00:00:01"
DEVINFO = "/var/run/k8s.cni.cncf.io/devinfo/cni/net1-device.json"


def ask(
    kind: str = "podrail", command: str = "ADD", env: Mapping[str, str] | None = None,
    cni: Mapping[str, Any] | None = None, **keys: Any,
) -> Request:  # fmt: skip
    config = {"cniVersion": "1.1.0", "name": "rails", "type": kind, "deviceID": VF, **keys}
    config |= {"args": {"cni": cni}} if cni else {}
    config = {key: value for key, value in config.items() if value != "absent"}
    return Request(command, "c1", "/run/netns/a", "net1", env or {}, (), config, kind)


def one(key: str, value: Any) -> dict[str, Any]:
    return {key: value}


def conf(kind: str = "podrail", **keys: Any) -> RailConf:
    return load(ask(kind, **keys))


def refused(request: Request) -> CniError:
    with pytest.raises(CniError) as no:
        load(request)
    return no.value
