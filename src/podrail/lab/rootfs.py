"""From packages to a bootable disk: mmdebstrap, mke2fs, and an initramfs written here.

Nothing is mounted and no device is made on the host, so root and any user with subordinate ids
build the same image.
"""

from __future__ import annotations

import os
import shlex
import shutil
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from podrail.lab import recipe
from podrail.lab.programs import Programs
from podrail.model.progress import Meter

_DISK = 4 << 30
"""Sparse: what a node may fill, not what the file takes."""
_STEPS = ("Unpacking ", "Setting up ")


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """One run of mmdebstrap: from a repository to a directory."""

    root: Path
    repository: str
    """A line for sources.list."""
    overlay: Path
    """A tar of what is ours."""
    hook: Path
    packages: Sequence[str]

    def argv(self) -> list[str]:
        """mmdebstrap's argument vector, mmdebstrap(1)."""
        return [
            "mmdebstrap", "--verbose", "--variant=minbase", f"--mode={mode()}",
            f"--architectures={recipe.ARCHITECTURE}", f"--include={','.join(self.packages)}",
            '--aptopt=APT::Install-Recommends "false"',
            '--aptopt=APT::Sandbox::User "root"',
            # The result is thrown away if anything goes wrong: no need to sync every file.
            "--dpkgopt=force-unsafe-io",
            *(f"--dpkgopt=path-exclude={pattern}" for pattern in recipe.EXCLUDES),
            f"--customize-hook=tar-in {shlex.quote(str(self.overlay))} /",
            f"--customize-hook={shlex.quote(str(self.hook))}",
            recipe.SUITE, str(self.root), self.repository,
        ]  # fmt: skip

    def run(self, programs: Programs, meter: Meter) -> None:
        """Runs it, counting dpkg's steps."""
        meter.start("install", f"installing {len(self.packages)} packages into the image")
        seen = 0

        def count(line: str) -> None:
            nonlocal seen
            if line.startswith(_STEPS):
                seen += 1
                meter.at(min(1.0, seen / (len(_STEPS) * len(self.packages))))

        modules = " ".join(recipe.INITRAMFS_MODULES)
        programs.run(self.argv(), count, {"LAB_INITRAMFS_MODULES": modules})


def mode() -> str:
    """How mmdebstrap becomes root for the new system."""
    return "root" if os.geteuid() == 0 else "unshare"


def inside(argv: Sequence[str]) -> list[str]:
    """A command with the new system's user ids: as root simply the command."""
    return [*argv] if os.geteuid() == 0 else ["mmdebstrap", "--unshare-helper", *argv]


def make_disk(root: Path, image: Path, programs: Programs) -> None:
    """The directory as an ext4 file system, owners and all.

    The file is handed over as a descriptor: subordinate ids may write to it, but could not reach it
    by its path in a private home.
    """
    descriptor = os.open(image, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.truncate(descriptor, _DISK)
        os.fchmod(descriptor, 0o666)
        options = "lazy_itable_init=1,lazy_journal_init=1,nodiscard"
        argv = ["mke2fs", "-q", "-F", "-t", "ext4", "-O", "^has_journal", "-m", "0", "-E", options,
                "-L", "lab", "-d", str(root), f"/proc/self/fd/{descriptor}"]  # fmt: skip
        programs.run(inside(argv), pass_fds=(descriptor,))
        os.fchmod(descriptor, 0o644)
    finally:
        os.close(descriptor)


def make_initramfs(parts: Path, image: Path) -> None:
    """busybox, the modules the root disk needs, and our init, as a newc archive."""
    entries: list[tuple[str, int, bytes]] = [
        (name, stat.S_IFDIR | 0o755, b"") for name in ("bin", "dev", "modules", "newroot")
    ]
    entries.append(("bin/busybox", stat.S_IFREG | 0o755, (parts / "busybox").read_bytes()))
    entries += [
        (f"modules/{module.name}", stat.S_IFREG | 0o644, module.read_bytes())
        for module in sorted((parts / "modules").iterdir())
    ]
    script = (recipe.GUEST / recipe.INITRAMFS_INIT).read_bytes()
    entries.append(("init", stat.S_IFREG | 0o755, script))
    image.write_bytes(newc(entries))


def newc(entries: Sequence[tuple[str, int, bytes]]) -> bytes:
    """A cpio archive as the kernel reads it (Documentation/driver-api/early-userspace)."""
    parts = []
    for number, (name, file_mode, data) in enumerate([*entries, ("TRAILER!!!", 0, b"")], 1):
        encoded = name.encode() + b"\0"
        links = 2 if stat.S_ISDIR(file_mode) else 1
        fields = (number, file_mode, 0, 0, links, 0, len(data), 0, 0, 0, 0, len(encoded), 0)
        head = b"070701" + b"".join(b"%08X" % value for value in fields) + encoded
        parts += [_padded(head), _padded(data)]
    return b"".join(parts)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def take_out(root: Path, into: Path, programs: Programs) -> Path:
    """Moves what `customize` prepared for the host out of the new system."""
    parts = into / "parts"
    shutil.copytree(root / "lab-out", parts, symlinks=True)
    programs.run(inside(["rm", "-rf", str(root / "lab-out")]))
    return parts
