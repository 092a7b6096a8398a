"""`podrail status`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime

import click

from podrail.cli.machine import Machine, machine, state_option
from podrail.cli.shared import (
    clean,
    echo_json,
    host_options,
    output_option,
    say,
    styled,
)
from podrail.realise.apply import intend
from podrail.realise.asked import kept
from podrail.realise.status import AS_WANTED, Standing, Status, status

_COLOURS = {AS_WANTED: "green", "drifted": "yellow", "to give back": "yellow"}


@click.command()
@host_options(many=False)
@state_option
@output_option("json")
def command(
    host: str, faults: list[str], labels: list[str], place: str | None, root: str, output: str
) -> None:
    """What is: every PF against what was applied, and what happened lately.

    Ends with 0 when all is as wanted, 1 when something drifted, failed or was refused.

    \b
    Example:
      sudo podrail status
      podrail status --host lab:node1 -o json
    """
    if host.startswith("lab:"):
        from podrail.cli.inside import in_node

        sys.exit(in_node(host, "status", ["-o", output]))
    with ExitStack() as stack:
        found = look(machine(stack, host, faults, labels, place, root, changes=False))
    if output == "json":
        echo_json(found.to_json())
    else:
        for line in lines(found):
            say(line)
    sys.exit(0 if found.good else 1)


def look(on: Machine) -> Status:
    """The status of a machine against the manifests its journal keeps."""
    journal = on.state.journal
    asked = kept(journal)
    labels = {**dict(asked.labels), **on.labels}
    intent = intend(on.host, asked.bundle(), journal, labels, asked.consent)
    return status(on.host, journal, intent, on.state.agent_pid())


def lines(found: Status) -> Iterator[str]:
    """For a terminal."""
    files = dict.fromkeys(name.rpartition("/")[2] for name in found.manifests)
    wanted = ", ".join(files) or "nothing applied"
    agent = f"agent pid {found.agent}" if found.agent else "no agent"
    yield f"node {clean(found.node)}  ({clean(wanted)}; {agent})"
    for one in found.standings:
        yield from _standing(one)
    for why in found.pending:
        yield f"  {styled('not in force yet', fg='yellow')}: {clean(why)}"
    if found.notes:
        yield "lately"
    for note in found.notes[-10:]:
        at = datetime.fromtimestamp(note.at).astimezone().isoformat(" ", "seconds")
        yield f"  {at}  {clean(note.text)}"


def _standing(one: Standing) -> Iterator[str]:
    state = styled(one.state, fg=_COLOURS.get(one.state, "red"))
    counts = (
        f"  {one.numvfs} of {one.totalvfs} VFs, mtu {one.mtu}" if one.numvfs is not None else ""
    )
    yield f"  {one.name or one.subject}  {one.subject}  {state}{counts}"
    for drift in one.drift:
        yield f"      {clean(drift)}"
    for who in one.held:
        yield f"      held {clean(who)}"
    if one.reason:
        yield f"      reason: {clean(one.reason)}"
    if one.fix:
        yield f"      next: {clean(one.fix)}"
