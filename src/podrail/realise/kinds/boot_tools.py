"""What keeps the kernel's arguments on a machine: rpm-ostree, grubby, or Debian's grub."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Protocol

from podrail.host.seam import Host, exists
from podrail.realise.kinds.files import MARKER, is_ours
from podrail.realise.kinds.running import last_words, run
from podrail.realise.step import Failed

DROP_IN = "/etc/default/grub.d/90-podrail.cfg"
_OSTREE = "/run/ostree-booted"
_UPDATE_GRUB = ("/usr/sbin/update-grub", "/sbin/update-grub")
_GRUB_CFG = "/boot/grub/grub.cfg"
_LINUX = re.compile(r"^\s*linux(?:efi|16)?\s+\S+[ \t]*(.*)$", re.MULTILINE)
_ARGS = re.compile(r'^args="(.*)"$', re.MULTILINE)
_STAGE_SECONDS = 600.0
"""rpm-ostree makes a whole deployment for one argument."""
# grub-mkconfig sources drop-ins; printf, as echo reads options and backslashes
_FUNCTION = (
    "podrail_without() { ( set -f; for word in $1; do\n"
    '  case " $2 " in *" $word "*) ;; *) printf \'%s \' "$word" ;; esac; done ) }\n'
)


class Tool(Protocol):
    """One way to keep arguments."""

    name: str

    def lines(self, host: Host) -> list[list[str]]:
        """The arguments of each boot entry that is kept."""

    def change(self, host: Host, add: Sequence[str], drop: Sequence[str]) -> None:
        """Change all of them; nothing is to be there twice."""


def tool_of(host: Host, by_hand: str) -> Tool:
    """The tool of this machine; `Failed` where there is none, with what to add by hand."""
    if exists(host, _OSTREE):
        return RpmOstree()
    if _installed(host, ("grubby", "--info=ALL")):
        return Grubby()
    if any(exists(host, path) for path in _UPDATE_GRUB):
        return UpdateGrub()
    raise _by_hand(host, by_hand)


def _installed(host: Host, argv: Sequence[str]) -> bool:
    try:
        host.run(argv)
    except FileNotFoundError:
        return False
    return True


# --- no tool ----------------------------------------------------------------------------------

_PLACES = {
    "talos": "in machine.install.extraKernelArgs of its machine config, with talosctl upgrade",
    "flatcar": "as linux_append in /oem/grub.cfg",
    "cos": "in the kernel command line of the node image; Container-Optimized OS has no tool",
    "bottlerocket": "in settings.boot.kernel-parameters",
}


def _by_hand(host: Host, wanted: str) -> Failed:
    found = ""
    if exists(host, "/etc/os-release"):
        found = host.read("/etc/os-release")
    ids = re.search(r'^ID="?([\w.-]+)', found, re.MULTILINE)
    system = ids[1] if ids else "this system"
    place = _PLACES.get(system, "in its boot loader's configuration")
    return Failed(
        f"nothing on this machine ({system}) keeps kernel arguments: no rpm-ostree, no grubby, "
        "no update-grub",
        f"add them yourself {place}, and reboot: {wanted}",
    )


# --- the tools --------------------------------------------------------------------------------


class RpmOstree:
    """Fedora and RHEL CoreOS; each change is a deployment that the next boot takes."""

    name = "rpm-ostree"

    def lines(self, host: Host) -> list[list[str]]:
        ran = run(host, ("rpm-ostree", "kargs"), self.name, 60.0)
        if ran.rc:
            raise Failed(
                f"`rpm-ostree kargs`: {last_words(ran)}",
                "see `rpm-ostree status`; another transaction may be running",
            )
        return [ran.stdout.split()]

    def change(self, host: Host, add: Sequence[str], drop: Sequence[str]) -> None:
        words = [f"--delete-if-present={arg}" for arg in drop]
        words += [f"--append-if-missing={arg}" for arg in add]
        ran = run(host, ("rpm-ostree", "kargs", *words), self.name, _STAGE_SECONDS)
        if ran.rc:
            raise Failed(
                f"`rpm-ostree kargs {' '.join(words)}`: {last_words(ran)}",
                "see `rpm-ostree status`; another transaction may be running",
            )


class Grubby:
    """RHEL and its kin; grubby(8) puts a new value in place of an old one of the same key."""

    name = "grubby"

    def lines(self, host: Host) -> list[list[str]]:
        ran = run(host, ("grubby", "--info=ALL"), self.name)
        found = [args.split() for args in _ARGS.findall(ran.stdout)]
        if ran.rc or not found:
            raise Failed(f"`grubby --info=ALL`: {last_words(ran)}", "see /boot/loader/entries")
        return found

    def change(self, host: Host, add: Sequence[str], drop: Sequence[str]) -> None:
        words = [f"--remove-args={' '.join(drop)}"] if drop else []
        words += [f"--args={' '.join(add)}"] if add else []
        ran = run(host, ("grubby", "--update-kernel=ALL", *words), self.name, 60.0)
        if ran.rc:
            raise Failed(
                f"`grubby --update-kernel=ALL {' '.join(words)}`: {last_words(ran)}",
                "see whether /boot is writable and has room",
            )


class UpdateGrub:
    """Debian and Ubuntu: a drop-in of our own, and `update-grub` makes grub.cfg anew."""

    name = "update-grub"

    def lines(self, host: Host) -> list[list[str]]:
        try:
            found = _LINUX.search(host.read(_GRUB_CFG))
        except FileNotFoundError:
            found = None
        if found is None:
            raise Failed(
                f"{_GRUB_CFG} starts no kernel, so it is not what boots this machine",
                "add the arguments where its boot loader has them, and reboot",
            )
        return [found[1].split()]

    def change(self, host: Host, add: Sequence[str], drop: Sequence[str]) -> None:
        was = _read(host)
        if was is not None and not is_ours(was):
            raise Failed(
                f"{DROP_IN} is there and podrail did not make it",
                f"see who needs it, and move it away: mv {DROP_IN} {DROP_IN}.old",
            )
        _put(host, merged(was or "", add, drop))
        ran = run(host, ("update-grub",), "grub2-common", 120.0)
        if ran.rc:
            _put(host, was)
            raise Failed(
                f"`update-grub`: {last_words(ran)}",
                "run it by hand; /etc/default/grub or a file in /etc/default/grub.d may be broken",
            )


def _read(host: Host) -> str | None:
    try:
        return host.read(DROP_IN)
    except FileNotFoundError:
        return None


def _put(host: Host, text: str | None) -> None:
    if text is not None:
        host.place(DROP_IN, text)
    elif exists(host, DROP_IN):
        host.unlink(DROP_IN)


# --- the drop-in ------------------------------------------------------------------------------


def merged(was: str, add: Iterable[str], drop: Iterable[str]) -> str | None:
    """The drop-in after another change; None where it would say nothing."""
    ours, others = _listed(was, "with"), _listed(was, "without")
    new, gone = list(add), set(drop)
    kept = [arg for arg in ours if arg not in gone]
    kept += [arg for arg in new if arg not in kept and arg not in others]
    left = [arg for arg in others if arg not in new]
    left += [arg for arg in gone if arg not in ours and arg not in left]
    return drop_in(kept, sorted(left)) if kept or left else None


def _listed(text: str, name: str) -> list[str]:
    found = re.search(rf"^# {name}: (.*)$", text, re.MULTILINE)
    return found[1].split() if found else []


def drop_in(ours: Sequence[str], others: Sequence[str]) -> str:
    """With arguments of ours, and without some that /etc/default/grub has."""
    head = f"{MARKER}\n# with: {' '.join(ours)}\n# without: {' '.join(others)}\n"
    common, usual = "GRUB_CMDLINE_LINUX", "GRUB_CMDLINE_LINUX_DEFAULT"
    if not others:
        return f'{head}{common}="${common} {" ".join(ours)}"\n'
    gone = " ".join(others)
    return (
        f"{head}{_FUNCTION}"
        f'{common}="$(podrail_without "${common}" "{gone}"){" ".join(ours)}"\n'
        f'{usual}="$(podrail_without "${usual}" "{gone}")"\n'
    )
