"""`podrail up`: the whole story, on a twin."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import click

from podrail.cli.plan import echo_diff
from podrail.cli.shared import counts, echo_findings, opened, read_manifests
from podrail.inventory import discover
from podrail.inventory.render import render
from podrail.model.bundle import read
from podrail.model.errors import UsageError
from podrail.planning.lint import lint
from podrail.planning.planner import Planner
from podrail.planning.show import show, summary

T = TypeVar("T")

_TWIN = "roce-cx6"
_EXAMPLE = "seed-002"


@click.command()
@click.option("--twin", is_flag=True, help="Play on model hardware.")
@click.option("--once", is_flag=True, help="End after the summary.")
def command(twin: bool, once: bool) -> None:
    """The whole story on this machine, on a twin; never a real NIC.

    Discovers a model GPU server with a ConnectX-6 Dx, lints the RoCE example, and plans it.

    \b
    Example:
      podrail up --twin --once
    """
    if not twin:
        click.echo("this version has no virtual lab: playing on the twin")
    took: list[str] = []
    machine, labels = opened(f"twin:{_TWIN}", (), ())
    inventory = _step("discover", took, lambda: discover(machine, labels))
    click.echo("\n".join(render(inventory)))
    files = read_manifests([str(_example())])
    bundle = _step("read", took, lambda: read(files))
    findings = _step("lint", took, lambda: lint(bundle))
    echo_findings(findings)
    click.echo(f"\nlint of the RoCE example: {len(bundle.resources)} objects, {counts(findings)}\n")
    plan = _step("plan", took, lambda: Planner.of(bundle).plan([inventory]))
    echo_diff(show(plan))
    click.echo(f"\ntwin:{_TWIN}: {summary(plan)}  ({', '.join(took)})")
    click.echo(f"next: podrail plan -f {_example()} --host twin:{_TWIN} -o json")
    if not once:
        click.pause("stays up until a key or Ctrl-C …")
    sys.exit(1 if findings or plan.refused else 0)


def _step(name: str, took: list[str], work: Callable[[], T]) -> T:
    start = time.perf_counter()
    result = work()
    took.append(f"{name} {(time.perf_counter() - start) * 1e3:.0f} ms")
    return result


def _example() -> Path:
    """The RoCE example: beside the package in a wheel, in the checkout otherwise."""
    for place in _places():
        if place.is_dir():
            return place
    raise UsageError(f"the example {_EXAMPLE} is missing from this installation")


def _places() -> Iterator[Path]:
    package = Path(__file__).resolve().parents[1]
    yield package / "examples" / _EXAMPLE
    yield package.parents[1] / "examples" / _EXAMPLE
