"""What is in the lab's image, and the hash that says two images are the same.

The agent is not part of it: it comes with podrail on the second disk (`payload`), so that
changing podrail never rebuilds the image.
"""

from __future__ import annotations

import hashlib
import importlib.metadata as metadata
import re
from collections.abc import Iterator
from pathlib import Path

from podrail.model.errors import Refused

VERSION = 1
SUITE = "trixie"
KERNEL_SUITE = "trixie-backports"
KERNEL_PACKAGE = "linux-image-amd64"
ARCHITECTURE = "amd64"
PYTHON = "3.13"

GUEST = Path(__file__).with_name("guest")
GUEST_FILES = {
    "init": ("lab-init", 0o755),
    "podrail": ("usr/local/bin/podrail", 0o755),
    "customize": ("lab-customize", 0o755),
}
INITRAMFS_INIT = "initramfs-init"
INITRAMFS_MODULES = ("virtio_pci", "virtio_blk", "ext4", "crc32c-cryptoapi")

PACKAGES = (
    *("busybox-static", "kmod", "udev", "procps", "mount", "python3", "jq", "socat"),
    *("iproute2", "iputils-ping", "ethtool", "tcpdump", "iperf3", "pciutils", "mstflint"),
    *("nftables", "iptables", "conntrack"),
    *("rdma-core", "rdmacm-utils", "ibverbs-utils", "ibverbs-providers"),
    *("infiniband-diags", "perftest"),
    *("nfs-kernel-server", "nfs-common", "rpcbind"),
    *("containerd", "runc", "containernetworking-plugins"),
)

_NO_HARDWARE = (
    *("sound", "drivers/accel", "drivers/ata", "drivers/bluetooth", "drivers/comedi"),
    *("drivers/gpu", "drivers/hid", "drivers/hwmon", "drivers/iio", "drivers/input"),
    *("drivers/isdn", "drivers/md", "drivers/media", "drivers/message", "drivers/mmc"),
    *("drivers/mtd", "drivers/net/can", "drivers/net/usb", "drivers/net/wireless"),
    *("drivers/net/wwan", "drivers/platform", "drivers/scsi", "drivers/soundwire"),
    *("drivers/staging", "drivers/target", "drivers/usb", "drivers/video", "drivers/watchdog"),
    *("fs/btrfs", "fs/ceph", "fs/f2fs", "fs/gfs2", "fs/jfs", "fs/ocfs2", "fs/smb", "fs/xfs"),
    *("net/bluetooth", "net/mac80211", "net/nfc", "net/wireless"),
)
# The kernel packages carry everything; a node has no use for what it can never meet.
EXCLUDES = (
    *("/usr/share/man/*", "/usr/share/locale/*", "/usr/share/doc/*", "/usr/share/info/*"),
    *(f"/usr/lib/modules/*/kernel/{part}/*" for part in _NO_HARDWARE),
)

_LOCK = "requirements.lock"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def recipe_hash() -> str:
    """Twelve hex digits over everything that shapes the image."""
    digest = hashlib.sha256()
    for piece in _pieces():
        digest.update(len(piece).to_bytes(8, "big") + piece)
    return digest.hexdigest()[:12]


def _pieces() -> Iterator[bytes]:
    words = (str(VERSION), SUITE, KERNEL_SUITE, KERNEL_PACKAGE, ARCHITECTURE, PYTHON)
    for group in (words, PACKAGES, EXCLUDES, INITRAMFS_MODULES):
        yield "\n".join(group).encode()
    for name in (*GUEST_FILES, INITRAMFS_INIT):
        yield name.encode()
        yield (GUEST / name).read_bytes()
    yield runtime_lock().encode()


def runtime_lock() -> str:
    """The part of the lock file that podrail needs to run, hashes included."""
    wanted = _closure("podrail")
    blocks = [block for name, block in _blocks(_lock_text()) if name in wanted]
    if not blocks:
        raise Refused(f"{_LOCK} pins none of {', '.join(sorted(wanted))}: run make lock")
    return "".join(blocks)


def _lock_text() -> str:
    package = Path(__file__).resolve().parents[1]
    for place in (package / "lab" / _LOCK, package.parents[1] / _LOCK):
        if place.is_file():
            return place.read_text(encoding="utf-8")
    raise Refused(f"{_LOCK} is missing from this installation: install podrail from its checkout")


def _blocks(text: str) -> Iterator[tuple[str, str]]:
    """Each requirement with its hashes, as (canonical name, lines)."""
    block: list[str] = []
    for line in [*text.splitlines(keepends=True), "end=="]:
        if not line[0].isspace() and block:
            yield _canonical(block[0]), "".join(block)
            block = []
        if line.strip() and not line.startswith("#"):
            block.append(line)


def _closure(name: str, seen: frozenset[str] = frozenset()) -> frozenset[str]:
    """What a distribution needs to run, itself left out.

    Markers are not evaluated: what another platform needs is not in the lock, and drops out there.
    """
    try:
        needs = metadata.requires(name) or []
    except metadata.PackageNotFoundError:
        return seen
    for need in needs:
        other = _canonical(need)
        if "extra ==" not in need and other not in seen:
            seen = _closure(other, seen | {other})
    return seen


def _canonical(requirement: str) -> str:
    found = _NAME.match(requirement)
    return re.sub(r"[-_.]+", "-", found.group().lower()) if found else ""
