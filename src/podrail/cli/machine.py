"""What the verbs that change a machine share: the machine, its journal, how results are told."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from podrail.cli.progress import Ticker
from podrail.cli.shared import clean, opened, say, styled
from podrail.host.linux import LinuxHost
from podrail.host.record import RecordedHost
from podrail.host.seam import Host
from podrail.model.errors import Refused, UsageError
from podrail.model.progress import Progress
from podrail.realise import kinds  # noqa: F401 - enters every kind of step in the registry
from podrail.realise.engine import Outcome
from podrail.realise.state import DEFAULT, State
from podrail.realise.step import MACHINE

F = TypeVar("F", bound=Callable[..., Any])

_AFTER = 2.0
_COLOURS = {"done": "green", "undone": "yellow"}


def state_option(function: F) -> F:
    """`--state` and `--root`."""
    function = click.option(
        "--root", metavar="DIR", default="/", show_default=True,
        help="Where the machine's file system is; a container sees it under /host.",
    )(function)  # fmt: skip
    return click.option(
        "--state", "place", metavar="DIR", show_default=DEFAULT,
        help="Where the journal is kept; a twin's goes with it.",
    )(function)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine that may be changed, and its journal."""

    host: Host
    labels: dict[str, str]
    state: State


def machine(
    stack: ExitStack, spec: str, faults: Sequence[str], labels: Sequence[str], place: str | None,
    root: str = "/", *, changes: bool = True,
) -> Machine:  # fmt: skip
    """Open both; what cannot be changed is refused before anything is looked at."""
    if root != "/" and spec != "local":
        raise UsageError("--root says where this machine is; it goes with --host local only")
    host, known = opened(spec, faults, labels)
    if root != "/":
        host = LinuxHost(root)
    if isinstance(host, RecordedHost):
        raise Refused(f"{spec} is a record: it can be planned for, not changed")
    if isinstance(host, LinuxHost) and changes and os.geteuid() != 0:
        raise Refused("this changes NICs and needs root: sudo podrail …")
    unmade = not changes and not (Path(place or DEFAULT) / "journal.db").exists()
    if unmade or (place is None and not isinstance(host, LinuxHost)):
        place = stack.enter_context(tempfile.TemporaryDirectory(prefix="podrail-"))
    return Machine(host, known, stack.enter_context(State(place or DEFAULT)))


def interruptible() -> None:
    """`kill PID` and a service manager's stop end a verb as Ctrl-C does: what was begun is put
    back."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def say_waiting(pid: int | None) -> None:
    click.echo(f"waiting for another podrail (pid {pid}) to finish its work here", err=True)


class Teller:
    """Progress of jobs that run side by side, from the third second on."""

    def __init__(self, names: dict[str, str]) -> None:
        self._names, self._ticker = names, Ticker(after=_AFTER)
        self._at: dict[str, tuple[int, int, str]] = {}
        self._began = time.monotonic()

    def __call__(self, subject: str, behind: int, total: int, text: str) -> None:
        self._at[subject] = (behind, total, text)
        done = sum(behind for behind, _, _ in self._at.values())
        steps = sum(total for _, total, _ in self._at.values())
        now = ", ".join(f"{self._names.get(s, s)}: {t}" for s, (_, _, t) in self._at.items())
        self._ticker(Progress(text, now, done / steps if steps else None))

    def done(self) -> None:
        self._ticker.done()


def echo_outcomes(outcomes: Sequence[Outcome], names: dict[str, str]) -> None:
    """Each job: how it ended, what it changed, why it did not."""
    for one in outcomes:
        name = names.get(one.subject) or one.subject
        where = f"  {one.subject}" if one.subject not in (MACHINE, name) else ""
        state = styled(_word(one), fg=_COLOURS.get(one.state, "red"))
        say(f"  {name}{where}  {state} in {one.seconds:.1f} s")
        for line in one.changed:
            say(f"      {clean(line)}")
        if one.reason:
            say(f"      reason: {clean(one.reason)}")
        if one.fix:
            say(f"      next: {clean(one.fix)}")
        for line in one.pending:
            say(f"      not in force yet: {clean(line)}")


def _word(outcome: Outcome) -> str:
    return "failed, put back as it was" if outcome.state == "undone" else outcome.state


def outcome_json(outcome: Outcome, names: dict[str, str]) -> dict[str, Any]:
    return {
        "pci": outcome.subject,
        "name": names.get(outcome.subject, ""),
        "state": outcome.state,
        "changed": list(outcome.changed),
        "reason": outcome.reason,
        "fix": outcome.fix,
        "pending": list(outcome.pending),
        "seconds": outcome.seconds,
    }
