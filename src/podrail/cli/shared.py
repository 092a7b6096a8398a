"""What the verbs share: options, reading manifests, opening hosts, printing findings."""

from __future__ import annotations

import json
import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from podrail.host.open import open_host
from podrail.host.seam import Host
from podrail.model.bundle import Bundle, read
from podrail.model.errors import ManifestError, UsageError
from podrail.model.finding import Finding, Status

F = TypeVar("F", bound=Callable[..., Any])

_SUFFIXES = (".yaml", ".yml", ".json")
_MAX_BYTES = 16 * 1024 * 1024
_MARGIN = " " * 11


def output_option(*formats: str) -> Callable[[F], F]:
    """`-o`, with text first."""
    return click.option(
        "-o", "--output", type=click.Choice(["text", *formats]), default="text",
        show_default=True, help="How to print the result.",
    )  # fmt: skip


def host_options(*, many: bool, default: str | None = "local") -> Callable[[F], F]:
    """`--host`, `--fault` and `--label`."""

    def decorate(function: F) -> F:
        again = "; repeat for several machines" if many else ""
        for option in (
            click.option(
                "--label", "labels", multiple=True, metavar="KEY=VALUE",
                help="Add a node label, as a cluster would have set it.",
            ),
            click.option(
                "--fault", "faults", multiple=True, metavar="FILE", type=click.Path(),
                help="Change a twin or a record before looking at it.",
            ),
            click.option(
                "--host", "hosts" if many else "host", multiple=many, metavar="HOST",
                default=[default] if many and default else default, show_default=default,
                help=f"local, a record FILE, twin:NAME or lab:NODE{again}.",
            ),
        ):  # fmt: skip
            function = option(function)
        return function

    return decorate


def manifest_option(*, required: bool = True) -> Callable[[F], F]:
    """`-f`."""
    return click.option(
        "-f", "--file", "paths", multiple=True, required=required, metavar="PATH",
        help="A manifest, a directory of them, or - for standard input; repeatable.",
    )  # fmt: skip


def consent_options(function: F) -> F:
    """`--allow-management` and `--firmware`: what is done only when somebody says so."""
    function = click.option(
        "--firmware", is_flag=True,
        help="Set a card's firmware (mstconfig) where a policy needs it; takes a reboot, reported.",
    )(function)  # fmt: skip
    return click.option(
        "--allow-management", multiple=True, metavar="PF",
        help="Let this PF (name or address) change although the machine is reached through it.",
    )(function)  # fmt: skip


def parse_labels(pairs: Sequence[str]) -> dict[str, str]:
    """`k=v` pairs, with the offender named."""
    labels = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise UsageError(f"--label {pair!r} is not KEY=VALUE, for example --label pool=gpu")
        labels[key] = value
    return labels


def opened(spec: str, faults: Sequence[str], labels: Sequence[str]) -> tuple[Host, dict[str, str]]:
    """A host and the labels its node has beyond those the hardware gives it."""
    host = _lab_node(spec, faults) if spec.startswith("lab:") else open_host(spec, faults)
    return host, {**host.labels, **parse_labels(labels)}


def _lab_node(spec: str, faults: Sequence[str]) -> Host:
    from podrail.lab import lifecycle
    from podrail.lab.host import LabHost

    if faults:
        raise UsageError("--fault is for twins and records; break a lab with: podrail lab fault")
    lab, node = lifecycle.find(spec.removeprefix("lab:"))
    host = LabHost(node, lab.address(node))
    context = click.get_current_context(silent=True)
    if context:
        context.call_on_close(host.close)
    return host


def prefix_option(function: F) -> F:
    """`--resource-prefix`."""
    return click.option(
        "--resource-prefix", metavar="PREFIX",
        help="The device plugin's prefix, where no NAD, plugin or operator namespace tells it.",
    )(function)  # fmt: skip


def read_bundle(paths: Sequence[str], resource_prefix: str | None = None) -> Bundle:
    """The objects in the manifests. None at all is an error: what feeds a pipe may have failed."""
    bundle = read(read_manifests(paths), resource_prefix)
    if not bundle.resources and not bundle.findings:
        raise ManifestError(f"no object in {', '.join(paths)}: there is nothing to look at")
    return bundle


def read_manifests(paths: Sequence[str]) -> list[tuple[str, str]]:
    """Every manifest as (name, text), in a stable order."""
    found = [item for path in paths for item in _expand(path)]
    if not found:
        raise UsageError(f"no manifest in {', '.join(paths)} (looked for *.yaml, *.yml, *.json)")
    return list(dict.fromkeys(found))


def _expand(path: str) -> Iterator[tuple[str, str]]:
    if path == "-":
        yield "<stdin>", _decode(sys.stdin.buffer.read(_MAX_BYTES + 1), "<stdin>")
        return
    place = Path(path)
    if os.path.isdir(place):
        for file in _walk(place):
            yield from _read(file)
    else:
        yield from _read(place)


def _walk(folder: Path) -> Iterator[Path]:
    """The manifests below a directory; one that cannot be looked into is said, not skipped."""

    def refuse(failure: OSError) -> None:
        raise UsageError(f"cannot read {failure.filename}: {failure.strerror}")

    for at, folders, files in os.walk(folder, onerror=refuse):
        # a mounted ConfigMap keeps its files a second time below `..data`
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        names = sorted(name for name in files if not name.startswith("."))
        yield from (Path(at) / name for name in names if Path(name).suffix in _SUFFIXES)


def _read(file: Path) -> Iterator[tuple[str, str]]:
    try:
        with file.open("rb") as stream:
            yield str(file), _decode(stream.read(_MAX_BYTES + 1), str(file))
    except OSError as failure:
        raise UsageError(f"cannot read {file}: {failure.strerror}") from failure


def _decode(raw: bytes, name: str) -> str:
    if len(raw) > _MAX_BYTES:
        raise UsageError(f"{name} is larger than {_MAX_BYTES >> 20} MiB, too large for manifests")
    return raw.decode("utf-8", "replace").lstrip("\ufeff")


# --- printing ---------------------------------------------------------------------------------


def clean(value: object) -> str:
    """Text of a stranger without what a terminal would obey."""
    text = str(value).encode("utf-8", "backslashreplace").decode()
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def styled(text: str, **look: Any) -> str:
    """Colour where it is wanted: https://no-color.org."""
    return text if os.environ.get("NO_COLOR") else click.style(text, **look)


def say(line: str) -> None:
    click.echo(line.encode("utf-8", "backslashreplace").decode())


def echo_json(value: Any) -> None:
    """JSON that is valid UTF-8 whatever a file was called."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    click.echo(text.encode("utf-8", "backslashreplace").decode())


def echo_yaml(value: Any) -> None:
    import yaml

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    click.echo(yaml.dump(value, Dumper=dumper, sort_keys=False, allow_unicode=True), nl=False)


_LOOK = {
    Status.FAIL: ("error", "red"),
    Status.WARN: ("warning", "yellow"),
    Status.UNKNOWN: ("unknown", "magenta"),
    Status.PASS: ("pass", "green"),
    Status.SKIP: ("skip", "white"),
}


def echo_findings(findings: Iterable[Finding]) -> None:
    """Each finding: where, what was found and wanted, why it matters, what to do."""
    for finding in findings:
        word, colour = _LOOK[finding.status]
        place = finding.where or finding.subject
        head = styled(word, fg=colour, bold=True)
        say(f"{head}  {clean(place)}  {styled(finding.id, bold=True)}")
        if finding.where and finding.subject.kind != "file":
            at = f" at {finding.where.path}" if finding.where.path else ""
            _line("in", f"{finding.subject}{at}")
        _line("found", finding.actual)
        _line("wanted", finding.expected)
        _line("why", finding.why)
        _line("fix", finding.fix, fg="cyan")


def _line(word: str, text: str, **look: Any) -> None:
    """One part of a finding; on a terminal it keeps to its column."""
    rows = [clean(text)]
    if sys.stdout.isatty():
        width = max(40, shutil.get_terminal_size().columns - len(_MARGIN) - 1)
        rows = textwrap.wrap(rows[0], width, break_long_words=False, break_on_hyphens=False)
    for at, row in enumerate(rows or [""]):
        margin = f"    {word:<7}" if at == 0 else _MARGIN
        say(margin + (styled(row, **look) if look else row))


def counts(findings: Sequence[Finding]) -> str:
    """`2 errors, 1 warning`."""
    errors = sum(f.status is Status.FAIL for f in findings)
    warnings = sum(f.status is Status.WARN for f in findings)
    parts = [
        f"{n} {noun}{'' if n == 1 else 's'}"
        for n, noun in ((errors, "error"), (warnings, "warning"))
        if n
    ]
    return ", ".join(parts) or "clean"


def lint_exit(findings: Sequence[Finding]) -> int:
    """0 clean, 1 warnings only, 3 something that cannot work."""
    if any(f.status is Status.FAIL for f in findings):
        return 3
    return 1 if findings else 0
