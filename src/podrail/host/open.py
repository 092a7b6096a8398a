"""`--host`: which machine a verb looks at."""

from __future__ import annotations

from collections.abc import Sequence

from podrail.host.seam import Host
from podrail.model.errors import UsageError

FORMS = "local, FILE (made by `podrail discover --dump FILE`) or twin:NAME"


def open_host(spec: str, faults: Sequence[str] = ()) -> Host:
    """The machine `spec` names, with every fault file applied to it."""
    host = _open(spec)
    if faults:
        from podrail.host.faults import apply, load

        for path in faults:
            apply(host, load(path))
    return host


def _open(spec: str) -> Host:
    kind, colon, name = spec.partition(":")
    if spec == "local":
        from podrail.host.linux import LinuxHost

        return LinuxHost()
    if kind == "twin" and colon:
        from podrail.host.twins import twin

        return twin(name)
    if kind == "lab" and colon:
        raise UsageError(
            f"--host {spec}: the lab is not part of this version; use twin:igb, its model"
        )
    return _record(spec)


def _record(spec: str) -> Host:
    from pathlib import Path

    from podrail.host.record import RecordedHost

    try:
        text = Path(spec).read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError) as no:
        reason = getattr(no, "strerror", None) or str(no)
        raise UsageError(f"--host {spec}: no such machine ({reason}); it is {FORMS}") from no
    return RecordedHost.from_text(text, spec)
