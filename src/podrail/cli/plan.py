"""`podrail plan`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import click

from podrail.cli.progress import Ticker
from podrail.cli.shared import (
    clean,
    consent_options,
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
from podrail.host.seam import Host
from podrail.inventory import discover
from podrail.model.finding import Finding
from podrail.model.inventory import Inventory
from podrail.model.plan import Change, Plan
from podrail.model.profile import Profile, profiles
from podrail.model.progress import Progress
from podrail.planning.lint import lint
from podrail.planning.planner import Planner
from podrail.planning.show import show

Settings = tuple[Change, ...]

_COLOURS = {"+": "green", "~": "yellow", "-": "red", "!": "red"}


@click.command()
@manifest_option()
@host_options(many=True)
@consent_options
@prefix_option
@output_option("json", "yaml")
def command(
    paths: list[str], hosts: list[str], faults: list[str], labels: list[str],
    allow_management: list[str], firmware: bool, resource_prefix: str | None, output: str,
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
    looked = list(_look(hosts, faults, labels, profiles(bundle)))
    planner = Planner.of(bundle, allow_management=allow_management, allow_firmware=firmware)
    plan = _with_settings(planner.plan([machine for machine, _ in looked]), looked)
    if output == "text":
        echo_plan(plan, found)
    else:
        whole = Plan(plan.nodes, (*found, *plan.findings)).to_json()
        (echo_json if output == "json" else echo_yaml)(whole)
    sys.exit(3 if lint_exit(found) == 3 else 1 if plan.refused else 0)


def _with_settings(plan: Plan, looked: Sequence[tuple[Inventory, Settings]]) -> Plan:
    settings = {machine.node.name: told for machine, told in looked if told}
    nodes = (replace(node, settings=settings.get(node.node, ())) for node in plan.nodes)
    return replace(plan, nodes=tuple(nodes)) if settings else plan


def _look(
    hosts: list[str], faults: list[str], labels: list[str], tuned: Sequence[Profile]
) -> Iterator[tuple[Inventory, Settings]]:
    """Every machine and what profiles change on it, with progress where that takes long."""
    ticker = Ticker(after=2.0)
    for at, host in enumerate(hosts):
        ticker(Progress("look", f"looking at {host}", at / len(hosts)))
        opened_host, known = opened(host, faults, labels)
        machine = discover(opened_host, known)
        yield machine, _tuned(opened_host, machine, tuned) if tuned else ()
    ticker.done()


def _tuned(host: Host, machine: Inventory, tuned: Sequence[Profile]) -> Settings:
    from podrail.realise.profile import preview, profile_steps

    return preview(host, profile_steps(tuned, machine))


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
