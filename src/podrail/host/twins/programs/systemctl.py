"""`systemctl daemon-reload` and `systemctl show -p …` of a twin: the limits of its services.

systemd reads unit files when it is told to, so a drop-in counts from the next daemon-reload on
(systemctl(1)); a running service keeps the limits it was started with.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from podrail.host.seam import Ran
from podrail.host.twin import TwinHost
from podrail.host.twins.kept import keep, kept
from podrail.host.twins.programs.answer import not_modelled, said

_UNITS = {"containerd": "containerd", "crio": "crio", "docker": "dockerd", "kubelet": "kubelet"}
"""Unit → the name of its process; a unit whose process runs is one the machine has."""
_DEFAULT = "8388608"  # systemd(1): DefaultLimitMEMLOCK


def systemctl(host: TwinHost, argv: Sequence[str]) -> Ran:
    words = list(argv[1:])
    if words == ["daemon-reload"]:
        _load(host)
        return said(argv, "")
    if words[:1] != ["show"] or not words[-1].endswith(".service"):
        return not_modelled(argv)
    asked = [words[i + 1] for i, word in enumerate(words) if word == "-p"]
    if set(asked) - {"LoadState", "LimitMEMLOCK"}:
        return not_modelled(argv)
    told = _told(host, words[-1].removesuffix(".service"))
    return said(argv, "".join(f"{key}={told[key]}\n" for key in told if key in asked))


def _told(host: TwinHost, unit: str) -> dict[str, str]:
    if unit not in _present(host):
        return {"LimitMEMLOCK": _DEFAULT, "LoadState": "not-found"}
    limits = kept(host, "systemd", "limits") or _load(host)
    return {"LimitMEMLOCK": limits[unit], "LoadState": "loaded"}


def _load(host: TwinHost) -> dict[str, str]:
    """At boot, of which the first question after it stands in, and whenever it is told to."""
    limits = {unit: _limit(host, unit) for unit in _present(host)}
    keep(host, "systemd", "limits", limits)
    return limits


def _present(host: TwinHost) -> list[str]:
    running = {p.comm for p in host.machine.processes} if host.machine else set()
    return [unit for unit, comm in _UNITS.items() if comm in running]


def _started(host: TwinHost, unit: str) -> str:
    """What the unit file gives: a twin's services were started by it."""
    processes = host.machine.processes if host.machine else ()
    limit = next((p.memlock for p in processes if p.comm == _UNITS[unit]), _DEFAULT)
    return "infinity" if limit == "unlimited" else limit


def _limit(host: TwinHost, unit: str) -> str:
    """The last drop-in by name wins (systemd.unit(5))."""
    place = f"/etc/systemd/system/{unit}.service.d"
    limit = _started(host, unit)
    for name in sorted(n for n in host.names(place) if n.endswith(".conf")):
        if row := re.search(r"^LimitMEMLOCK=(\S+)", host.text(f"{place}/{name}"), re.MULTILINE):
            limit = row[1]
    return limit
