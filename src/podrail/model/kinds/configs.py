"""JSON that manifests carry inside strings: device plugin configs, CNI configs, IPAM."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import Annotated, Any, TypeVar

from pydantic import Discriminator, Field, Tag

from podrail.model.bundle import Resource
from podrail.model.document import Document, Path, dotted
from podrail.model.finding import Finding, Where
from podrail.model.reach import at
from podrail.model.wire import Open, Place, Wire, validate, wire_names


class DeviceSelectors(Wire):
    vendors: list[str] | None = None
    devices: list[str] | None = None
    drivers: list[str] | None = None
    pci_addresses: list[str] | None = None
    acpi_indexes: list[str] | None = None
    aux_types: list[str] | None = None
    pf_names: list[str] | None = None
    root_devices: list[str] | None = None
    link_types: list[str] | None = None
    ddp_profiles: list[str] | None = None
    p_keys: list[str] | None = Field(None, alias="pKeys")
    is_rdma: bool | None = None
    need_vhost_net: bool | None = None
    vdpa_type: str | None = None


def _one_or_many(value: Any) -> str:
    return "many" if isinstance(value, list) else "one"


Selectors = Annotated[
    Annotated[DeviceSelectors, Tag("one")] | Annotated[list[DeviceSelectors], Tag("many")],
    Discriminator(_one_or_many),
]


class DeviceResource(Wire):
    resource_name: str
    resource_prefix: str | None = None
    device_type: str | None = None
    exclude_topology: bool | None = None
    selectors: Selectors | None = None
    additional_info: Any = None

    def selector_list(self) -> list[DeviceSelectors]:
        """The selectors, of which a device must match one."""
        if isinstance(self.selectors, list):
            return self.selectors
        return [self.selectors] if self.selectors else []


class DevicePluginConfig(Wire):
    """What sriov-network-device-plugin reads."""

    resource_list: list[DeviceResource]


class SharedSelectors(Wire):
    vendors: list[str] | None = None
    device_ids: list[str] | None = Field(None, alias="deviceIDs")
    drivers: list[str] | None = None
    if_names: list[str] | None = None
    link_types: list[str] | None = None


class SharedResource(Wire):
    resource_name: str
    resource_prefix: str | None = None
    rdma_hca_max: int | None = None
    devices: list[str] | None = None
    selectors: SharedSelectors | None = None


class SharedDevicePluginConfig(Wire):
    """What k8s-rdma-shared-dev-plugin reads."""

    periodic_update_interval: int | None = None
    config_list: list[SharedResource]


class Route(Open):
    dst: str | None = None
    gw: str | None = None


class Ipam(Open):
    """The keys of whereabouts, nv-ipam, host-local and static, which share one object."""

    type: str | None = None
    range: str | None = None
    range_start: str | None = Field(None, alias="range_start")
    range_end: str | None = Field(None, alias="range_end")
    exclude: list[str] | None = None
    ip_ranges: list[dict[str, Any]] | None = None
    gateway: str | None = None
    routes: list[Route] | None = None
    network_name: str | None = Field(None, alias="network_name")
    enable_overlapping_ranges: bool | None = Field(None, alias="enable_overlapping_ranges")
    node_slice_size: str | int | None = Field(None, alias="node_slice_size")
    pool_name: str | None = None
    pool_type: str | None = None
    subnet: str | None = None
    host_range_start: str | None = Field(None, alias="rangeStart")
    host_range_end: str | None = Field(None, alias="rangeEnd")
    ranges: list[Any] | None = None
    addresses: list[Any] | None = None


class CniConfig(Open):
    """A CNI config, or a list of them in `plugins`."""

    cni_version: str | None = None
    name: str | None = None
    type: str | None = None
    plugins: list[dict[str, Any]] | None = None
    ipam: dict[str, Any] | None = None


# --- reading them -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class JsonProblem:
    """Why a string is not the JSON it should be; the fields of a finding."""

    where: Where
    actual: str
    fix: str
    expected: str = "valid JSON"


@dataclass(frozen=True, slots=True)
class Embedded:
    """JSON out of a string value, with the way back to its place in the file."""

    resource: Resource
    path: Path
    data: Any
    inner: Document | None

    def where(self, *path: str | int, key: bool = False) -> Where:
        """The place of something inside the JSON; of the string itself when that is not known."""
        full = (*self.resource.base, *self.path)
        if self.inner is None:
            place = self.resource.where(*self.path)
        else:
            place = self.inner.where(path, key=key)
        return Where(place.file, place.line, place.column, dotted((*full, *path)))

    def get(self, *path: str | int) -> Any:
        """The value at a path, or None."""
        return at(self.data, *path)


def embedded_json(resource: Resource, path: Path) -> Embedded | JsonProblem:
    """The JSON in the string at `path` of an object."""
    text = at(resource.data, *path)
    if not isinstance(text, str):
        return JsonProblem(resource.where(*path), _shown(text), "write the JSON as a block: `|`")
    full = (*resource.base, *path)
    try:
        data = json.loads(text)
    except json.JSONDecodeError as wrong:
        return _problem(resource, path, text, wrong)
    except (RecursionError, ValueError):
        return JsonProblem(
            resource.where(*path), "JSON nested too deep, or a number too long", "shorten it"
        )
    inner, repeated = None, None
    if full in resource.document.scalars:
        inner, repeated = resource.document.embedded(full)
    if repeated is not None and repeated.id == "yaml.duplicate-key" and repeated.where:
        place = replace(repeated.where, path=dotted((*full, repeated.where.path)))
        return JsonProblem(place, repeated.actual, repeated.fix, "each key once")
    return Embedded(resource, path, data, inner)


def _shown(value: Any) -> str:
    if value is None:
        return "nothing"
    kind = {dict: "mapping", list: "list", bool: "boolean"}.get(type(value), "number")
    return f"a YAML {kind} instead of text"


def _problem(resource: Resource, path: Path, text: str, wrong: json.JSONDecodeError) -> JsonProblem:
    full = (*resource.base, *path)
    place = resource.where(*path)
    if full in resource.document.scalars:
        line, column = resource.document.inner_place(full, wrong.lineno, wrong.colno)
        place = replace(place, line=line, column=column)
    actual, fix = _explain(text, wrong)
    return JsonProblem(place, f"line {place.line}: {actual}", fix)


_COMMA = "a comma before the closing bracket", "delete that comma"
_SLIPS: tuple[tuple[str, str, str], ...] = (
    (r"^(#|//|/\*)", "a comment, which JSON does not have", "delete the comment"),
    (r"^'", "text in single quotes", 'write it in double quotes: "…"'),
    (r"^(True|False|None)\b", "Python's spelling of a value", "write true, false or null"),
    (r"^[A-Za-z_]\w*\s*:", "a key without quotes", 'write the key in double quotes: "…"'),
    (r"^,\s*[}\]]", *_COMMA),  # where Python ≥ 3.13 points
    (r"^,", "two commas in a row", "delete one of them"),
)
_SLIPS_AFTER: tuple[tuple[str, str, str, str], ...] = (
    (",", r"^[}\]]", *_COMMA),
    ("{", r"^\{", "a template that was never filled in", "replace {{…}} with the real value"),
)


def _explain(text: str, wrong: json.JSONDecodeError) -> tuple[str, str]:
    """The slips behind most broken JSON, in the operator's words."""
    before, rest = text[: wrong.pos].rstrip(), text[wrong.pos :]
    for pattern, actual, fix in _SLIPS:
        if re.match(pattern, rest):
            return actual, fix
    for end, pattern, actual, fix in _SLIPS_AFTER:
        if before.endswith(end) and re.match(pattern, rest):
            return actual, fix
    if not rest.strip():
        return "the JSON ends too early", "close every bracket and quote that was opened"
    if wrong.msg.startswith("Extra data"):
        return f"more text after the JSON: `{_first(rest)}`", "keep one JSON value"
    if "',' delimiter" in wrong.msg:
        return f"no comma before `{_first(rest)}`", "put a comma between the two entries"
    return f"{wrong.msg} at `{_first(rest)}`", "write it as JSON"


def _first(text: str) -> str:
    return text.strip().split("\n")[0][:24]


C = TypeVar("C", bound=Wire)


def read_config(model: type[C], embedded: Embedded) -> tuple[C | None, list[Finding]]:
    """Embedded JSON as a model, with a finding for every fault; keys in any case are accepted.

    The plugins decode with Go's encoding/json, which matches keys without regard to case, and
    upstream's own operator writes `IsRdma`.
    """
    base = (*embedded.resource.base, *embedded.path)
    names = {name.lower(): name for name in wire_names(model)}
    source = embedded.inner or Document(embedded.resource.document.file)
    document = Document(
        source.file,
        keys={_canonical(base, at, names): to for at, to in source.keys.items()},
        values={_canonical(base, at, names): to for at, to in source.values.items()},
        scalars={_canonical(base, at, names): to for at, to in source.scalars.items()},
    )
    if embedded.inner is None:
        place = embedded.where()
        document.values[base] = (place.line, place.column)
    data = _renamed(embedded.data, names)
    return validate(model, data, Place(document, base, embedded.resource.subject))


def _canonical(base: Path, path: Path, names: dict[str, str]) -> Path:
    named = (names.get(p.lower(), p) if isinstance(p, str) else p for p in path)
    return (*base, *named)


def _renamed(data: Any, names: dict[str, str]) -> Any:
    if isinstance(data, list):
        return [_renamed(item, names) for item in data]
    if isinstance(data, dict):
        return {names.get(key.lower(), key): _renamed(v, names) for key, v in data.items()}
    return data
