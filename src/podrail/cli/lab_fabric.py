"""`podrail lab fabric`: an InfiniBand fabric of ibsim and opensm, with the real diags inside."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, TypeVar

import click

from podrail.cli.shared import echo_json, output_option
from podrail.lab import fabric_state
from podrail.lab.fabric import Fabric, Manager, running, stop
from podrail.lab.topology import SPEEDS, FatTree, Net, degrade
from podrail.model.errors import UsageError

SCHEMA = "podrail/lab-fabric/1"
DEFAULT = "ib0"

F = TypeVar("F", bound=Callable[..., Any])


@click.group()
def fabric() -> None:
    """An InfiniBand fabric without hardware: a fat tree in ibsim, managed by opensm.

    \b
    Example:
      podrail lab fabric up --hosts 4 --rails 2 --spines 2
      podrail lab fabric run node1 -- iblinkinfo
      podrail lab fabric unlink leaf0 1
      podrail lab fabric down
    """


def _name_option(function: F) -> F:
    return click.option("--name", help="Which fabric; needed only when several are up.")(function)


def _progress(line: str) -> None:
    click.echo(line, err=True)


@fabric.command()
@click.option("--hosts", default=2, show_default=True, help="How many hosts.")
@click.option("--rails", default=2, show_default=True, help="Adapters per host, a leaf for each.")
@click.option("--leaves", default=0, help="Leaf switches, a multiple of rails.  [default: rails]")
@click.option("--spines", default=1, show_default=True, help="Spine switches.")
@click.option("--uplinks", default=1, show_default=True, help="Cables from a leaf to each spine.")
@click.option("--speed", default="HDR", show_default=True, type=click.Choice(SPEEDS))
@click.option(
    "--degrade", "slow", multiple=True, metavar="NODE:PORT=WIDTHxSPEED",
    help="Make one cable slower, for example leaf0:1=1xEDR; repeatable.",
)  # fmt: skip
@click.option("--subnet", type=click.IntRange(0, 255), help="In every GUID.  [default: first free]")
@click.option("--name", default=DEFAULT, show_default=True, help="What to call it.")
@output_option("json")
def up(
    hosts: int, rails: int, leaves: int, spines: int, uplinks: int, speed: str,
    slow: tuple[str, ...], subnet: int | None, name: str, output: str,
) -> None:  # fmt: skip
    """Start a fat tree and wait until every link is Active.

    It stays up until `down`. If this command is interrupted, nothing stays.

    \b
    Example:
      podrail lab fabric up --hosts 4 --rails 2 --leaves 4 --spines 2
      podrail lab fabric up --degrade leaf0:1=1xEDR
      podrail lab fabric up --name ib1
    """
    start = time.monotonic()
    number = _free_subnet() if subnet is None else subnet
    tree = FatTree(hosts, rails, leaves, spines, uplinks, speed=speed, subnet=number)
    made = Fabric.start(name, tree, net=_slowed(tree.net(), slow), report=_progress)
    if output == "json":
        echo_json(_listing([made]))
        return
    took = time.monotonic() - start
    click.echo(f"fabric {name} is up after {took:.1f} s: {_shape(asdict(tree))}, {speed}")
    click.echo("next: podrail lab fabric run node1 -- iblinkinfo")


def _free_subnet() -> int:
    taken = {state.tree.subnet for state in running()}
    return next((number for number in range(256) if number not in taken), 0)


def _slowed(net: Net, slow: Sequence[str]) -> Net:
    for word in slow:
        found = re.fullmatch(r"([\w-]+):(\d+)=(\d+)x(\w+)", word)
        if found is None:
            raise UsageError(f"--degrade {word!r} is not NODE:PORT=WIDTHxSPEED, as leaf0:1=1xEDR")
        node, port, width, speed = found.groups()
        full = next((n for n in (node, f"S-{node}", f"H-{node}") if n in net), node)
        net = degrade(net, full, int(port), int(width), speed)
    return net


@fabric.command(context_settings={"ignore_unknown_options": True})
@click.option("--timeout", default=60.0, show_default=True, help="Seconds before it is stopped.")
@_name_option
@output_option("json")
@click.argument("host")
@click.argument("argv", nargs=-1, required=True, type=click.UNPROCESSED)
def run(timeout: float, name: str | None, output: str, host: str, argv: tuple[str, ...]) -> None:
    """Run a program inside the fabric at HOST; its exit status is this command's.

    HOST is a host (its rail 0 is meant) or one of its adapters. Relative paths do not mean the
    current directory: the simulator needs one of its own.

    \b
    Example:
      podrail lab fabric run node1 -- ibnetdiscover
      podrail lab fabric run node2-rail1 -- ibstat
    """
    ran = Fabric.find(name).run(argv, host=host, timeout=timeout)
    if output == "json":
        echo_json({"schema": SCHEMA, **asdict(ran)})
    else:
        click.echo(ran.stdout, nl=False)
        click.echo(ran.stderr, nl=False, err=True)
    sys.exit(ran.rc)


# --- faults -----------------------------------------------------------------------------------


@fabric.command()
@_name_option
@output_option("json")
@click.argument("node")
@click.argument("port", type=click.IntRange(1), required=False)
def unlink(name: str | None, output: str, node: str, port: int | None) -> None:
    """Pull the cable at PORT of NODE, or every cable of NODE.

    \b
    Example:
      podrail lab fabric unlink leaf0 1
      podrail lab fabric unlink spine0
      podrail lab fabric unlink node2-rail1
    """
    there = Fabric.find(name)
    _echo_links(there, "unlinked", there.unlink(node, port), output, "was unlinked already")


@fabric.command()
@_name_option
@output_option("json")
@click.argument("node")
@click.argument("port", type=click.IntRange(1), required=False)
def relink(name: str | None, output: str, node: str, port: int | None) -> None:
    """Put a pulled cable back, and wait until its link is Active if a subnet manager runs.

    \b
    Example:
      podrail lab fabric relink leaf0 1
    """
    there = Fabric.find(name)
    ends = there.relink(node, port)
    if there.managers():
        there.settle()
    _echo_links(there, "relinked", ends, output, "was not unlinked")


def _echo_links(
    there: Fabric, word: str, ends: list[tuple[str, int]], output: str, otherwise: str
) -> None:
    if output == "json":
        links = [{"node": node, "port": port} for node, port in ends]
        echo_json({"schema": SCHEMA, "fabric": there.name, word: links})
        return
    for node, port in ends:
        cable = there.net[node].cable(port)
        other = f" - {cable.peer} port {cable.peer_port}" if cable else ""
        click.echo(f"{word} {node} port {port}{other}")
    if not ends:
        click.echo(f"nothing to do: it {otherwise}")


# --- subnet managers --------------------------------------------------------------------------


@fabric.group()
def sm() -> None:
    """Stop the subnet manager, start it again, or have two.

    \b
    Example:
      podrail lab fabric sm stop
      podrail lab fabric sm start
      podrail lab fabric sm double
    """


_priority = click.option("--priority", type=click.IntRange(0, 15), help="The highest is master.")


@sm.command("start")
@_priority
@_name_option
@output_option("json")
@click.argument("host", required=False)
def sm_start(priority: int | None, name: str | None, output: str, host: str | None) -> None:
    """Start a subnet manager at HOST, by default where the fabric's first one was.

    \b
    Example:
      podrail lab fabric sm start node1 --priority 10
    """
    there = Fabric.find(name)
    there.sm_start(host, **({} if priority is None else {"priority": priority}))
    _echo_managers(there, output)


@sm.command("double")
@_priority
@_name_option
@output_option("json")
@click.argument("host", required=False)
def sm_double(priority: int | None, name: str | None, output: str, host: str | None) -> None:
    """Start a second subnet manager at another host, one priority lower unless said.

    \b
    Example:
      podrail lab fabric sm double
      podrail lab fabric sm double node1 --priority 15
    """
    there = Fabric.find(name)
    there.sm_double(host, priority)
    _echo_managers(there, output)


@sm.command("stop")
@click.option("--kill", is_flag=True, help="As if its host had crashed.")
@_name_option
@output_option("json")
@click.argument("host", required=False)
def sm_stop(kill: bool, name: str | None, output: str, host: str | None) -> None:
    """Stop the subnet manager at HOST, or every one; a standby takes over within 3 s.

    \b
    Example:
      podrail lab fabric sm stop
    """
    there = Fabric.find(name)
    stopped = there.sm_stop(host, kill=kill)
    if output == "text":
        click.echo(f"stopped {', '.join(stopped)}" if stopped else "none was running there")
    _echo_managers(there, output)


def _echo_managers(there: Fabric, output: str) -> None:
    managers = there.managers()
    if output == "json":
        found = [asdict(manager) for manager in managers]
        echo_json({"schema": SCHEMA, "fabric": there.name, "managers": found})
        return
    click.echo("\n".join(map(_manager_line, managers)) or "no subnet manager runs")


def _manager_line(manager: Manager) -> str:
    return f"subnet manager {manager.host}  {manager.state}  priority {manager.priority}"


# --- all of them ------------------------------------------------------------------------------


@fabric.command("list")
@output_option("json")
def list_(output: str) -> None:
    """The fabrics that are up: shape, subnet managers, pulled cables.

    \b
    Example:
      podrail lab fabric list -o json
    """
    listing = _listing([Fabric(state) for state in running()])
    if output == "json":
        echo_json(listing)
        return
    for found in listing["fabrics"]:
        _show(found)
    if not listing["fabrics"]:
        click.echo("no fabric is up; start one with: podrail lab fabric up")


def _listing(fabrics: Sequence[Fabric]) -> dict[str, Any]:
    return {"schema": SCHEMA, "fabrics": [one.status() for one in fabrics]}


def _shape(tree: dict[str, Any]) -> str:
    words = {"hosts": "host", "rails": "rail", "leaves": "leaf", "spines": "spine"}
    counts = ((tree[many], one, many) for many, one in words.items())
    return ", ".join(f"{count} {one if count == 1 else many}" for count, one, many in counts)


def _show(found: dict[str, Any]) -> None:
    tree = found["tree"]
    click.echo(f"{found['name']}  {found['state']}  {_shape(tree)}, {tree['speed']}")
    for manager in found["managers"]:
        click.echo(f"    {_manager_line(Manager(**manager))}")
    for end in found["unlinked"]:
        click.echo(f"    unlinked {end['node']} port {end['port']}")


@fabric.command()
@click.option("--all", "everything", is_flag=True, help="Every fabric.")
@_name_option
@output_option("json")
def down(everything: bool, name: str | None, output: str) -> None:
    """Take a fabric down; fine when none is up.

    \b
    Example:
      podrail lab fabric down
      podrail lab fabric down --all
    """
    up_now = [state.name for state in running()]
    if not everything and name is None and len(up_now) > 1:
        raise UsageError(f"several fabrics are up: say --name or --all ({', '.join(up_now)})")
    names = [name] if name else up_now or fabric_state.fabrics.names()
    ended = [one for one in names if stop(one)]
    if output == "json":
        echo_json({"schema": SCHEMA, "down": ended})
    else:
        click.echo(f"down: {', '.join(ended)}" if ended else "no fabric was up")
