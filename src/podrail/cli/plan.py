"""`podrail plan`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

import click

from podrail.cli.progress import Ticker
from podrail.cli.shared import (
    clean,
    counts,
    echo_findings,
    echo_json,
    echo_yaml,
    host_options,
    lint_exit,
    manifest_option,
    opened,
    output_option,
    prefix_option,
    read_bundle,
    say,
    styled,
)
from podrail.inventory import discover
from podrail.model.finding import Finding
from podrail.model.inventory import Inventory
from podrail.model.plan import Plan
from podrail.model.progress import Progress
from podrail.planning.lint import lint
from podrail.planning.planner import Planner
from podrail.planning.show import show

_COLOURS = {"+": "green", "~": "yellow", "-": "red", "!": "red"}


@click.command()
@manifest_option()
@host_options(many=True)
@click.option(
    "--allow-management", multiple=True, metavar="PF",
    help="Let this PF (name or address) change although the machine is reached through it.",
)  # fmt: skip
@prefix_option
@output_option("json", "yaml")
def command(
    paths: list[str], hosts: list[str], faults: list[str], labels: list[str],
    allow_management: list[str], resource_prefix: str | None, output: str,
) -> None:  # fmt: skip
    """What manifests would change on a machine, why, and what that disturbs. Touches nothing.

    Every value says which policy set it and which it overrode; every PF not selected says why. A PF
    that carries the default route or the way to the API server is refused.

    \b
    Example:
      podrail plan -f policy.yaml
      podrail plan -f manifests/ --host node7.json --host node8.json -o json
      podrail plan -f policy.yaml --host twin:ib-cx7 --label pool=gpu
    """
    bundle = read_bundle(paths, resource_prefix)
    found = lint(bundle)
    inventories = list(_look(hosts, faults, labels))
    plan = Planner.of(bundle, allow_management=allow_management).plan(inventories)
    if output == "text":
        echo_plan(plan, found)
    else:
        whole = Plan(plan.nodes, (*found, *plan.findings)).to_json()
        (echo_json if output == "json" else echo_yaml)(whole)
    sys.exit(3 if lint_exit(found) == 3 else 1 if plan.refused else 0)


def _look(hosts: list[str], faults: list[str], labels: list[str]) -> Iterator[Inventory]:
    """Every machine, with progress once there is something to wait for."""
    ticker = Ticker(after=2.0)
    for at, host in enumerate(hosts):
        ticker(Progress("look", f"looking at {host}", at / len(hosts)))
        yield discover(*opened(host, faults, labels))
    ticker.done()


def echo_plan(plan: Plan, found: tuple[Finding, ...]) -> None:
    """What is wrong first, then the plan, coloured by its marks."""
    echo_findings(found)
    if found:
        click.echo(f"manifests: {counts(found)}\n")
    echo_diff(show(plan))


def echo_diff(lines: Iterable[str]) -> None:
    """Lines coloured by their first character."""
    for line in lines:
        colour = _COLOURS.get(line[:1])
        say(styled(clean(line), fg=colour) if colour else clean(line))
