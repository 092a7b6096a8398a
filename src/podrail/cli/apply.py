"""`podrail apply`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import click

from podrail.cli.machine import (
    Machine,
    Teller,
    echo_outcomes,
    interruptible,
    machine,
    outcome_json,
    say_waiting,
    state_option,
)
from podrail.cli.plan import echo_diff
from podrail.cli.shared import (
    consent_options,
    counts,
    echo_findings,
    echo_json,
    host_options,
    manifest_option,
    output_option,
    prefix_option,
    read_manifests,
    say,
)
from podrail.model.bundle import Bundle
from podrail.model.errors import ManifestError
from podrail.model.kinds.sriov import SriovNetworkNodePolicy
from podrail.model.plan import Plan
from podrail.model.profile import profiles
from podrail.planning.show import show
from podrail.realise.apply import (
    Intent,
    intend,
    realise,
    refuse_beside_upstream,
    resume,
    writable,
)
from podrail.realise.asked import Asked, kept, wrong
from podrail.realise.engine import Outcome

SCHEMA = "podrail/apply/1"


@click.command()
@manifest_option()
@host_options(many=False)
@click.option("--dry-run", is_flag=True, help="Show what would be done, and do nothing.")
@click.option("--partial", is_flag=True, help="Do the PFs that can be done although others cannot.")
@click.option(
    "--force", is_flag=True,
    help="Touch VFs that are held, and a node that the upstream operator keeps.",
)  # fmt: skip
@consent_options
@state_option
@prefix_option
@output_option("json")
def command(
    paths: list[str], host: str, faults: list[str], labels: list[str], dry_run: bool,
    partial: bool, force: bool, allow_management: list[str], firmware: bool, place: str | None,
    root: str, resource_prefix: str | None, output: str,
) -> None:  # fmt: skip
    """Make it so: virtual functions as the manifests want them.

    Every step is written to a journal before it runs and has an undo; a PF that fails is put back
    as it was, and after a crash the next podrail goes on from the journal. What cannot be done is
    refused before anything is touched. `podrail reset` gives everything back as it was found.

    \b
    Example:
      sudo podrail apply -f policy.yaml
      podrail apply -f policy.yaml --host lab:node1
      podrail apply -f policy.yaml --host twin:roce-cx6 --dry-run
    """
    manifests = read_manifests(paths)
    if host.startswith("lab:"):
        from podrail.cli.inside import in_node

        sys.exit(in_node(host, "apply", _again(sys.argv), manifests))
    asked = Asked(
        tuple(manifests),
        management=frozenset(allow_management),
        prefix=resource_prefix or "",
        firmware=firmware,
    )
    bundle = _usable(asked)
    interruptible()
    with ExitStack() as stack:
        on = machine(stack, host, faults, labels, place, root, changes=not dry_run)
        asked = replace(asked, labels=tuple(on.labels.items()))
        sys.exit(_Apply(on, asked, bundle, force, partial, dry_run, output).run())


def _usable(asked: Asked) -> Bundle:
    """The objects; what is wrong in those that would be acted on stops it here."""
    bundle = asked.bundle()
    if not bundle.resources and not bundle.findings:
        raise ManifestError(f"no object in {asked.names}: nothing to apply")
    if found := wrong(bundle):
        echo_findings(found)
        raise ManifestError(f"{counts(found)}: nothing was touched")
    if not any(bundle.of(SriovNetworkNodePolicy)) and not profiles(bundle):
        raise ManifestError(
            "no SriovNetworkNodePolicy and no HostProfile in the manifests: nothing to apply. "
            "To give back what was applied before: podrail reset"
        )
    return bundle


class _Apply:
    def __init__(
        self, on: Machine, asked: Asked, bundle: Bundle, force: bool, partial: bool,
        dry_run: bool, output: str,
    ) -> None:  # fmt: skip
        self.on, self.asked, self.bundle = on, asked, bundle
        self.consent = replace(asked.consent, force=force)
        self.partial, self.dry_run, self.output = partial, dry_run, output

    def run(self) -> int:
        if self.dry_run:
            return self._end(self._intent(), [], [])
        refuse_beside_upstream(self.on.host, self.consent)
        with self.on.state.working(say_waiting):
            allowed = self.consent.management
            resumed = resume(self.on.host, self.on.state, allowed=allowed)
            intent = self._intent()
            if self._stops(intent):
                return self._end(intent, resumed, [])
            writable(self.on.host, intent.jobs)
            return self._end(intent, resumed, self._do(intent))

    def _stops(self, intent: Intent) -> bool:
        return _empties(intent) or (bool(intent.refusals) and not self.partial)

    def _intent(self) -> Intent:
        return intend(
            self.on.host, self.bundle, self.on.state.journal, self.on.labels, self.consent
        )

    def _do(self, intent: Intent) -> list[Outcome]:
        teller = Teller(_names(intent))
        journal = self.on.state.journal
        before = kept(journal)
        self.asked.keep(journal)
        try:
            return realise(self.on.host, self.on.state, intent, teller)
        except KeyboardInterrupt:
            before.keep(journal)  # an agent would otherwise do it after all
            click.echo("what was begun is put back as it was", err=True)
            raise
        finally:
            teller.done()

    def _end(self, intent: Intent, resumed: list[Outcome], outcomes: list[Outcome]) -> int:
        stopped = self._stops(intent)
        if self.output == "json":
            echo_json(_json(intent, resumed, outcomes))
        else:
            self._say(intent, resumed, outcomes, stopped)
        unfinished = any(o.state in ("open", "failed") for o in resumed)
        bad = stopped or intent.refusals or unfinished or not all(o.good for o in outcomes)
        return 5 if bad else 1 if intent.gone else 0

    def _say(
        self, intent: Intent, resumed: list[Outcome], outcomes: list[Outcome], stopped: bool
    ) -> None:
        names = _names(intent)
        if resumed:
            say("an earlier podrail was interrupted; first its work was gone on with:")
            echo_outcomes(resumed, names)
        echo_diff(show(Plan((intent.plan,))))
        planned = {pf.pci for pf in intent.plan.pfs if pf.refused}
        for refusal in (r for r in intent.refusals if r.subject not in planned):
            say(f"!   {refusal.name or refusal.subject} refused: {refusal.reason}")
            say(f"!       next: {refusal.fix}")
        for later in intent.waiting:
            say(f"    {later.name or later.subject} waits: {later.reason}")
            say(f"        next: {later.fix}")
        for pci, name in intent.gone:
            say(f"!   {name or pci}  {pci} is gone from the PCI bus; what was found on it is kept")
        for subject in intent.given_back:
            say(f"-   {names.get(subject) or subject} is wanted by nobody: given back as found")
        echo_outcomes(outcomes, names)
        say(self._summary(intent, outcomes, stopped))

    def _summary(self, intent: Intent, outcomes: list[Outcome], stopped: bool) -> str:
        if _empties(intent):
            return (
                "nothing was touched: these manifests select nothing here, and all that was "
                "applied before would be given back. If that is meant: podrail reset"
            )
        if stopped:
            rest = "; --partial does the others" if intent.all_jobs else ""
            return f"nothing was touched: {len(intent.refusals)} refused{rest}"
        if self.dry_run:
            return "dry run: nothing was touched"
        if not outcomes:
            return _idle(intent)
        good = sum(o.good for o in outcomes)
        back = "; `podrail reset` gives it back as it was found" if good else ""
        return f"{good} of {len(outcomes)} done{back}"


def _empties(intent: Intent) -> bool:
    """Whether a selector that matches nothing would take everything away."""
    return bool(intent.given_back) and not (intent.all_jobs or intent.refusals or intent.waiting)


def _idle(intent: Intent) -> str:
    if intent.waiting:
        return f"nothing was touched: {len(intent.waiting)} PF wait for a reboot"
    if intent.gone and not intent.all_jobs:
        return "nothing was touched: what is wanted is not on the PCI bus"
    if not intent.all_jobs:
        return "nothing was touched: no policy or profile selects anything on this machine"
    return "as wanted already: nothing was touched"


def _names(intent: Intent) -> dict[str, str]:
    return {pf.pci: pf.name for pf in intent.inventory.pfs}


def _json(intent: Intent, resumed: list[Outcome], outcomes: list[Outcome]) -> dict[str, Any]:
    names = _names(intent)
    return {
        "schema": SCHEMA,
        "plan": intent.plan.to_json(),
        "refused": [
            {"pci": r.subject, "name": r.name, "reason": r.reason, "fix": r.fix}
            for r in intent.refusals
        ],
        "waiting": [
            {"pci": r.subject, "name": r.name, "reason": r.reason, "fix": r.fix}
            for r in intent.waiting
        ],
        "given_back": list(intent.given_back),
        "gone": [{"pci": pci, "name": name} for pci, name in intent.gone],
        "resumed": [outcome_json(o, names) for o in resumed],
        "outcomes": [outcome_json(o, names) for o in outcomes],
    }


def _again(argv: Sequence[str]) -> list[str]:
    """This command's own options, without those that named the machine and the manifests."""
    kept: list[str] = []
    words = iter(argv[2:])
    for word in words:
        if word in ("--host", "-f", "--file"):
            next(words, None)
        elif not word.startswith(("--host=", "--file=", "-f")):
            kept.append(word)
    return kept
