"""`podrail lab`: the virtual cluster."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import click

from podrail.cli.lab_fabric import fabric
from podrail.cli.progress import Ticker
from podrail.cli.shared import echo_json, output_option
from podrail.lab import lifecycle
from podrail.lab.client import Connection
from podrail.lab.faults import FAULTS, Where, inflict
from podrail.lab.host import LabHost
from podrail.lab.state import LabState
from podrail.model.errors import PodrailError, UsageError

SCHEMA = "podrail/lab/1"


@click.group()
def command() -> None:
    """The virtual cluster: QEMU nodes with real SR-IOV and RDMA kernels. No hardware needed.

    \b
    Example:
      podrail lab up
      podrail lab run node1 -- lspci -nn
      podrail discover --host lab:node1
      podrail lab down
    """


command.add_command(fabric)


def _name_option(function: Any) -> Any:
    return click.option("--name", default="default", show_default=True, help="Which lab.")(function)


@command.command()
@click.option("--nodes", default=2, show_default=True, help="How many nodes, 2 to 8.")
@_name_option
@output_option("json")
def up(nodes: int, name: str, output: str) -> None:
    """Build the image once, boot the nodes, wait until they answer.

    \b
    Example:
      podrail lab up --nodes 3
    """
    start = time.monotonic()
    lab = bring_up(name, nodes)
    if output == "json":
        echo_json(_listing([lab]))
    else:
        names = ", ".join(node.name for node in lab.nodes)
        click.echo(f"lab {name} is up after {time.monotonic() - start:.0f} s: {names}")
        where = lab.nodes[0].name if name == lifecycle.DEFAULT else f"{name}/{lab.nodes[0].name}"
        click.echo(f"next: podrail discover --host lab:{where}")


def bring_up(name: str, nodes: int, *, keep: bool = True) -> LabState:
    """Packages, image, podrail for the nodes, boot; with progress on standard error."""
    from podrail.lab import build, packages

    lifecycle.check(name, nodes)
    ticker = Ticker()
    try:
        packages.ensure(ticker)
        image = build.ensure_image(ticker)
        podrail = build.build_podrail()
        return lifecycle.up(lifecycle.Wanted(name, nodes, image, podrail, keep), ticker)
    finally:
        ticker.done()


@command.command()
@_name_option
def down(name: str) -> None:
    """Take the lab down; fine when none is up.

    \b
    Example:
      podrail lab down
    """
    click.echo(f"lab {name} is down" if lifecycle.down(name) else f"no lab {name} was up")


@command.command("list")
@output_option("json")
def list_(output: str) -> None:
    """The labs that are up, their nodes and their PFs.

    \b
    Example:
      podrail lab list -o json
    """
    labs = list(lifecycle.running())
    if output == "json":
        echo_json(_listing(labs))
        return
    for node in _listing(labs)["nodes"]:
        pfs = ", ".join(node["pfs"]) or "none seen"
        click.echo(f"{node['lab']}/{node['name']}  {node['state']}  PFs {pfs}")
    if not labs:
        click.echo("no lab is up; start one with: podrail lab up")


def _listing(labs: list[LabState]) -> dict[str, Any]:
    nodes = [_node(lab, node.name) for lab in labs for node in lab.nodes]
    return {"schema": SCHEMA, "nodes": nodes}


def _node(lab: LabState, name: str) -> dict[str, Any]:
    node = lab.node(name)
    found: dict[str, Any] = {
        "name": name, "lab": lab.name, "state": "unreachable", "pfs": [], "console": node.console,
    }  # fmt: skip
    try:
        with Connection(lab.address(name), timeout=3.0) as connection:
            ran = connection.run(["find", "/sys/devices", "-name", "sriov_totalvfs"], timeout=10)
    except (OSError, PodrailError):
        return found
    pfs = sorted(line.split("/")[-2] for line in ran.stdout.splitlines())
    return {**found, "state": "ready", "pfs": pfs}


@command.command(context_settings={"ignore_unknown_options": True})
@click.option("--timeout", type=float, help="Seconds after which it is ended, with exit 124.")
@click.argument("node")
@click.argument("argv", nargs=-1, required=True, type=click.UNPROCESSED)
def run(timeout: float | None, node: str, argv: tuple[str, ...]) -> None:
    """Run a program in a node, joined to this terminal; its exit status is this command's.

    \b
    Example:
      podrail lab run node1 -- ip -d link
      echo 4 | podrail lab run node1 -- tee /sys/bus/pci/devices/0000:43:00.0/sriov_numvfs
    """
    lab, name = lifecycle.find(node)
    stdin = sys.stdin.buffer if sys.stdin else None
    with LabHost(name, lab.address(name)) as host:
        try:
            rc = host.connection.stream(
                argv, stdin, sys.stdout.buffer, sys.stderr.buffer, timeout=timeout
            )
        except FileNotFoundError:
            click.echo(f"podrail: {name} has no program {argv[0]}", err=True)
            rc = 127
    sys.exit(rc)


@command.command()
@click.argument("source")
@click.argument("target")
def copy(source: str, target: str) -> None:
    """Copy a file into a node or out of it.

    \b
    Example:
      podrail lab copy policy.yaml node1:/root/policy.yaml
      podrail lab copy node1:/var/log/dmesg dmesg.txt
    """
    node, _, path = (target if ":" in target else source).partition(":")
    if (":" in target) == (":" in source) or not path.startswith("/"):
        raise UsageError("say one side as NODE:/absolute/path and the other as a local file")
    lab, name = lifecycle.find(node)
    with LabHost(name, lab.address(name)) as host:
        if ":" in target:
            mode = Path(source).stat().st_mode & 0o777
            host.connection.put(path, Path(source).read_bytes(), mode)
        else:
            with Path(target).open("wb") as into:
                host.connection.get(path, into)


_KINDS = "\n".join(f"  {f.usage:<26}{f.says}" for f in FAULTS.values())


@command.command(epilog=f"\b\nKinds:\n{_KINDS}")
@click.option("--undo", is_flag=True, help="Take the fault back.")
@click.argument("node")
@click.argument("kind")
@click.argument("arguments", nargs=-1)
def fault(undo: bool, node: str, kind: str, arguments: tuple[str, ...]) -> None:
    """Break something in a node on purpose, or mend it again.

    \b
    Example:
      podrail lab fault node1 link-down 0
      podrail lab fault --undo node1 link-down 0
    """
    lab, name = lifecycle.find(node)
    host = LabHost(name, lab.address(name))
    click.echo(inflict(Where(lab, name, host, arguments), kind, undo=undo))
