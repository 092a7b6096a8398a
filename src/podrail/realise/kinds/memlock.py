"""Locked memory of the container runtime, which its pods inherit: RDMA registers memory by locking
it. A drop-in for systemd; the runtime is never restarted, only that it must be is told."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from podrail.host.seam import Host
from podrail.inventory.reader import Reader
from podrail.realise.step import Failed, Kind, Step, Value, kind, restrict
from podrail.realise.verified import ask, complaint

UNLIMITED = "infinity"
RUNTIMES = {"containerd": "containerd", "crio": "crio", "docker": "dockerd", "kubelet": "kubelet"}
"""systemd unit → the name of its process."""
TEXT = f"# podrail: RDMA in pods needs locked memory.\n[Service]\nLimitMEMLOCK={UNLIMITED}\n"


def drop_in(unit: str) -> str:
    return f"/etc/systemd/system/{unit}.service.d/50-podrail-memlock.conf"


@kind
class Memlock(Kind):
    """`infinity`, or, as found, unit → podrail's drop-in, None where there is none."""

    name = "memlock"
    lasting = True

    def read(self, host: Host, target: str) -> Value:
        """Of runtimes that have a limit, or have none because of podrail."""
        texts = {unit: _text(host, unit) for unit in _limits(host)}
        short = _short(host)
        return {unit: text for unit, text in texts.items() if text is not None or unit in short}

    def holds(self, host: Host, step: Step) -> bool:
        if isinstance(step.to, Mapping):
            return not self.differing(self.read(host, step.target), step.to)
        return not _short(host)

    def found(self, host: Host, step: Step) -> Value:
        if isinstance(step.to, Mapping):
            return restrict(self.read(host, step.target), step.to)
        return {unit: _text(host, unit) for unit in _short(host)}

    def write(self, host: Host, target: str, value: Value) -> None:
        wanted = value if isinstance(value, Mapping) else dict.fromkeys(_short(host), TEXT)
        for unit, text in wanted.items():
            if text is not None:
                host.place(drop_in(unit), text)
            elif _text(host, unit) is not None:
                host.unlink(drop_in(unit))
        _systemctl(host, "daemon-reload")
        if not isinstance(value, Mapping) and (still := _short(host)):
            raise Failed(
                f"{', '.join(still)} still has a limit on locked memory",
                f"another drop-in comes after podrail's: systemctl cat {next(iter(still))}",
            )

    def says(self, value: Value) -> str:
        if not isinstance(value, Mapping):
            return "unlimited"
        limited = [unit for unit, text in value.items() if text is None]
        return f"limited for {', '.join(limited)}" if limited else "unlimited"

    def pending(self, host: Host, step: Step) -> str | None:
        """What must be restarted before it has the limit that systemd gives it from then on."""
        return "; ".join(_waiting(host)) or None


def _limits(host: Host) -> dict[str, str]:
    """Runtime of this machine → the limit systemd starts it with."""
    found = {}
    for unit in RUNTIMES:
        shown = _systemctl(host, "show", "-p", "LoadState", "-p", "LimitMEMLOCK", f"{unit}.service")
        told = dict(line.split("=", 1) for line in shown.splitlines() if "=" in line)
        if told.get("LoadState") == "loaded":
            found[unit] = told.get("LimitMEMLOCK", "")
    if not found:
        raise Failed(
            f"systemd here knows none of {', '.join(RUNTIMES)}",
            "leave out memlock, or raise the limit where this machine starts its runtime",
        )
    return found


def _short(host: Host) -> dict[str, str]:
    return {unit: limit for unit, limit in _limits(host).items() if limit != UNLIMITED}


def _text(host: Host, unit: str) -> str | None:
    try:
        return host.read(drop_in(unit))
    except FileNotFoundError:
        return None


def _systemctl(host: Host, *words: str) -> str:
    ran = ask(host, ("systemctl", *words), "systemd, or leave out memlock")
    if ran.rc:
        raise Failed(complaint(ran), "memlock needs a machine that systemd runs; leave it out here")
    return ran.stdout


def _waiting(host: Host) -> Iterator[str]:
    running = _running(Reader(host))
    for unit, limit in _limits(host).items():
        now = running.get(RUNTIMES[unit])
        if limit == UNLIMITED and now not in (None, "unlimited"):
            yield (
                f"{unit} runs with {now} bytes of locked memory until it is restarted: "
                f"systemctl restart {unit}"
            )


def _running(reader: Reader) -> dict[str, str]:
    """Process → the limit it was started with (proc(5), /proc/PID/limits)."""
    found: dict[str, str] = {}
    for pid in filter(str.isdecimal, reader.names("/proc", quiet=True)):
        comm = reader.text(f"/proc/{pid}/comm", quiet=True) or ""
        if comm not in RUNTIMES.values() or comm in found:
            continue
        limits = reader.text(f"/proc/{pid}/limits", quiet=True) or ""
        if row := re.search(r"^Max locked memory\s+(\S+)", limits, re.MULTILINE):
            found[comm] = row[1]
    return found
