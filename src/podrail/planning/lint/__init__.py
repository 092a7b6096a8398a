"""What is wrong in manifests alone. Each rule blames only what it can prove without a machine."""

from __future__ import annotations

from podrail.model.bundle import Bundle
from podrail.model.finding import Finding, in_order
from podrail.planning.lint.registry import Rule, registered


def rules() -> tuple[Rule, ...]:
    """Every rule there is."""
    from podrail.planning.lint import (  # noqa: F401
        addressing,
        advertise,
        allocation,
        attachments,
        bundles,
        commands,
        drivers,
        gpus,
        mounts,
        nccl,
        networks,
        operators,
        plugins,
        podnetworks,
        podresources,
        pods,
        podsecurity,
        policies,
        profile,
        routing,
        selectors,
        sharing,
        sriov_operator,
        storage,
    )

    return registered()


def lint(bundle: Bundle) -> tuple[Finding, ...]:
    """Everything wrong in a bundle, in the order of its files and lines."""
    found = list(bundle.findings)
    for rule in rules():
        found.extend(rule.findings(bundle))
    return in_order(found)
