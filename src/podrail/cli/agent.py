"""`podrail agent`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import click

from podrail.agent.companion import Companion
from podrail.agent.loop import EVERY, Agent
from podrail.agent.reports import Reporter
from podrail.agent.signals import Signals
from podrail.agent.wanted import FromFiles, FromJournal, Source
from podrail.cli.machine import machine, state_option
from podrail.cli.shared import (
    consent_options,
    host_options,
    manifest_option,
    output_option,
    prefix_option,
    read_manifests,
)
from podrail.model.errors import UsageError
from podrail.realise.asked import Asked
from podrail.realise.journal import Journal


@click.command()
@manifest_option(required=False)
@host_options(many=False)
@click.option(
    "--every", type=click.FloatRange(min=1.0), default=EVERY, show_default=True,
    metavar="SECONDS", help="How often to look at everything although nothing happened.",
)  # fmt: skip
@click.option(
    "--attach", is_flag=True,
    help="Answer the CNI plugin too: pods get their VF, settings and addresses. Not complete yet.",
)  # fmt: skip
@click.option(
    "--once", is_flag=True, help="One pass, then end with 0 (as wanted), 1 (refused) or 5 (failed)."
)
@consent_options
@state_option
@prefix_option
@output_option("json")
def command(
    paths: list[str], host: str, faults: list[str], labels: list[str], root: str, every: float,
    attach: bool, once: bool, allow_management: list[str], firmware: bool, place: str | None,
    resource_prefix: str | None, output: str,
) -> None:  # fmt: skip
    """Keep it so: notice within a second what is no longer as wanted, say it, and mend it.

    Without -f it keeps what `podrail apply` applied last. It sleeps until the kernel tells of a
    change; a VF that is held is reported and left alone. Starting and stopping it changes nothing
    on the machine. SIGHUP asks for a full pass.

    \b
    Example:
      sudo podrail agent
      sudo podrail agent -f /etc/podrail -o json
      podrail agent -f policy.yaml --host twin:roce-cx6 --once
    """
    _check(paths, host, once)
    if attach and (once or root != "/"):
        raise UsageError("--attach is for an agent that stays, on the machine itself")
    with ExitStack() as stack:
        on = machine(stack, host, faults, labels, place, root)
        said = Asked(
            labels=tuple(sorted(on.labels.items())),
            management=frozenset(allow_management),
            prefix=resource_prefix or "",
            firmware=firmware,
        )
        signals = stack.enter_context(Signals())
        agent = Agent(
            on.host, on.state, _source(on.state.journal, paths, said),
            Reporter(on.state.journal, as_json=output == "json"), signals, every,
            companion=_attaching(on.state.place) if attach else None,
        )  # fmt: skip
        ended = agent.once() if once else agent.run()
    sys.exit(ended)


def _attaching(place: Path) -> Companion:
    return Companion([sys.executable, "-m", "podrail.attach.service", "--state", str(place)])


def _check(paths: Sequence[str], host: str, once: bool) -> None:
    if "-" in paths:
        raise UsageError("-f -: an agent reads its manifests again and again; name a file")
    if host.startswith("lab:"):
        node = host.removeprefix("lab:")
        raise UsageError(f"run it in the node: podrail lab run {node} -- podrail agent")
    if host != "local" and not once:
        raise UsageError(f"--host {host}: nothing happens there by itself; try it with --once")


def _source(journal: Journal, paths: Sequence[str], said: Asked) -> Source:
    if paths:
        return FromFiles(journal, paths, said, read_manifests)
    return FromJournal(journal, said)
