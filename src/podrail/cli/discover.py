"""`podrail discover`."""

from __future__ import annotations

from pathlib import Path

import click

from podrail.cli.shared import echo_json, echo_yaml, host_options, opened, output_option
from podrail.host.record import RecordingHost
from podrail.inventory import discover
from podrail.inventory.render import render
from podrail.model.errors import UsageError


@click.command()
@host_options(many=False)
@click.option("--dump", metavar="FILE", help="Also write a record that --host FILE replays.")
@output_option("json", "yaml")
def command(host: str, faults: list[str], labels: list[str], dump: str | None, output: str) -> None:
    """What this machine is: NICs, VFs, RDMA, GPUs and how they hang together.

    Reads only. What could not be read is listed with the reason; run as root to see PCI registers.

    \b
    Example:
      podrail discover
      podrail discover --dump node7.json      # on the machine
      podrail discover --host node7.json      # anywhere else
    """
    machine, known = opened(host, faults, labels)
    recording = RecordingHost(machine, known) if dump else None
    inventory = discover(recording or machine, known)
    if dump and recording:
        _write(dump, recording.dump())
    if output == "json":
        echo_json(inventory.to_json())
    elif output == "yaml":
        echo_yaml(inventory.to_json())
    else:
        click.echo("\n".join(render(inventory)))


def _write(file: str, text: str) -> None:
    try:
        Path(file).write_text(text, encoding="utf-8")
    except OSError as failure:
        raise UsageError(f"cannot write {file}: {failure.strerror}") from failure
