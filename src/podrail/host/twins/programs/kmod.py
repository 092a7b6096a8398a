"""`modprobe NAME…` and `udevadm settle` of a twin."""

from __future__ import annotations

from collections.abc import Sequence

from podrail.host.seam import Ran
from podrail.host.twin import TwinHost
from podrail.host.twins import modules
from podrail.host.twins.programs.answer import not_modelled, refused, said


def modprobe(host: TwinHost, argv: Sequence[str]) -> Ran:
    """Loads what the machine has on its disk (tests/data/lab/modprobe-vfio-pci.txt)."""
    options = {word for word in argv[1:] if word.startswith("-")}
    names = [word for word in argv[1:] if not word.startswith("-")]
    if not names:
        return refused(argv, 1, "modprobe: ERROR: missing parameters. See -h.")
    if options - {"-a", "-q", "-aq"} or (len(names) > 1 and not options):
        return not_modelled(argv)
    missing = [name for name in names if not modules.load(host, name)]
    if not missing:
        return said(argv, "")
    word = "WARNING" if "-a" in options else "FATAL"
    place = f"/lib/modules/{host.text('/proc/sys/kernel/osrelease')}"
    told = f"modprobe: {word}: Module {missing[0]} not found in directory {place}"
    return refused(argv, 1, "" if options & {"-q", "-aq"} else told)


def udevadm(host: TwinHost, argv: Sequence[str]) -> Ran:
    """`udevadm settle`: a twin's udev is done before anyone can look."""
    return said(argv, "") if list(argv[1:2]) == ["settle"] else not_modelled(argv)
