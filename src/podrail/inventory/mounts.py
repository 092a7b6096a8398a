"""NFS and Lustre mounts with the transport they really use."""

from __future__ import annotations

import re

from podrail.inventory.reader import Reader
from podrail.model.inventory import Mount

_KINDS = ("nfs", "nfs4", "lustre")
_ESCAPE = re.compile(r"\\([0-7]{3})")
_DEVICE = re.compile(r"^device .* mounted on (\S+) with fstype ", re.MULTILINE)
_XPRT = re.compile(r"^\s*xprt:\s*(\w+)", re.MULTILINE)


def read_mounts(reader: Reader) -> tuple[Mount, ...]:
    """The network filesystems of /proc/mounts; mountstats is read only where NFS is mounted."""
    text = reader.text("/proc/mounts", absent="no such file") or ""
    rows = [row for row in map(str.split, text.splitlines()) if len(row) > 3 and row[2] in _KINDS]
    if not rows:
        return ()
    transports = xprts_in(reader.text("/proc/self/mountstats") or "")
    return tuple(_mount(row, transports.get(row[1], [])) for row in rows)


def xprts_in(mountstats: str) -> dict[str, list[str]]:
    """Mount point → the transport of each of its connections (one with `nconnect` unset)."""
    parts = _DEVICE.split(mountstats)
    return {
        target: _XPRT.findall(body) for target, body in zip(parts[1::2], parts[2::2], strict=True)
    }


def _mount(row: list[str], xprts: list[str]) -> Mount:
    source, target, kind, options = row[:4]
    return Mount(
        target=_plain(target),
        source=_plain(source),
        fstype=kind,
        transport=_lustre(source) if kind == "lustre" else _nfs(options, xprts),
        options=options,
        connections=len(xprts) or None,
    )


def _plain(text: str) -> str:
    """/proc/mounts writes blanks and backslashes in octal (fs/proc_namespace.c mangle())."""
    return _ESCAPE.sub(lambda found: chr(int(found[1], 8)), text)


def _nfs(options: str, xprts: list[str]) -> str | None:
    asked = re.search(r"(?:^|,)proto=(\w+)", options)
    return xprts[0] if xprts else asked[1] if asked else None


def _lustre(source: str) -> str | None:
    """The network of a NID (`10.0.0.1@o2ib:/fs`); o2ib is verbs."""
    network = re.search(r"@([a-z0-9]+?)\d*(?=[:,])", source)
    kinds = {"o2ib": "rdma", "tcp": "tcp"}
    return kinds.get(network[1], network[1]) if network else None
