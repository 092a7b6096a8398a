"""GUIDs of InfiniBand VFs, and node GUIDs of RoCE VFs: never zero, never twice the same."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podrail.host.twin import TwinHost
from podrail.inventory import discover
from podrail.model.errors import Refused
from podrail.model.inventory import Pf
from podrail.model.vf import Vf, VfTable
from podrail.realise.guids import FILE, derived, guids_for, parse, pools
from tests.realise.support import Bench, Cli, bench, good, policy, same, tree

PF, OWN = "0000:3c:00.0", "7c:8c:09:03:00:ae:4c:1c"
WISH = policy("rail", "ibp60s0", 3, linkType="ib", isRdma=True)
ZERO = "00:00:00:00:00:00:00:00"


def port_guids(host: TwinHost) -> list[str]:
    """What the RDMA device of each VF shows."""
    return [
        host.read(f"{vf.path}/infiniband/{vf.rdma}/ports/1/gids/0").strip()[-19:]
        for vf in host.functions[PF].vfs
    ]


def set_guids(host: TwinHost) -> list[str]:
    settings = host.functions[PF].settings
    assert [s.node_guid for s in settings] == [s.port_guid for s in settings]
    return [s.port_guid for s in settings]


# --- derived ----------------------------------------------------------------------------------

_cards = st.lists(
    st.tuples(st.integers(0, 0xFFFFFF), st.integers(0, 0xFFFFFF)), min_size=16, max_size=16,
    unique=True,
)  # fmt: skip


@given(_cards)
def test_derived_guids_differ_over_16_pfs_of_128_vfs(cards: list[tuple[int, int]]) -> None:
    """A card's GUID is its MAC with 03:00 in the middle; 16 cards have 16 MACs."""
    own = [
        (oui.to_bytes(3, "big") + b"\x03\x00" + nic.to_bytes(3, "big")).hex(":")
        for oui, nic in cards
    ]
    made = [derived(guid, index) for guid in own for index in range(128)]
    assert len({*made, *own}) == 16 * 129
    assert all(guid.strip("0:") for guid in made)


@given(st.integers(0, 2**64 - 1), st.integers(0, 254))
def test_a_derived_guid_is_stable_and_local(number: int, index: int) -> None:
    own = number.to_bytes(8, "big").hex(":")
    guid = derived(own, index)
    assert guid == derived(own, index)
    assert len(guid) == 23
    assert (int(guid[:2], 16) ^ int(own[:2], 16)) == 0x02
    assert guid[2:8] + guid[14:] == own[2:8] + own[14:]


def test_derived_guids_reach_the_vfs(tmp_path: Path) -> None:
    one = bench("ib-cx7", tmp_path)
    good(one.apply(WISH))
    wanted = [derived(OWN, index) for index in range(3)]
    assert set_guids(one.host) == wanted
    assert [g.replace(":", "") for g in port_guids(one.host)] == [
        g.replace(":", "") for g in wanted
    ]
    states = [s.state for s in one.host.functions[PF].settings]
    assert states == ["auto"] * 3


def test_the_ports_of_a_machine_share_none(tmp_path: Path) -> None:
    one = bench("ib-cx7", tmp_path)
    names = [pf.name for pf in discover(one.host).pfs if pf.link_type == "ib"]
    assert len(names) == 6
    good(one.apply(*(policy(f"p{i}", name, 16) for i, name in enumerate(names))))
    found = [s.port_guid for f in one.host.functions.values() for s in f.settings]
    assert len(found) == len(set(found)) == 96


# --- from the file ----------------------------------------------------------------------------

A, B, C = (f"02:00:00:00:00:00:00:0{digit}" for digit in "abc")
FILES = [
    pytest.param({"pciAddress": PF, "guids": [A, B, C]}, [A, B, C], id="list"),
    pytest.param({"pci_address": PF, "guids": [A, B, C]}, [A, B, C], id="list-snake"),
    pytest.param({"pfGuid": OWN, "guids": [C, B, A]}, [C, B, A], id="by-guid"),
    pytest.param({"pf_guid": OWN.upper(), "guids": [C, B, A]}, [C, B, A], id="by-guid-snake"),
    pytest.param(
        {"pciAddress": PF, "guidsRange": {"start": A, "end": C}}, [A, B, C], id="range"
    ),
    pytest.param(
        {"pci_address": PF, "guids_range": {"start": A, "end": C}}, [A, B, C], id="range-snake"
    ),
    pytest.param({"pciAddress": PF, "rangeStart": A, "rangeEnd": C}, [A, B, C], id="range-flat"),
]  # fmt: skip


@pytest.mark.parametrize(("entry", "wanted"), FILES)
def test_a_static_file_is_followed(tmp_path: Path, entry: Any, wanted: list[str]) -> None:
    one = bench("ib-cx7", tmp_path)
    one.host.put(FILE, json.dumps([entry]))
    good(one.apply(WISH))
    assert set_guids(one.host) == wanted
    good(one.reset())


def test_the_file_counts_more_than_what_a_vf_has(tmp_path: Path) -> None:
    one = bench("ib-cx7", tmp_path)
    good(one.apply(WISH))
    one.host.put(FILE, json.dumps([{"pciAddress": PF, "guids": [A, B, C]}]))
    good(one.apply(WISH))
    assert set_guids(one.host) == [A, B, C]


def test_of_two_entries_the_last_counts(tmp_path: Path) -> None:
    one = bench("ib-cx7", tmp_path)
    entries = [{"pciAddress": PF, "guids": [C, B, A]}, {"pciAddress": PF, "guids": [A, B, C]}]
    one.host.put(FILE, json.dumps(entries))
    good(one.apply(WISH))
    assert set_guids(one.host) == [A, B, C]


def test_too_few_guids_are_refused(tmp_path: Path) -> None:
    cli = Cli(Bench(bench("ib-cx7", tmp_path).host, tmp_path).host, tmp_path)
    assert isinstance(cli.host, TwinHost)
    cli.host.put(FILE, json.dumps([{"pciAddress": PF, "guids": [A, B]}]))
    before = tree(cli.host)
    result = cli.apply(WISH)
    assert result.exit_code == 5
    assert "has 2 GUIDs for ibp60s0, wanted 3" in result.output
    assert "add GUIDs, or ask for fewer VFs" in result.output
    same(before, tree(cli.host))


def test_too_few_guids_for_one_pf_hold_no_other(tmp_path: Path) -> None:
    one = bench("ib-cx7", tmp_path)
    one.host.put(FILE, json.dumps([{"pciAddress": PF, "guids": [A, B]}]))
    good(one.apply(WISH, policy("other", "ibp94s0", 2), partial=True))
    assert one.refused() == [f"{FILE} has 2 GUIDs for ibp60s0, wanted 3"]
    assert len(one.host.functions["0000:5e:00.0"].vfs) == 2
    assert not one.host.functions[PF].vfs


@pytest.mark.parametrize(
    "text",
    ["", "{}x", '{"a": 1}', "[1]", '[{"guids": []}]', '[{"pciAddress": "x", "guids": ["zz"]}]',
     f'[{{"pciAddress": "x", "guids": ["{ZERO}"]}}]', '[{"pciAddress": "x"}]',
     f'[{{"pciAddress": "x", "guidsRange": {{"start": "{C}", "end": "{A}"}}}}]'],
)  # fmt: skip
def test_a_file_that_cannot_be_used_says_so(text: str) -> None:
    with pytest.raises(Refused, match=f"{FILE} cannot be used"):
        parse(text)


def test_no_file_is_no_pool(tmp_path: Path) -> None:
    assert pools(bench("ib-cx7", tmp_path).host) == ()


# --- mending ----------------------------------------------------------------------------------


def test_zero_guids_are_mended_and_others_kept(tmp_path: Path) -> None:
    one = bench("ib-cx7", tmp_path)
    one.host.write(f"/sys/bus/pci/devices/{PF}/sriov_numvfs", "3")
    for which in ("node", "port"):
        one.host.run(["ip", "link", "set", "ibp60s0", "vf", "1", f"{which}_guid", A])
    assert [s.port_guid for s in one.host.functions[PF].settings] == [ZERO, A, ZERO]
    good(one.apply(WISH))
    assert set_guids(one.host) == [derived(OWN, 0), A, derived(OWN, 2)]
    assert port_guids(one.host)[0] != port_guids(one.host)[2]
    assert all(guid.strip("0:") for guid in port_guids(one.host))


def test_a_port_guid_alone_is_not_enough(tmp_path: Path) -> None:
    one = bench("ib-cx7", tmp_path)
    one.host.write(f"/sys/bus/pci/devices/{PF}/sriov_numvfs", "1")
    one.host.run(["ip", "link", "set", "ibp60s0", "vf", "0", "port_guid", A])
    good(one.apply(policy("rail", "ibp60s0", 1)))
    assert [g.strip("0:") != "" for g in set_guids(one.host)] == [True]


def _node_guids(host: TwinHost, pf: str) -> list[str]:
    return [
        host.read(f"{vf.path}/infiniband/{vf.rdma}/node_guid").strip()
        for vf in host.functions[pf].vfs
    ]


def test_a_roce_vf_with_a_zero_node_guid_is_mended(tmp_path: Path) -> None:
    """The twin gives a node GUID at every probe, so a zero one is put there by hand."""
    one, wish = bench("roce-cx6", tmp_path), policy("p", "ens8f0", 3, isRdma=True)
    pf = "0000:9c:00.0"
    good(one.apply(wish))
    vf = one.host.functions[pf].vfs[1]
    one.host.put(f"{vf.path}/infiniband/{vf.rdma}/node_guid", "0000:0000:0000:0000\n")
    (outcome,) = one.apply(wish)
    assert (outcome.state, len(outcome.changed)) == ("done", 1)
    assert all(guid.strip("0:") for guid in _node_guids(one.host, pf))


def test_a_node_guid_that_stays_zero_is_said(tmp_path: Path, monkeypatch: Any) -> None:
    from podrail.host.twins import verbs

    monkeypatch.setattr(verbs, "eui64_guid", lambda _: "0000:0000:0000:0000")
    one = bench("roce-cx6", tmp_path)
    before = tree(one.host)
    (outcome,) = one.apply(policy("p", "ens8f0", 3, isRdma=True))
    assert outcome.state == "undone"
    assert "node GUID" in outcome.reason
    same(before, tree(one.host))


# --- pure -------------------------------------------------------------------------------------


def test_without_a_guid_of_its_own_a_pf_keeps_what_there_is() -> None:
    vfs = VfTable([Vf(0, "0000:3c:00.1", guid=A), Vf(1, "0000:3c:00.2", guid=ZERO)])
    pf = Pf(PF, "ibp60s0", "15b3", "1021", link_type="ib", numvfs=2, vfs=vfs)
    assert guids_for(pf, 2, ()) == {"0": A}
    assert guids_for(replace(pf, vfs=VfTable()), 2, ()) == {}
