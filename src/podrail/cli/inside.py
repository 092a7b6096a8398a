"""Verbs that change a machine run on that machine: in a lab node, by the podrail inside it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import PurePath
from typing import Any

from podrail.lab import lifecycle
from podrail.lab.host import LabHost
from podrail.model.errors import Refused

Manifests = Sequence[tuple[str, str]]

_PLACE = "/run/podrail/manifests"
_SECONDS = 300.0


def in_node(spec: str, verb: str, arguments: Sequence[str], manifests: Manifests = ()) -> int:
    """Run `podrail VERB` in a lab node, joined to this terminal; its exit status."""
    with _carried(spec, manifests) as (host, given):
        argv = ["podrail", verb, *given, *arguments]
        return host.connection.stream(argv, None, sys.stdout.buffer, sys.stderr.buffer)


def asked(spec: str, verb: str, arguments: Sequence[str], manifests: Manifests = ()) -> Any:
    """What `podrail VERB -o json` in a lab node answers."""
    with _carried(spec, manifests) as (host, given):
        ran = host.run(["podrail", verb, *given, *arguments, "-o", "json"], timeout=_SECONDS)
    try:
        return json.loads(ran.stdout)
    except ValueError as no:
        raise Refused(f"podrail {verb} in {spec}: {ran.stderr.strip() or ran.stdout!r}") from no


@contextmanager
def _carried(spec: str, manifests: Manifests) -> Iterator[tuple[LabHost, list[str]]]:
    """The node, with the manifests inside it for as long as they are needed."""
    lab, name = lifecycle.find(spec.removeprefix("lab:"))
    with LabHost(name, lab.address(name)) as host:
        paths = [_path(number, source) for number, (source, _) in enumerate(manifests)]
        for path, (_, text) in zip(paths, manifests, strict=True):
            host.place(path, text)
        try:
            yield host, [word for path in paths for word in ("-f", path)]
        finally:
            for path in paths:
                host.unlink(path)


def _path(number: int, source: str) -> str:
    base = PurePath(source.strip("<>")).name or "manifest"
    suffix = "" if base.endswith((".yaml", ".yml", ".json")) else ".yaml"
    return f"{_PLACE}/{os.getpid()}-{number}/{base}{suffix}"
