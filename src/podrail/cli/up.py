"""`podrail up`: the whole story on this machine, in the lab if it can, on a twin if not."""

from __future__ import annotations

import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TypeVar

import click

from podrail.cli.plan import echo_diff
from podrail.cli.shared import counts, echo_findings, opened, read_bundle
from podrail.inventory import discover
from podrail.inventory.render import render
from podrail.model.errors import Refused, UsageError
from podrail.model.inventory import Inventory
from podrail.planning.lint import lint
from podrail.planning.planner import Planner
from podrail.planning.show import show, summary

T = TypeVar("T")

_TWIN = "roce-cx6"
_LAB = "up"


@click.command()
@click.option("--twin", is_flag=True, help="Play on model hardware even where the lab would run.")
@click.option("--once", is_flag=True, help="End after the summary, and take the lab down.")
def command(twin: bool, once: bool) -> None:
    """The whole story on this machine; never a real NIC.

    Boots two virtual nodes with real SR-IOV kernels (or opens a model GPU server where that cannot
    be), discovers them, lints the RoCE example and plans it. Stays up until Ctrl-C.

    \b
    Example:
      podrail up --once
      podrail up --twin --once
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)  # as Ctrl-C: the lab goes down with it
    story = Story()
    if twin or not _lab_can(story):
        good = story.play([f"twin:{_TWIN}"], "seed-002")
        if not once:
            click.pause("any key ends it …")
    else:
        good = _in_the_lab(story, once)
    sys.exit(0 if good else 1)


def _lab_can(story: Story) -> bool:
    """Whether two nodes are up now; where they cannot be, the reason is said."""
    from podrail.cli.lab import bring_up

    try:
        story.step("lab up", lambda: bring_up(_LAB, 2, keep=False))
    except Refused as refused:
        click.echo(f"no lab here: {refused}\nplaying on the twin {_TWIN} instead\n")
        return False
    return True


def _in_the_lab(story: Story, once: bool) -> bool:
    from podrail.lab import lifecycle

    try:
        good = story.play([f"lab:{_LAB}/node1", f"lab:{_LAB}/node2"], "lab")
        if not once:
            click.echo(f"the lab stays up until Ctrl-C; try: podrail lab run {_LAB}/node1 -- lspci")
            _until_interrupted()
    finally:
        lifecycle.down(_LAB)
        click.echo("the lab is down")
    return good


def _until_interrupted() -> None:
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        click.echo()


class Story:
    """Discover, lint, plan; and what each step took."""

    def __init__(self) -> None:
        self._took: list[str] = []

    def step(self, name: str, work: Callable[[], T]) -> T:
        start = time.perf_counter()
        result = work()
        self._took.append(f"{name} {_span(time.perf_counter() - start)}")
        return result

    def play(self, hosts: list[str], example: str) -> bool:
        """All of it on some machines; False when something is wrong."""
        machines = [self.step(f"discover {host}", partial(_look, host)) for host in hosts]
        click.echo("\n".join(line for machine in machines for line in render(machine)))
        place = _near(_example(example))
        bundle = self.step("read", lambda: read_bundle([str(place)]))
        findings = self.step("lint", lambda: lint(bundle))
        echo_findings(findings)
        click.echo(f"\nlint of {place}: {len(bundle.resources)} objects, {counts(findings)}\n")
        plan = self.step("plan", lambda: Planner.of(bundle).plan(machines))
        echo_diff(show(plan))
        click.echo(f"\n{', '.join(hosts)}: {summary(plan)}")
        click.echo(f"took  {', '.join(self._took)}")
        again = f"{_program()} lab up && " if hosts[0].startswith("lab:") else ""
        host = hosts[0].replace(f"lab:{_LAB}/", "lab:")
        click.echo(f"next  {again}{_program()} plan -f {place} --host {host} -o json")
        return not findings and not plan.refused


def _look(host: str) -> Inventory:
    return discover(*opened(host, (), ()))


def _span(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1e3:.0f} ms"


def _near(path: Path) -> Path:
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def _program() -> str:
    """How this very program is called again."""
    return "podrail" if shutil.which("podrail") else str(_near(Path(sys.argv[0]).absolute()))


def _example(name: str) -> Path:
    """An example: beside the package in a wheel, in the checkout otherwise."""
    for place in _places(name):
        if place.is_dir():
            return place
    raise UsageError(f"the example {name} is missing from this installation")


def _places(name: str) -> Iterator[Path]:
    package = Path(__file__).resolve().parents[1]
    yield package / "examples" / name
    yield package.parents[1] / "examples" / name
