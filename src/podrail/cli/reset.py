"""`podrail reset`."""

from __future__ import annotations

import sys
from contextlib import ExitStack

import click

from podrail.cli.machine import (
    Teller,
    echo_outcomes,
    interruptible,
    machine,
    outcome_json,
    say_waiting,
    state_option,
)
from podrail.cli.shared import echo_json, host_options, output_option, say
from podrail.inventory import discover
from podrail.realise.apply import (
    Consent,
    give_back,
    refuse_beside_upstream,
    reset_jobs,
    resume,
    spared,
)
from podrail.realise.asked import kept

SCHEMA = "podrail/reset/1"


@click.command()
@host_options(many=False)
@click.option("--force", is_flag=True, help="Take VFs from whoever holds them.")
@click.option(
    "--allow-management", multiple=True, metavar="PF",
    help="Give this PF (name or address) back although the machine is reached through it.",
)  # fmt: skip
@state_option
@output_option("json")
def command(
    host: str, faults: list[str], labels: list[str], force: bool, allow_management: list[str],
    place: str | None, root: str, output: str,
) -> None:  # fmt: skip
    """Give the NICs back as they were found, and want nothing of them any more.

    VFs, MTU, drivers, names and settings become what they were when podrail first changed them. A
    VF that is held stays, and is named.

    \b
    Example:
      sudo podrail reset
      podrail reset --host lab:node1
    """
    if host.startswith("lab:"):
        from podrail.cli.inside import in_node

        options = ["-o", output, *(["--force"] if force else [])]
        options += [word for pf in allow_management for word in ("--allow-management", pf)]
        sys.exit(in_node(host, "reset", options))
    interruptible()
    with ExitStack() as stack:
        on = machine(stack, host, faults, labels, place, root)
        with on.state.working(say_waiting):
            refuse_beside_upstream(on.host, Consent(force=force))
            allowed = {*allow_management, *kept(on.state.journal).management}
            resumed = resume(on.host, on.state, allowed=allowed)
            on.state.journal.want(())
            inventory = discover(on.host, on.labels)
            names = {pf.pci: pf.name for pf in inventory.pfs}
            ours = {job.subject for job in reset_jobs(on.state.journal)}
            spare = [r for r in spared(inventory, allowed) if r.subject in ours]
            teller = Teller(names)
            outcomes = give_back(on.host, on.state, tell=teller, force=force, spare=spare)
            teller.done()
    if output == "json":
        told = {"resumed": resumed, "outcomes": outcomes}
        left = [{"pci": r.subject, "name": r.name, "reason": r.reason, "fix": r.fix} for r in spare]
        lists = {k: [outcome_json(o, names) for o in v] for k, v in told.items()}
        echo_json({"schema": SCHEMA, "refused": left, **lists})
    else:
        for one in spare:
            say(f"!   {one.name or one.subject} refused: {one.reason}")
            say(f"!       next: {one.fix}")
        if resumed:
            say("an earlier podrail was interrupted; first its work was gone on with:")
            echo_outcomes(resumed, names)
        echo_outcomes(outcomes, names)
        good = sum(o.good for o in outcomes)
        nothing = "nothing was given back" if spare else "nothing to give back"
        say(f"{good} of {len(outcomes)} given back" if outcomes else nothing)
    sys.exit(0 if all(o.good for o in outcomes) and not spare else 5)
