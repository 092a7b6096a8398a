"""One step of every kind a host profile is made of, and the machine they are tried on."""

from __future__ import annotations

import json

import pytest

from podrail.host.open import open_host
from podrail.host.seam import exists
from podrail.host.twin import TwinHost
from podrail.host.twins import tuning
from podrail.realise import profile  # noqa: F401 (registers the kinds)
from podrail.realise.kinds.memlock import drop_in
from podrail.realise.step import MACHINE, Failed, Step, Value, kind_of

PF = "0000:9c:00.0"
NAME = "ens8f0"
CONFIG = f"/sys/bus/pci/devices/{PF}/config"
VIEW = "/sys/kernel/config/rdma_cm/mlx5_0"
GOVERNOR = "/sys/devices/system/cpu/cpufreq/policy{}/scaling_governor"

PFC_3 = {str(p): p == 3 for p in range(8)}
STEPS = [
    Step("pfc", PF, PFC_3),
    Step("dscp-map", PF, {"26": 3, "48": 6}),
    Step("ecn", PF, {"roce_np/3": False, "roce_rp/3": False}),
    Step("roce-tos", PF, {"view": True, "1": 106}),
    Step("rings", PF, {"rx": 8192, "tx": 4096}),
    Step("coalescing", PF, {"adaptiveRx": False, "rxUsecs": 16, "rxFrames": 64}),
    Step("pcie", PF, {"relaxedOrdering": False, "maxReadRequest": 1024}),
    Step("governor", MACHINE, "powersave"),
    Step("memlock", MACHINE, "infinity"),
]


def roce_cx6() -> TwinHost:
    """roce-cx6 under NVIDIA's own driver."""
    found = open_host("twin:roce-cx6")
    assert isinstance(found, TwinHost)
    tuning.show_ecn(found, NAME)
    return found


def told(host: TwinHost) -> dict[str, str]:
    """Everything of the machine that the kinds could touch, as other programs see it."""
    shown = {
        name: host.run([*argv, NAME]).stdout
        for name, argv in {
            "pfc": ("dcb", "-j", "pfc", "show", "dev"),
            "app": ("dcb", "-j", "app", "show", "dev"),
            "rings": ("ethtool", "-g"),
            "coalescing": ("ethtool", "-c"),
        }.items()
    }
    shown["config"] = host.read_bytes(CONFIG).hex()
    shown["governors"] = " ".join(host.text(GOVERNOR.format(p)) for p in (0, 1))
    shown["ecn"] = " ".join(
        host.text(f"/sys/class/net/{NAME}/ecn/{side}/enable/{p}")
        for side in ("roce_np", "roce_rp")
        for p in range(8)
    )
    shown["view"] = str(exists(host, VIEW))
    shown["drop-in"] = host.text(drop_in("kubelet"), "none")
    shown["limit"] = host.run(["systemctl", "show", "-p", "LimitMEMLOCK", "kubelet.service"]).stdout
    return shown


def done(host: TwinHost, step: Step) -> Value:
    """Do it as the engine does, and give what its undo needs, as the journal keeps it."""
    kind = kind_of(step)
    assert not kind.holds(host, step)
    was = json.loads(json.dumps(kind.found(host, step)))
    kind.do(host, step)
    return was


def refused(host: TwinHost, step: Step) -> Failed:
    """How the engine learns that it cannot be."""
    with pytest.raises(Failed) as no:
        done(host, step)
    assert no.value.fix
    return no.value
