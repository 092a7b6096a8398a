"""Several policies on one PF become one wish, with upstream's exact semantics.

Policies come weakest first. Each one overwrites the PF's fields; VF groups of earlier ones survive
when their resource name differs and their range does not overlap; numVfs and mtu become the larger
value only where a group survived or the two policies have equal priority.

Mended against upstream: a range on an altname counts (upstream compares `#a-b` with the first name
only and then gives the whole PF away), and a displaced group is reported instead of vanishing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from podrail.model.inventory import Pf
from podrail.model.plan import VfGroup
from podrail.model.policy import Policy, VfRange


@dataclass(frozen=True, slots=True)
class Value:
    """A value, the policy that set it, and the `policy=value` it won over."""

    value: str | int | None
    set_by: str
    overrode: tuple[str, ...] = ()

    def won_over(self, other: Value) -> Value:
        """This value after winning over an earlier one."""
        lost = other.overrode
        if other.value is not None and other.value != self.value:
            lost = (*lost, f"{other.set_by}={other.value}")
        return replace(self, overrode=(*lost, *self.overrode))


@dataclass(frozen=True, slots=True)
class Wish:
    """What all policies together want of one PF."""

    num_vfs: Value
    mtu: Value
    link_type: Value
    eswitch: Value
    external: bool
    groups: tuple[VfGroup, ...]


def merge(pf: Pf, chosen: Sequence[tuple[Policy, bool]]) -> Wish | None:
    """The wish of the policies that select a PF, weakest first; None when none wants VFs.

    The boolean says whether a policy's priority equals that of the policy applied before it.
    """
    wish: Wish | None = None
    for policy, equal in chosen:
        if policy.num_vfs:
            wish = _over(_alone(pf, policy), wish, equal)
    return wish


def vf_range(pf: Pf, policy: Policy) -> VfRange:
    """The VFs a policy names on a PF: `#a-b` of its name or an altname, else all."""
    for entry in policy.pf_names:
        if entry.range and (entry.name == pf.name or entry.name in pf.altnames):
            return entry.range
    return VfRange(0, policy.num_vfs - 1)


def _alone(pf: Pf, policy: Policy) -> Wish:
    def value(of: str | int | None) -> Value:
        return Value(of, policy.name)

    group = VfGroup(
        range=vf_range(pf, policy),
        resource=policy.resource,
        device_type=policy.device_type,
        rdma=policy.is_rdma,
        policy=policy.name,
        mtu=policy.mtu,
        vdpa=policy.vdpa,
    )
    return Wish(
        num_vfs=value(policy.num_vfs),
        mtu=value(policy.mtu),
        link_type=value(policy.link_type),
        eswitch=value(policy.eswitch),
        external=policy.external,
        groups=(group,),
    )


def _over(new: Wish, old: Wish | None, equal: bool) -> Wish:
    """`new` applied over `old`."""
    if old is None:
        return new
    group = new.groups[0]
    kept = tuple(g for g in old.groups if not _displaces(group, g))
    lost = tuple(g.policy for g in old.groups if _displaces(group, g))
    group = replace(group, overrode=lost)
    larger = equal or bool(kept)
    return Wish(
        num_vfs=_choose(new.num_vfs, old.num_vfs, larger),
        mtu=_choose(new.mtu, old.mtu, larger),
        link_type=new.link_type.won_over(old.link_type),
        eswitch=new.eswitch.won_over(old.eswitch),
        external=new.external,
        groups=(group, *kept),
    )


def _displaces(new: VfGroup, old: VfGroup) -> bool:
    return new.resource == old.resource or new.range.overlaps(old.range)


def _choose(new: Value, old: Value, larger: bool) -> Value:
    if larger and int(old.value or 0) > int(new.value or 0):
        return old.won_over(new)
    return new.won_over(old)
