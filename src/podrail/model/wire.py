"""The YAML edge: upstream's wire form as strict pydantic models, and its errors as findings.

Nothing here is used inside the planner: a model is read once, checked, and left behind.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails

from podrail.model.cutting import Left
from podrail.model.document import Document, Path, dotted
from podrail.model.finding import LINT, Finding, Status, Subject

_ROUNDS = 10


class Wire(BaseModel):
    """A strict piece of a manifest: unknown keys and loose types are errors."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, alias_generator=to_camel, populate_by_name=False
    )


class Open(Wire):
    """A piece of a manifest of which podrail knows only the part it needs."""

    model_config = ConfigDict(extra="allow")


class Metadata(Open):
    name: str | None = None
    generate_name: str | None = None
    namespace: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


M = TypeVar("M", bound=Wire)


class Object(Wire):
    """What every Kubernetes object has."""

    api_version: str
    kind: str
    metadata: Metadata


class OpenObject(Object):
    """An object of which podrail reads a few fields; what else it says is upstream's business."""

    model_config = ConfigDict(extra="allow")


@dataclass(frozen=True, slots=True)
class Place:
    """An object's place: its document and the path to it inside."""

    document: Document
    base: Path
    subject: Subject
    was: Path = ()
    """The place of a fault below `base`, as it was written."""


def validate(model: type[M], data: Any, place: Place) -> tuple[M | None, list[Finding]]:
    """The object as a model, with a finding for every fault.

    What is at fault is cut out and the rest read again, as the API server prunes what it does not
    know, so that one slip does not hide the others. None when too little is left.
    """
    findings: list[Finding] = []
    left = Left(data)
    for _ in range(_ROUNDS):
        try:
            return model.model_validate(left.data), findings
        except ValidationError as wrong:
            faults = left.faults(wrong.errors(include_url=False))
        findings.extend(
            _finding(model, left.data, path, errors, replace(place, was=left.was(path)))
            for path, errors in faults.items()
            if left.was(path) not in left.gone
        )
        if not left.cut(faults):
            break
    return None, findings


# --- errors → findings ------------------------------------------------------------------------


def _finding(
    model: type[Wire], data: Any, path: Path, errors: Sequence[ErrorDetails], place: Place
) -> Finding:
    if errors[0]["type"] == "extra_forbidden":
        return _unknown_key(model, path, place)
    if errors[0]["type"] == "missing":
        return _missing(path, data, place)
    return _bad_value(errors, place)


def _make(
    id: str, place: Place, *, actual: str, expected: str, why: str, fix: str, key: bool = False
) -> Finding:
    return Finding(
        id, LINT, place.subject, Status.FAIL, actual, expected, why, fix,
        where=place.document.where((*place.base, *place.was), key=key),
    )  # fmt: skip


_PRUNED = (
    "the API server drops a key it does not know (or refuses the object when strict), "
    "so what it says never takes effect"
)


def _unknown_key(model: type[Wire], path: Path, place: Place) -> Finding:
    key, above = str(path[-1]), dotted(place.was[:-1]) or "the top level"
    siblings = _names(_at(model, path[:-1]))
    home = _home(model, key, path[:-1])
    if home is not None:
        there = dotted(home) or "the top level"
        return _make(
            "schema.misplaced-key", place, key=True,
            actual=f"`{key}` stands under `{above}`", expected=f"`{key}` belongs to `{there}`",
            why=_PRUNED, fix=f"move `{key}` under `{there}`",
        )  # fmt: skip
    near = _nearest(key, siblings)
    return _make(
        "schema.unknown-key", place, key=True,
        actual=f"`{key}` under `{above}`",
        expected=f"`{near}`" if near else f"one of {', '.join(siblings) or 'no keys'}",
        why=_PRUNED,
        fix=f"write `{near}` instead of `{key}`" if near else f"delete `{key}`",
    )  # fmt: skip


def _missing(path: Path, data: Any, place: Place) -> Finding:
    *parent, key = path
    here = data
    for part in parent:
        here = here[part]
    near = _nearest(str(key), list(here)) if isinstance(here, dict) else None
    return _make(
        "schema.missing", place,
        actual=f"no `{key}` under `{dotted(place.was[:-1]) or 'the top level'}`",
        expected=f"`{key}`, which is required", why="the API server refuses the object",
        fix=f"rename `{near}` to `{key}`" if near else f"add `{key}`",
    )  # fmt: skip


def _bad_value(errors: Sequence[ErrorDetails], place: Place) -> Finding:
    full = (*place.base, *place.was)
    found, source = errors[0]["input"], place.document.source(full)
    wants_text = len(errors) == 1 and errors[0]["type"] in ("string_type", "literal_error")
    trap = wants_text and isinstance(found, bool | int | float) and source is not None
    if trap and not place.document.quoted(full):
        return _trap(found, str(source), place)
    expected = " or ".join(dict.fromkeys(_expected(error) for error in errors))
    return _make(
        "schema.value", place, actual=_show(found), expected=expected,
        why="the API server refuses the object",
        fix=f"set `{dotted(place.was)}` to {expected}" if place.was else f"write {expected}",
    )  # fmt: skip


def _trap(found: Any, source: str, place: Place) -> Finding:
    boolean, key = isinstance(found, bool), place.was[-1] if place.was else ""
    return _make(
        "yaml.boolean-trap" if boolean else "yaml.number-trap", place,
        actual=f"`{source}` without quotes, which YAML reads as "
        f"{'a boolean' if boolean else 'a number'}",
        expected=f'the text "{source}"',
        why="the API server wants a string here and refuses the object",
        fix=f'write "{source}" with quotes' if isinstance(key, int) else f'write {key}: "{source}"',
    )  # fmt: skip


def _show(value: Any) -> str:
    text = (
        "null" if value is None else str(value).lower() if isinstance(value, bool) else repr(value)
    )
    return text if len(text) < 80 else text[:77] + "…"


_KINDS = {
    "string_type": "a string", "int_type": "a whole number", "bool_type": "true or false",
    "list_type": "a list", "dict_type": "a mapping", "model_type": "a mapping",
    "model_attributes_type": "a mapping", "float_type": "a number",
}  # fmt: skip


def _expected(error: ErrorDetails) -> str:
    context = error.get("ctx", {})
    match error["type"]:
        case "literal_error":
            return str(context["expected"])
        case "greater_than_equal":
            return f"a number ≥ {context['ge']}"
        case "less_than_equal":
            return f"a number ≤ {context['le']}"
        case "string_pattern_mismatch":
            return f"text matching {context['pattern']}"
        case kind if kind in _KINDS:
            return _KINDS[kind]
        case _:
            return error["msg"].removeprefix("Value error, ")


# --- what the schema knows --------------------------------------------------------------------


def _models(annotation: Any) -> Iterator[type[Wire]]:
    """The models inside a field's type: through Optional, list, dict, Annotated."""
    if isinstance(annotation, type) and issubclass(annotation, Wire):
        yield annotation
    elif get_origin(annotation) is Annotated:
        yield from _models(get_args(annotation)[0])
    elif get_origin(annotation) not in (None, Literal):
        for inner in get_args(annotation):
            yield from _models(inner)


@cache
def _fields(model: type[Wire]) -> dict[str, tuple[type[Wire], ...]]:
    """Wire name → the models below it."""
    return {
        (f.alias or name): tuple(_models(f.annotation)) for name, f in model.model_fields.items()
    }


def wire_names(model: type[Wire]) -> set[str]:
    """Every key a model and the models below it know."""
    names: set[str] = set()
    for name, below in _fields(model).items():
        names.add(name)
        for inner in below:
            names |= wire_names(inner)
    return names


def _names(models: Sequence[type[Wire]]) -> list[str]:
    return sorted({name for model in models for name in _fields(model)})


def _at(model: type[Wire], path: Path) -> list[type[Wire]]:
    here = [model]
    for part in path:
        if isinstance(part, str):
            here = [below for m in here for below in _fields(m).get(part, ())]
    return here


@cache
def _homes(model: type[Wire], key: str, above: Path = ()) -> list[Path]:
    """Where in this kind a key of that name belongs, nearest to the root first."""
    if len(above) > 6 or model is Metadata:
        return []
    found = [above] if key in _fields(model) else []
    for name, below in _fields(model).items():
        for inner in below:
            found.extend(_homes(inner, key, (*above, name)))
    return sorted(found, key=len)


def _home(model: type[Wire], key: str, above: Path) -> Path | None:
    """Where a key that stands under `above` belongs: the nearest place that knows it."""
    here = tuple(part for part in above if isinstance(part, str))

    def steps(home: Path) -> int:
        shared = next((n for n, (a, b) in enumerate(zip(here, home, strict=False)) if a != b), None)
        common = min(len(here), len(home)) if shared is None else shared
        return len(here) + len(home) - 2 * common

    return min(_homes(model, key), key=steps, default=None)


def _nearest(key: str, names: Sequence[str]) -> str | None:
    """The likeliest meant name: spelling aside from case, then one slip of the hand."""
    folded = {name.lower(): name for name in reversed(list(names))}
    if key.lower() in folded and folded[key.lower()] != key:
        return folded[key.lower()]
    near = difflib.get_close_matches(key.lower(), folded, n=1, cutoff=0.75)
    return folded[near[0]] if near and folded[near[0]] != key else None
