"""`podrail up`: the whole story on this machine, in the lab if it can, on a twin if not."""

from __future__ import annotations

import signal
import sys
import time

import click

from podrail.cli.story import Story
from podrail.model.errors import Refused

_TWIN = "roce-cx6"
_LAB = "up"


@click.command()
@click.option("--twin", is_flag=True, help="Play on model hardware even where the lab would run.")
@click.option("--once", is_flag=True, help="End after the summary, and take the lab down.")
def command(twin: bool, once: bool) -> None:
    """The whole story on this machine; never a real NIC.

    Boots two virtual nodes with real SR-IOV kernels (or opens a model GPU server where that cannot
    be), discovers them, lints the RoCE example, plans and applies it, shows the VFs the kernel
    made, breaks one and shows the agent mending it. Stays up until Ctrl-C.

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
