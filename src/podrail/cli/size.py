"""`podrail size`."""

from __future__ import annotations

import sys

import click

from podrail.cli.shared import (
    echo_json,
    host_options,
    manifest_option,
    opened,
    output_option,
    read_manifests,
    styled,
)
from podrail.inventory import discover
from podrail.model.bundle import Bundle, read
from podrail.model.errors import ManifestError, UsageError
from podrail.model.finding import Status
from podrail.planning.size import Ask, Port, Sizing, size
from podrail.planning.supply import pools, ports


@click.command()
@click.option("--pods-per-node", type=click.IntRange(0), required=True, help="GPU pods per node.")
@click.option("--vfs-per-pod", type=click.IntRange(1), default=1, show_default=True)
@click.option("--nodes", type=click.IntRange(1), default=1, show_default=True)
@click.option(
    "--buffer", type=click.IntRange(0, 1000), default=20, show_default=True,
    help="Percent of spare VFs; 10 to 20 keeps scheduling flexible.",
)  # fmt: skip
@manifest_option(required=False)
@host_options(many=False, default=None)
@click.option("--pfs", type=click.IntRange(1), help="Without a host: how many PFs a node has.")
@click.option("--totalvfs", type=click.IntRange(1), help="Without a host: sriov_totalvfs of a PF.")
@output_option("json")
def command(
    pods_per_node: int, vfs_per_pod: int, nodes: int, buffer: int, paths: list[str],
    host: str | None, faults: list[str], labels: list[str], pfs: int | None, totalvfs: int | None,
    output: str,
) -> None:  # fmt: skip
    """How many VFs and addresses a pool needs, and which limit binds.

    Exits 1 when something runs out.

    \b
    Example:
      podrail size --pods-per-node 8 --pfs 1 --totalvfs 16
      podrail size --pods-per-node 4 --vfs-per-pod 4 --nodes 10 -f manifests/ --host node7.json
    """
    if (faults or labels) and not host:
        raise UsageError("--fault and --label change a --host: name one")
    if host and (pfs or totalvfs):
        raise UsageError("--pfs and --totalvfs are for when there is no --host: leave one out")
    if pfs and not totalvfs:
        raise UsageError("--pfs also needs --totalvfs, the sriov_totalvfs of each PF")
    bundle = _bundle(paths)
    have = _ports(host, faults, labels, bundle) if host else []
    if totalvfs:
        have = [Port(f"pf{i}", totalvfs) for i in range(pfs or 1)]
    sizing = size(Ask(pods_per_node, vfs_per_pod, nodes, buffer), have, list(pools(bundle)))
    if output == "json":
        echo_json(sizing.to_json())
    else:
        _show(sizing, buffer)
    sys.exit(0 if sizing.fits else 1)


def _bundle(paths: list[str]) -> Bundle:
    """A manifest that cannot be read would quietly leave its limit out."""
    bundle = read(read_manifests(paths)) if paths else Bundle((), ())
    wrong = next((f for f in bundle.findings if f.status is Status.FAIL), None)
    if wrong is not None:
        raise ManifestError(f"{wrong.where}: {wrong.actual}; podrail lint says more")
    return bundle


def _ports(host: str, faults: list[str], labels: list[str], bundle: Bundle) -> list[Port]:
    return ports(discover(*opened(host, faults, labels)), bundle)


def _show(sizing: Sizing, buffer: int) -> None:
    click.echo(
        f"VFs per node   {sizing.minimum} at the least, {sizing.wanted} with {buffer} % spare"
    )
    click.echo(f"               10 to 20 % spare would be {sizing.low} to {sizing.high}")
    if sizing.per_pf is not None:
        click.echo(f"per PF         {sizing.per_pf}")
    click.echo(f"addresses      {sizing.addresses} in the whole cluster")
    for limit in sizing.limits:
        mark = styled("ok  ", fg="green") if limit.spare >= 0 else styled("over", fg="red")
        click.echo(f"{mark} {limit.what}: need {limit.need}, have {limit.have}")
    binding = sizing.binding
    if binding is None:
        click.echo("no limit given: add --host, --totalvfs or -f to check against one")
    elif binding.spare < 0:
        click.echo(f"binds: {binding.what}, short by {-binding.spare}")
    else:
        click.echo(f"binds first: {binding.what}, {binding.spare} to spare")
