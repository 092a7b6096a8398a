"""Which policies a node and a PF fall under, and why not under the others."""

from __future__ import annotations

from collections.abc import Mapping

from podrail.model.inventory import Pf
from podrail.model.policy import Policy


def selects_node(policy: Policy, labels: Mapping[str, str]) -> str | None:
    """None when the policy selects the node, else what is in the way."""
    if policy.unusable:
        return policy.unusable
    for key, wanted in policy.node_selector:
        found = labels.get(key)
        if found != wanted:
            has = f'{key}="{found}"' if found is not None else f"no label {key}"
            return f'nodeSelector wants {key}="{wanted}", the node has {has}'
    return None


def selects_pf(policy: Policy, pf: Pf) -> str | None:
    """None when the policy selects the PF, else what is in the way. Selectors are ANDed."""
    if policy.selects_no_nic:
        return "its nicSelector is empty and so matches nothing"
    if policy.net_filter:
        return "its netFilter matches only on OpenStack nodes"
    if policy.vendor and policy.vendor != pf.vendor:
        return f"vendor is {pf.vendor}, wanted {policy.vendor}"
    if policy.device and policy.device != pf.device:
        return f"device id is {pf.device}, wanted {policy.device}"
    if policy.root_devices and pf.pci not in policy.root_devices:
        return f"address is {pf.pci}, wanted {_any(policy.root_devices)}"
    if policy.pf_names and not any(_is_called(pf, n.name) for n in policy.pf_names):
        names = " or ".join((pf.name, *pf.altnames)) or "(no netdev)"
        return f"name is {names}, wanted {_any(tuple(n.name for n in policy.pf_names))}"
    return None


def _is_called(pf: Pf, name: str) -> bool:
    return name == pf.name or name in pf.altnames


def _any(wanted: tuple[str, ...]) -> str:
    unique = tuple(dict.fromkeys(wanted))
    return unique[0] if len(unique) == 1 else f"one of {', '.join(unique)}"
