from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from podrail.attach.deviceplugin.prefer import Place, prefer


@st.composite
def requests(draw: st.DrawFn) -> tuple[dict[str, Place], list[str], list[str], int]:
    """Some PFs on some NUMA nodes with some VFs, a part of them free, a part of those a must."""
    numa = draw(st.lists(st.sampled_from([None, 0, 1]), min_size=1, max_size=5))
    places = {
        f"{pf}.{vf}": Place(str(pf), node)
        for pf, node in enumerate(numa)
        for vf in range(draw(st.integers(1, 5)))
    }
    free = draw(st.lists(st.sampled_from(sorted(places)), unique=True, min_size=1))
    must = draw(st.lists(st.sampled_from(free), unique=True, max_size=3))
    return places, free, must, draw(st.integers(len(must), len(free)))


@given(requests())
def test_the_answer_is_what_was_asked_for(
    request: tuple[dict[str, Place], list[str], list[str], int],
) -> None:
    places, free, must, size = request
    chosen = prefer(free, must, size, places)
    assert len(chosen) == len(set(chosen)) == size
    assert set(must) <= set(chosen) <= set(free)


@given(requests())
def test_it_is_spread_over_pfs(
    request: tuple[dict[str, Place], list[str], list[str], int],
) -> None:
    """No PF has two more than one that still has something to give, beyond what was a must."""
    places, free, must, size = request
    chosen = prefer(free, must, size, places)
    taken = Counter(places[id].pf for id in chosen)
    forced = Counter(places[id].pf for id in must)
    left = Counter(places[id].pf for id in set(free) - set(chosen))
    for pf in taken:
        for other in left:
            assert taken[pf] <= max(taken[other] + 1, forced[pf])


@given(st.integers(1, 4), st.integers(1, 6), st.integers(1, 4))
def test_nodes_fill_evenly(pfs_a_node: int, vfs: int, size: int) -> None:
    """Request after request on two equal nodes, no node gets more than one request ahead."""
    places = {
        f"{node}.{pf}.{vf:02}": Place(f"{node}.{pf}", node)
        for node in range(2)
        for pf in range(pfs_a_node)
        for vf in range(vfs)
    }
    free = sorted(places)
    used: Counter[int | None] = Counter()
    while len(free) >= size:
        chosen = prefer(free, [], size, places)
        mine = Counter(places[id].numa for id in chosen)
        assert abs(mine[0] - mine[1]) <= 1
        used.update(mine)
        free = [id for id in free if id not in chosen]
        assert abs(used[0] - used[1]) <= 1


@given(requests())
def test_the_order_of_the_question_does_not_matter(
    request: tuple[dict[str, Place], list[str], list[str], int],
) -> None:
    places, free, must, size = request
    assert prefer(free[::-1], must, size, places) == prefer(free, must, size, places)


def test_more_than_there_is_gives_all_there_is() -> None:
    assert prefer(["a", "b"], [], 5, {}) == ["a", "b"]
