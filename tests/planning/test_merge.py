"""Merging policies: upstream's semantics, its defects mended."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podrail.model.inventory import Inventory, Node, Pf
from podrail.model.plan import NodePlan
from podrail.model.policy import PfName, Policy, VfRange, in_order, pf_name
from podrail.planning.merge import Wish, merge
from podrail.planning.planner import Planner

PF = Pf(
    pci="0000:3b:00.0", name="ens8f0", altnames=("enp59s0f0np0",), vendor="15b3", device="101d",
    totalvfs=64, numvfs=0, mtu=1500,
)  # fmt: skip


def wish(*given: Policy) -> Wish:
    """The merged wish, with ties computed as the planner does."""
    ordered = in_order(given)
    before = [None, *(p.priority for p in ordered)]
    merged = merge(PF, [(p, p.priority == b) for p, b in zip(ordered, before, strict=False)])
    assert merged is not None
    return merged


def policy(name: str, *, pf: str = "ens8f0", **more: object) -> Policy:
    entry = pf_name(pf)
    assert entry is not None
    values: dict[str, object] = {"resource": f"r_{name}", "num_vfs": 8, **more}
    return Policy(name=name, pf_names=(entry,), **values)  # type: ignore[arg-type]


def test_the_lowest_priority_number_wins() -> None:
    weak, strong = policy("a", priority=90, num_vfs=4), policy("b", priority=10, num_vfs=2)
    merged = wish(strong, weak)
    assert (merged.num_vfs.value, merged.num_vfs.set_by) == (2, "b")
    assert merged.num_vfs.overrode == ("a=4",)
    assert [g.resource for g in merged.groups] == ["r_b"]


def test_among_equals_the_alphabetically_last_wins_but_counts_take_the_maximum() -> None:
    merged = wish(
        policy("a", num_vfs=8, mtu=9000, link_type="eth"), policy("b", num_vfs=4, mtu=1500)
    )
    assert (merged.num_vfs.value, merged.num_vfs.set_by) == (8, "a")
    assert (merged.mtu.value, merged.mtu.set_by) == (9000, "a")
    assert merged.link_type.value is None, "the later policy's fields replace the earlier one's"
    assert merged.link_type.overrode == ("a=eth",)
    assert [g.policy for g in merged.groups] == ["b"]
    assert merged.groups[0].overrode == ("a",)


def test_disjoint_ranges_coexist_and_counts_take_the_maximum_across_priorities() -> None:
    merged = wish(
        policy("a", pf="ens8f0#0-3", num_vfs=8, priority=50),
        policy("b", pf="ens8f0#4-5", num_vfs=6, priority=10),
    )
    assert {(str(g.range), g.policy) for g in merged.groups} == {("0-3", "a"), ("4-5", "b")}
    assert (merged.num_vfs.value, merged.num_vfs.set_by) == (8, "a")


def test_same_resource_name_displaces_even_without_overlap() -> None:
    merged = wish(
        policy("a", pf="ens8f0#0-3", resource="same", priority=50),
        policy("b", pf="ens8f0#4-7", resource="same", priority=10),
    )
    assert [(g.policy, g.overrode) for g in merged.groups] == [("b", ("a",))]


def test_a_whole_pf_policy_overlaps_a_range() -> None:
    merged = wish(policy("a", pf="ens8f0#0-3", priority=50), policy("b", priority=10))
    assert [(str(g.range), g.overrode) for g in merged.groups] == [("0-7", ("a",))]


def test_a_range_on_an_altname_counts() -> None:
    assert str(wish(policy("a", pf="enp59s0f0np0#2-5")).groups[0].range) == "2-5"


def test_zero_vfs_wish_nothing() -> None:
    assert merge(PF, [(policy("a", num_vfs=0), False)]) is None


@pytest.mark.parametrize(
    "text", ["e#", "e#1", "e#1,2", "e#3-1", "e#a-b", "e#1-2#3-4", "e#-1-2", "e#0-3,5"]
)
def test_ranges_upstream_refuses(text: str) -> None:
    assert pf_name(text) is None


@given(st.integers(0, 500), st.integers(0, 500))
def test_range_text_and_back(first: int, length: int) -> None:
    made = VfRange(first, first + length)
    assert pf_name(f"ens1#{made}") == PfName("ens1", made)
    assert list(made) == list(range(first, first + length + 1))
    assert len(made) == length + 1


@given(st.data())
def test_overlap_is_a_shared_index(data: st.DataObject) -> None:
    pairs = st.tuples(st.integers(0, 20), st.integers(0, 20)).map(sorted)
    a, b = (VfRange(*data.draw(pairs)) for _ in range(2))
    assert a.overlaps(b) == b.overlaps(a) == bool(set(a) & set(b))


names = st.sampled_from([f"p{i}" for i in range(8)])


@st.composite
def some_policies(draw: st.DrawFn) -> list[Policy]:
    def one(name: str) -> Policy:
        first = draw(st.integers(0, 12))
        part = VfRange(first, draw(st.integers(first, 15)))
        return Policy(
            name=name,
            resource=draw(st.sampled_from(["r1", "r2", "r3"])),
            num_vfs=draw(st.integers(0, 16)),
            pf_names=(PfName("ens8f0", draw(st.sampled_from([None, part]))),),
            priority=draw(st.sampled_from([0, 10, 99])),
            mtu=draw(st.sampled_from([None, 1500, 9000])),
            link_type=draw(st.sampled_from([None, "eth"])),
        )

    return [one(name) for name in draw(st.lists(names, unique=True, min_size=1))]


def plan_of(policies: list[Policy]) -> NodePlan:
    return Planner(policies).node(Inventory(Node("n"), pfs=(PF,)))


@given(some_policies(), st.randoms(use_true_random=False))
def test_the_order_of_files_does_not_matter(policies: list[Policy], random: object) -> None:
    shuffled = list(policies)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert plan_of(shuffled).to_json() == plan_of(policies).to_json()


@given(some_policies())
def test_groups_never_overlap_and_names_are_unique(policies: list[Policy]) -> None:
    for pf in plan_of(policies).pfs:
        groups = pf.vf_groups
        assert len({g.resource for g in groups}) == len(groups)
        assert not any(a.range.overlaps(b.range) for a in groups for b in groups if a is not b)


@given(some_policies())
def test_the_strongest_policy_always_keeps_its_group(policies: list[Policy]) -> None:
    wanting = [p for p in in_order(policies) if p.num_vfs]
    if wanting:
        (pf,) = plan_of(policies).pfs
        assert wanting[-1].name in {g.policy for g in pf.vf_groups}


def upstream(policies: list[Policy]) -> tuple[int, int, list[tuple[str, str]]]:
    """Upstream's Apply and mergeConfigs, restated naively as an oracle."""
    state: tuple[int, int, list[tuple[str, VfRange]]] | None = None
    before = 100
    for p in sorted(policies, key=lambda p: (-p.priority, p.name)):
        equal, before = before == p.priority, p.priority
        if p.num_vfs == 0:
            continue
        part = p.pf_names[0].range or VfRange(0, p.num_vfs - 1)
        count, mtu, groups = p.num_vfs, p.mtu or 0, [(p.resource, part)]
        if state:
            kept = [g for g in state[2] if g[0] != p.resource and not g[1].overlaps(part)]
            groups += kept
            if equal or kept:
                count, mtu = max(count, state[0]), max(mtu, state[1])
        state = count, mtu, groups
    assert state
    return state[0], state[1], [(name, str(part)) for name, part in state[2]]


@given(some_policies())
def test_merge_agrees_with_upstream(policies: list[Policy]) -> None:
    if not any(p.num_vfs for p in policies):
        return
    merged = wish(*policies)
    found = (
        merged.num_vfs.value,
        merged.mtu.value or 0,
        [(g.resource, str(g.range)) for g in merged.groups],
    )
    assert found == upstream(policies)
