"""Programs as the kinds of steps run them: one that is not installed is a reason, not a crash."""

from __future__ import annotations

from collections.abc import Sequence

from podrail.host.seam import Host, Ran
from podrail.realise.step import Failed


def run(host: Host, argv: Sequence[str], package: str, timeout: float = 10.0) -> Ran:
    """Run a program; `Failed` where it is not installed."""
    try:
        return host.run(argv, timeout=timeout)
    except FileNotFoundError as no:
        raise Failed(f"{argv[0]} is not installed", f"install the package {package}") from no


def last_words(ran: Ran) -> str:
    """The line in which a program that failed says why."""
    lines = [line.strip() for line in (ran.stdout + "\n" + ran.stderr).splitlines()]
    said = [line for line in lines if line]
    errors = [line for line in said if line.startswith(("-E-", "error", "Error"))]
    return (errors or said or [f"exit {ran.rc}"])[-1]
