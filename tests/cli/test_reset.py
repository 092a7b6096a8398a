"""`podrail reset`: as found, or a reason why not."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest

from podrail.host.twin import TwinHost
from podrail.host.twins import twin
from tests.cli.test_apply import OUTCOME, PF, examples
from tests.realise.support import Bench, Cli, Died, numvfs, policy, run_of, same, tree


@pytest.fixture
def host() -> TwinHost:
    return twin("igb")


@pytest.fixture
def igb(host: TwinHost, tmp_path: Path) -> Cli:
    return Cli(host, tmp_path)


def test_the_help_has_examples() -> None:
    assert examples("reset") == []


def test_nothing_was_done_so_nothing_comes_back(igb: Cli, host: TwinHost) -> None:
    before = tree(host)
    result = igb("reset")
    assert (result.exit_code, result.output) == (0, "nothing to give back\n")
    same(before, tree(host))


def test_everything_comes_back(igb: Cli, host: TwinHost) -> None:
    run_of(host, "ip", "link", "set", "enp67s0", "mtu", "2000")
    before = tree(host)
    igb.apply(policy("p", "ens2", 4, mtu=9000), policy("q", "enp67s0", 3, mtu=4000))
    igb.apply(policy("p", "ens2", 2, deviceType="vfio-pci"), policy("q", "enp67s0", 3, mtu=9000))
    result = igb("reset")
    assert result.exit_code == 0
    assert "2 of 2 given back" in result.output
    assert "ens2" in result.output
    same(before, tree(host))
    assert "nothing to give back" in igb("reset").output
    assert "nothing applied" in igb("status").output


def test_json_has_the_keys_of_its_schema(igb: Cli) -> None:
    igb.apply(policy("p", "ens2", 4))
    told = json.loads(igb("reset", "-o", "json").stdout)
    assert told["schema"] == "podrail/reset/1"
    assert told.keys() >= {"schema", "resumed", "outcomes"}
    (outcome,) = told["outcomes"]
    assert outcome.keys() >= OUTCOME
    assert (outcome["pci"], outcome["name"], outcome["state"]) == (PF, "ens2", "done")


def test_a_reset_that_fails_says_so_and_can_be_done_again(igb: Cli, host: TwinHost) -> None:
    before = tree(host)
    igb.apply(policy("p", "ens2", 4))
    path = f"{host.functions[PF].path}/sriov_numvfs"
    host.refusals[path] = errno.EIO
    refused = igb("reset")
    assert refused.exit_code == 5
    assert "does not answer" in refused.output
    assert "0 of 1 given back" in refused.output
    status = igb("status")
    assert (status.exit_code, "to give back" in status.output) == (1, True)
    host.refusals.clear()
    assert igb("reset").exit_code == 0
    same(before, tree(host))


def test_an_interrupted_apply_is_given_back_too(igb: Cli, host: TwinHost) -> None:
    before = tree(host)

    def die(point: str) -> None:
        if numvfs(host, PF) == 4:
            raise Died

    with pytest.raises(Died):
        Bench(host, igb.place, die).apply(policy("p", "ens2", 4, mtu=9000))
    assert numvfs(host, PF) == 4
    assert igb("reset").exit_code == 0
    same(before, tree(host))


def test_a_card_that_was_pulled_out_is_no_hindrance(igb: Cli, host: TwinHost) -> None:
    from podrail.host.twins import consequences

    igb.apply(policy("p", "ens2", 2), policy("q", "enp67s0", 2))
    consequences.change(host, f"/sys/bus/pci/devices/{PF}", None)
    result = igb("reset")
    assert result.exit_code == 0, result.output
    assert numvfs(host, "0000:43:00.0") == 0
