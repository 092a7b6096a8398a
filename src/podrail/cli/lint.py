"""`podrail lint`."""

from __future__ import annotations

import sys

import click

from podrail.cli.shared import (
    counts,
    echo_findings,
    echo_json,
    lint_exit,
    manifest_option,
    output_option,
    prefix_option,
    read_bundle,
)
from podrail.model.finding import Report
from podrail.planning.lint import lint


@click.command()
@manifest_option()
@prefix_option
@output_option("json")
def command(paths: list[str], resource_prefix: str | None, output: str) -> None:
    """What is wrong in manifests, and the fix. Needs no machine.

    Manifests given together are judged together: a pod against its network, a network against its
    policy, a pool against the VFs that will draw from it. Other kinds pass untouched.

    \b
    Example:
      podrail lint -f policy.yaml -f network.yaml -f pod.yaml
      kubectl get sriovnetworks -A -o yaml | podrail lint -f -
    """
    bundle = read_bundle(paths, resource_prefix)
    findings = lint(bundle)
    if output == "json":
        known = [resource for resource in bundle.resources if resource.known]
        read = sum(resource.model is not None for resource in known)
        echo_json(Report(findings, len(known), read).to_json())
    else:
        echo_findings(findings)
        count = len(bundle.resources)
        click.echo(f"{count} object{'' if count == 1 else 's'}: {counts(findings)}")
    sys.exit(lint_exit(findings))
