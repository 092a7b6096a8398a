"""What `podrail up` plays: discover, lint, plan, apply, break something, see it mended."""

from __future__ import annotations

import json
import queue
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from io import RawIOBase
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

import click

from podrail.agent.loop import Agent
from podrail.agent.reports import Reporter
from podrail.agent.signals import Signals
from podrail.agent.wanted import FromJournal
from podrail.cli.inside import asked
from podrail.cli.machine import Machine, echo_outcomes, machine
from podrail.cli.plan import echo_diff
from podrail.cli.shared import counts, echo_findings, opened, read_bundle, read_manifests, styled
from podrail.inventory import discover
from podrail.inventory.render import render
from podrail.model.bundle import Bundle
from podrail.model.errors import Unmeasured, UsageError
from podrail.model.inventory import Inventory, Pf
from podrail.model.plan import Plan
from podrail.planning.lint import lint
from podrail.planning.planner import Planner
from podrail.planning.show import show, summary
from podrail.realise.apply import Consent, intend, realise
from podrail.realise.asked import Asked
from podrail.realise.engine import Outcome
from podrail.realise.kinds.driver import release

T = TypeVar("T")
Manifests = Sequence[tuple[str, str]]

_PATIENCE = 60.0


class Story:
    """The steps, and what each of them took."""

    def __init__(self) -> None:
        self._took: list[str] = []

    def step(self, name: str, work: Callable[[], T]) -> T:
        start = time.perf_counter()
        result = work()
        self._took.append(f"{name} {_span(time.perf_counter() - start)}")
        return result

    def play(self, hosts: list[str], example: str) -> bool:
        """All of it on some machines; False when something is wrong."""
        place = near(example_folder(example))
        bundle, plan, good = self._plan(hosts, place)
        manifests = read_manifests([str(place)])
        lab = hosts[0].startswith("lab:")
        changed = self._in_lab(hosts, manifests) if lab else self._on_twin(hosts[0], bundle)
        click.echo(f"\n{', '.join(hosts)}: {summary(plan)}, done; drift noticed and mended")
        click.echo(f"took  {', '.join(self._took)}")
        again = f"{program()} lab up && " if lab else ""
        host = hosts[0].replace("lab:up/", "lab:")
        click.echo(f"next  {again}{program()} apply -f {place} --host {host}")
        return good and changed

    def _plan(self, hosts: list[str], place: Path) -> tuple[Bundle, Plan, bool]:
        machines = [self.step(f"discover {host}", partial(_look, host)) for host in hosts]
        click.echo("\n".join(line for machine in machines for line in render(machine)))
        bundle = self.step("read", lambda: read_bundle([str(place)]))
        findings = self.step("lint", lambda: lint(bundle))
        echo_findings(findings)
        click.echo(f"\nlint of {place}: {len(bundle.resources)} objects, {counts(findings)}\n")
        plan = self.step("plan", lambda: Planner.of(bundle).plan(machines))
        echo_diff(show(plan))
        return bundle, plan, not findings and not plan.refused

    # --- in the lab -------------------------------------------------------------------------------

    def _in_lab(self, hosts: Sequence[str], manifests: Manifests) -> bool:
        good = True
        for host in hosts:
            _title(f"apply on {host}: every step journalled before it runs")
            told = self.step(f"apply {host}", partial(asked, host, "apply", [], manifests))
            good = _say_outcomes(told["outcomes"]) and bool(told["outcomes"]) and good
            _say_vfs(_look(host), "the kernel made")
        return self._lab_drift(hosts[0]) and good

    def _lab_drift(self, host: str) -> bool:
        """A VF loses its driver while an agent runs in the node."""
        from podrail.lab.faults import Where, inflict
        from podrail.lab.host import LabHost
        from podrail.lab.lifecycle import find

        _title(f"break one: a VF on {host} loses its driver while the agent watches")
        lab, name = find(host.removeprefix("lab:"))
        with LabHost(name, lab.address(name)) as node, _agent(node) as heard:
            self.step("agent", lambda: _await(heard, "ready"))
            victim = next(pf for pf in _look(host).pfs if pf.vfs).vfs[0].pci
            click.echo(f"      {inflict(Where(lab, name, node, (victim,)), 'vf-unbind')}")
            _say_report(self.step("noticed", lambda: _await(heard, "drift")))
            _say_report(self.step("mended", lambda: _await(heard, "mended")))
        return all(vf.driver for pf in _look(host).pfs for vf in pf.vfs)

    # --- on a twin --------------------------------------------------------------------------------

    def _on_twin(self, host: str, bundle: Bundle) -> bool:
        with ExitStack() as stack:
            on = machine(stack, host, (), (), None)
            _title(f"apply on {host}: every step journalled before it runs")
            outcomes = self.step("apply", lambda: _apply(on, bundle))
            inventory = discover(on.host, on.labels)
            echo_outcomes(outcomes, {pf.pci: pf.name for pf in inventory.pfs})
            _say_vfs(inventory, "as a kernel would make them")
            _title("break one: a VF loses its driver; the agent looks")
            release(on.host, next(pf for pf in inventory.pfs if pf.vfs).vfs[0].pci)
            signals = stack.enter_context(Signals())
            source = FromJournal(on.state.journal, Asked(labels=tuple(on.labels.items())))
            tell = Reporter(on.state.journal, to=sys.stdout)
            mended = self.step("mend", Agent(on.host, on.state, source, tell, signals).once)
        return mended == 0 and all(o.good for o in outcomes)


def _apply(on: Machine, bundle: Bundle) -> list[Outcome]:
    manifests = {r.where().file: r for r in bundle.resources}
    on.state.journal.want(read_manifests(list(manifests)))
    intent = intend(on.host, bundle, on.state.journal, on.labels, Consent())
    return realise(on.host, on.state, intent)


# --- the agent in a node --------------------------------------------------------------------------


class _Lines(RawIOBase):
    """What a program writes, line by line as JSON into a queue."""

    def __init__(self, into: queue.Queue[dict[str, Any]]) -> None:
        self._into, self._rest = into, b""

    def write(self, data: Any) -> int:
        *lines, self._rest = (self._rest + bytes(data)).split(b"\n")
        for line in lines:
            if line.startswith(b"{"):
                self._into.put(json.loads(line))
        return len(data)


@contextmanager
def _agent(node: Any) -> Iterator[queue.Queue[dict[str, Any]]]:
    """`podrail agent` in a node, for as long as it is listened to."""
    from podrail.lab.client import Connection

    heard: queue.Queue[dict[str, Any]] = queue.Queue()
    out = cast(BinaryIO, _Lines(heard))
    with Connection(node.address) as connection:
        argv = ["podrail", "agent", "-o", "json"]
        run = partial(connection.stream, argv, None, out, sys.stderr.buffer)
        running = threading.Thread(target=run, daemon=True)
        running.start()
        try:
            yield heard
        finally:
            connection.signal(signal.SIGTERM)
            running.join(_PATIENCE)


def _await(heard: queue.Queue[dict[str, Any]], event: str) -> dict[str, Any]:
    deadline = time.monotonic() + _PATIENCE
    while (left := deadline - time.monotonic()) > 0:
        try:
            report = heard.get(timeout=left)
        except queue.Empty:
            break
        if report["event"] == event:
            return report
    raise Unmeasured(f"the agent in the node told of no {event!r} within {_PATIENCE:g} s")


# --- telling --------------------------------------------------------------------------------------


def _title(text: str) -> None:
    click.echo(f"\n{styled(text, bold=True)}")


def _say_outcomes(told: Sequence[dict[str, Any]]) -> bool:
    outcomes = [
        Outcome(
            o["pci"], o["state"], tuple(o["changed"]), o["reason"], o["fix"], tuple(o["pending"]),
            o["seconds"],
        )
        for o in told
    ]  # fmt: skip
    echo_outcomes(outcomes, {o["pci"]: o["name"] for o in told})
    return all(o.good for o in outcomes)


def _say_vfs(machine: Inventory, whose: str) -> None:
    for pf in machine.pfs:
        if pf.vfs:
            click.echo(f"  {whose}  {pf.name}: {_vfs(pf)}")


def _vfs(pf: Pf) -> str:
    shown = [f"{vf.netdev or vf.pci} ({vf.driver})" for vf in pf.vfs[:8]]
    return ", ".join(shown) + (f" and {len(pf.vfs) - 8} more" if len(pf.vfs) > 8 else "")


def _say_report(report: dict[str, Any]) -> None:
    verb = "is" if report["event"] == "drift" else "was"
    after = "" if report["seconds"] is None else f"; mended {report['seconds']:.1f} s later"
    click.echo(
        f"      agent: {report['name']}: {report['what']} {verb} {report['actual']}, wanted "
        f"{report['wanted']}{after}"
    )


def _look(host: str) -> Inventory:
    return discover(*opened(host, (), ()))


def _span(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1e3:.0f} ms"


def near(path: Path) -> Path:
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def program() -> str:
    """How this very program is called again."""
    return "podrail" if shutil.which("podrail") else str(near(Path(sys.argv[0]).absolute()))


def example_folder(name: str) -> Path:
    """An example: beside the package in a wheel, in the checkout otherwise."""
    for place in _places(name):
        if place.is_dir():
            return place
    raise UsageError(f"the example {name} is missing from this installation")


def _places(name: str) -> Iterator[Path]:
    package = Path(__file__).resolve().parents[1]
    yield package / "examples" / name
    yield package.parents[1] / "examples" / name
