"""The YAML edge: upstream's wire form as strict pydantic models, and its errors as findings.

Nothing here is used inside the planner: a model is read once, checked, and left behind.
"""

from __future__ import annotations

import copy
import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails

from podrail.model.document import Document, Path, dotted
from podrail.model.finding import LINT, Finding, Status, Subject

_ROUNDS = 4


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


@dataclass(frozen=True, slots=True)
class Place:
    """An object's place: its document and the path to it inside."""

    document: Document
    base: Path
    subject: Subject


def validate(model: type[M], data: Any, place: Place) -> tuple[M | None, list[Finding]]:
    """The object as a model, with a finding for every fault.

    What is at fault is cut out and the rest read again, as the API server prunes what it does not
    know, so that one slip does not hide the others. None when too little is left.
    """
    findings: list[Finding] = []
    seen: set[tuple[Any, ...]] = set()
    data = copy.deepcopy(data)
    for _ in range(_ROUNDS):
        try:
            return model.model_validate(data), findings
        except ValidationError as wrong:
            errors = wrong.errors(include_url=False)
        for error in errors:
            if error["loc"] not in seen:
                seen.add(error["loc"])
                findings.append(_finding(model, data, error, place))
        if not all(_cut(data, _real_path(data, e["loc"])) for e in errors):
            return None, findings
    return None, findings


def _cut(data: Any, path: Path) -> bool:
    """Remove one value; False when it is required or not there."""
    if not path:
        return False
    for part in path[:-1]:
        data = data[part]
    last = path[-1]
    if isinstance(data, dict) and last in data:
        del data[last]
        return True
    if isinstance(data, list) and isinstance(last, int) and last < len(data):
        data[last] = None
        return data.count(None) < len(data)
    return False


def _has(data: Any, part: str | int) -> bool:
    if isinstance(data, list):
        return isinstance(part, int) and part < len(data)
    return isinstance(data, Mapping) and part in data


def _real_path(data: Any, loc: Sequence[str | int]) -> Path:
    """pydantic's location without the union branches it mixes in."""
    path: list[str | int] = []
    for part in loc:
        if _has(data, part):
            data = data[part]
        elif part is not loc[-1] or isinstance(data, list | str | int | float | bool):
            continue
        path.append(part)
    return tuple(path)


# --- errors → findings ------------------------------------------------------------------------


def _finding(model: type[Wire], data: Any, error: ErrorDetails, place: Place) -> Finding:
    path = _real_path(data, error["loc"])
    if error["type"] == "extra_forbidden":
        return _unknown_key(model, path, place)
    if error["type"] == "missing":
        return _missing(model, path, data, place)
    return _bad_value(path, error, place)


def _make(
    id: str, place: Place, path: Path, *, actual: str, expected: str, why: str, fix: str,
    key: bool = False,
) -> Finding:  # fmt: skip
    return Finding(
        id, LINT, place.subject, Status.FAIL, actual, expected, why, fix,
        where=place.document.where((*place.base, *path), key=key),
    )  # fmt: skip


_PRUNED = (
    "the API server drops a key it does not know (or refuses the object when strict), "
    "so what it says never takes effect"
)


def _unknown_key(model: type[Wire], path: Path, place: Place) -> Finding:
    *parent, key = path
    above = dotted(tuple(parent)) or "the top level"
    siblings = _names(_at(model, tuple(parent)))
    homes = _homes(model, str(key))
    if homes:
        home = dotted(homes[0]) or "the top level"
        return _make(
            "schema.misplaced-key", place, path, key=True,
            actual=f"`{key}` stands under `{above}`",
            expected=f"`{key}` belongs to `{home}`",
            why=_PRUNED, fix=f"move `{key}` under `{home}`",
        )  # fmt: skip
    near = _nearest(str(key), siblings)
    return _make(
        "schema.unknown-key", place, path, key=True,
        actual=f"`{key}` under `{above}`",
        expected=f"`{near}`" if near else f"one of {', '.join(siblings) or 'no keys'}",
        why=_PRUNED,
        fix=f"write `{near}` instead of `{key}`" if near else f"delete `{key}`",
    )  # fmt: skip


def _missing(model: type[Wire], path: Path, data: Any, place: Place) -> Finding:
    *parent, key = path
    here = data
    for part in parent:
        here = here[part]
    near = _nearest(str(key), list(here)) if isinstance(here, dict) else None
    fix = f"rename `{near}` to `{key}`" if near else f"add `{key}`"
    return _make(
        "schema.missing", place, path,
        actual=f"no `{key}` under `{dotted(tuple(parent)) or 'the top level'}`",
        expected=f"`{key}`, which is required", why="the API server refuses the object", fix=fix,
    )  # fmt: skip


def _bad_value(path: Path, error: ErrorDetails, place: Place) -> Finding:
    full = (*place.base, *path)
    found, source = error["input"], place.document.source(full)
    wants_text = error["type"] in ("string_type", "literal_error")
    trap = wants_text and isinstance(found, bool | int | float) and source is not None
    if not trap or place.document.quoted(full):
        return _make(
            "schema.value", place, path, actual=_show(found), expected=_expected(error),
            why="the API server refuses the object",
            fix=f"set `{dotted(path)}` to {_expected(error)}",
        )  # fmt: skip
    kind = "a boolean" if isinstance(found, bool) else "a number"
    return _make(
        "yaml.boolean-trap" if isinstance(found, bool) else "yaml.number-trap", place, path,
        actual=f"`{source}` without quotes, which YAML reads as {kind}",
        expected=f'the text "{source}"',
        why="the API server wants a string here and refuses the object",
        fix=f'write {path[-1] if path else ""}: "{source}"',
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


def _nearest(key: str, names: Sequence[str]) -> str | None:
    """The likeliest meant name: spelling aside from case, then one slip of the hand."""
    folded = {name.lower(): name for name in reversed(list(names))}
    if key.lower() in folded and folded[key.lower()] != key:
        return folded[key.lower()]
    near = difflib.get_close_matches(key.lower(), folded, n=1, cutoff=0.75)
    return folded[near[0]] if near and folded[near[0]] != key else None
