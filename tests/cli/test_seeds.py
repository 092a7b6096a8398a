"""Each document's manifests, corrected, lint clean and plan on the machine it describes."""

from __future__ import annotations

import pytest

from podrail.cli.shared import read_manifests
from podrail.host.open import open_host
from podrail.inventory import discover
from podrail.model.bundle import read
from podrail.model.plan import Action
from podrail.planning.lint import lint
from podrail.planning.planner import Planner
from tests.conftest import ROOT


@pytest.mark.parametrize(
    ("example", "twin", "made"),
    [
        pytest.param("seed-000", "roce-cx6", {"ens8f0": 8}, id="000"),
        pytest.param("seed-001", "cx6-ib", {"ens3f0": 8}, id="001"),
        pytest.param("seed-002", "roce-cx6", {"ens8f0": 8}, id="002"),
        pytest.param(
            "seed-003", "ib-cx7",
            {"ibp60s0": 8, "ibp77s0": 8, "ibp188s0": 8, "ibp220s0": 8}, id="003",
        ),
        pytest.param("seed-004", "roce-cx6", {"ens8f0": 16}, id="004"),
    ],
)  # fmt: skip
def test_corrected_manifests_plan_on_their_machine(
    example: str, twin: str, made: dict[str, int]
) -> None:
    bundle = read(read_manifests([str(ROOT / "examples" / example)]))
    assert lint(bundle) == ()
    host = open_host(f"twin:{twin}")
    inventory = discover(host, host.labels)
    plan = Planner.of(bundle).plan([inventory])
    (node,) = plan.nodes
    assert not plan.refused, [pf.refused for pf in node.pfs]
    created = {
        pf.name: next(c.new for c in pf.changes if c.field == "numVfs")
        for pf in node.pfs
        if pf.action is Action.CREATE
    }
    assert created == made
