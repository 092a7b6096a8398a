"""Which of the free devices a container should get.

The kubelet tells ids and a count, nothing of the pod. So a request for several is spread over PFs
(each port has its own bandwidth) and over NUMA nodes, and from request to request the least used
node and PF come first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """Where a device is."""

    pf: str
    numa: int | None = None


def prefer(
    available: Iterable[str], must: Iterable[str], size: int, places: Mapping[str, Place]
) -> list[str]:
    """`size` of the available ids, those that must be in it first; fewer where there are fewer."""
    chosen = list(dict.fromkeys(must))
    free = sorted(set(available) - set(chosen))
    used_pf, used_numa = _used(places, {*chosen, *free})
    taken_pf = Counter(_at(places, id).pf for id in chosen)
    taken_numa = Counter(_at(places, id).numa for id in chosen)

    def cost(id: str) -> tuple[int, int, int, int, str]:
        at = _at(places, id)
        pf, numa = at.pf, at.numa
        return taken_pf[pf], taken_numa[numa], used_numa[numa], used_pf[pf], id

    while len(chosen) < size and free:
        best = min(free, key=cost)
        free.remove(best)
        chosen.append(best)
        taken_pf[_at(places, best).pf] += 1
        taken_numa[_at(places, best).numa] += 1
    return chosen


def _at(places: Mapping[str, Place], id: str) -> Place:
    return places.get(id, Place(id))


def _used(
    places: Mapping[str, Place], offered: set[str]
) -> tuple[Counter[str], Counter[int | None]]:
    """How many of a PF and of a NUMA node others have: what is not offered is taken."""
    gone = [place for id, place in places.items() if id not in offered]
    return Counter(place.pf for place in gone), Counter(place.numa for place in gone)
