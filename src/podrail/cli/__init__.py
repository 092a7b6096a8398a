"""A thin skin: one file per verb, loaded only when that verb is called.

`podrail --help` may cost six bare interpreter starts, so this module imports click alone.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any

import click

from podrail import __version__
from podrail.model.errors import PodrailError

VERBS = {
    "discover": "What this machine is: NICs, VFs, RDMA, GPUs and how they hang together.",
    "lint": "What is wrong in manifests, and the fix. Needs no machine.",
    "plan": "What manifests would change on a machine, why, and what that disturbs.",
    "apply": "Make it so: VFs as the manifests want them, journalled, with a way back.",
    "reset": "Give the NICs back as they were found.",
    "status": "What is: every PF against what was applied.",
    "agent": "Keep it so: notice drift within a second and mend it.",
    "size": "How many VFs and addresses a pool needs, and which limit binds.",
    "lab": "The virtual cluster: nodes with real SR-IOV and RDMA kernels, no hardware needed.",
    "up": "The whole story on this machine: in the lab if it can, on a twin if not.",
}


class _Said(click.ClickException):
    """A podrail error in click's clothes: one message, the error's own exit code."""

    def __init__(self, error: PodrailError) -> None:
        super().__init__(str(error))
        self.error = error

    @property
    def exit_code(self) -> int:  # type: ignore[override]
        return self.error.exit_code

    def show(self, file: Any = None) -> None:
        click.echo(f"podrail: {self.message}", err=True)


class Verbs(click.Group):
    """A group that knows its verbs by name and loads one only to run it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        command: click.Command = import_module(f"podrail.cli.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl(list(VERBS.items()))

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except PodrailError as error:
            raise _Said(error) from error


@click.group(
    cls=Verbs,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 good, 1 a finding failed (lint: warnings only), 2 usage, "
    "3 invalid manifest, 4 could not measure, 5 refused.",
)
@click.version_option(__version__, message="podrail %(version)s")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """podrail gives every GPU pod its own rail, a hardware VF with RDMA, and proves it.

    \b
    Example:
      podrail lint -f policy.yaml -f network.yaml
      podrail plan -f policy.yaml --host twin:roce-cx6
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main() -> None:
    """The `podrail` program.

    A signal ends it as a shell expects (130, 141). click's own `main` would end it with 1, which
    here reads as a finding that failed.
    """
    try:
        with cli.make_context("podrail", sys.argv[1:]) as context:
            cli.invoke(context)
        if sys.stdout:
            sys.stdout.flush()
    except click.exceptions.Exit as ended:
        sys.exit(ended.exit_code)
    except click.ClickException as said:
        said.show()
        sys.exit(said.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("podrail: interrupted", err=True)
        sys.exit(130)
    except BrokenPipeError:
        _silence()
        sys.exit(141)
    except OSError as failure:
        _silence()
        what = f"{failure.filename}: " if failure.filename else ""
        click.echo(f"podrail: {what}{failure.strerror or failure}", err=True)
        sys.exit(5)


def _silence() -> None:
    """Nothing more can be written: keep the interpreter from trying again at its end."""
    if not sys.stdout:
        return
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
