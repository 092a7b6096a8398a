"""Files of our own below /etc, and the texts that go into them.

What makes a file ours is its first line. A file without it is somebody else's, and is neither
overwritten nor removed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from podrail.host.seam import Host
from podrail.realise.step import Failed, Kind, Value, kind

MARKER = "# made by podrail"
RDMA_CONF = "/etc/modprobe.d/podrail-rdma.conf"
_UDEV = "/etc/udev/rules.d/"
_NETNS_MODES = {"exclusive": 0, "shared": 1}


def is_ours(text: str) -> bool:
    return text == MARKER or text.startswith(f"{MARKER}\n")


@kind
class File(Kind):
    """The whole text of a file; None where there is to be none."""

    name = "file"
    lasting = True

    def read(self, host: Host, target: str) -> Value:
        try:
            return host.read(target)
        except FileNotFoundError:
            return None

    def write(self, host: Host, target: str, value: Value) -> None:
        now = self.read(host, target)
        if now == value:
            return
        if value is not None and not is_ours(value):
            raise ValueError(f"{target}: a text that does not start with {MARKER!r}")
        if now is not None and not is_ours(now):
            raise Failed(
                f"{target} is there and podrail did not make it: its first line is "
                f"{now.partition(chr(10))[0]!r}, not {MARKER!r}",
                f"see who needs it, and move it away: mv {target} {target}.old",
            )
        if value is None:
            host.unlink(target)
        else:
            host.place(target, value)
        if target.startswith(_UDEV):
            _reload(host)

    def says(self, value: Value) -> str:
        if value is None:
            return "no file"
        lines = str(value).count("\n")
        return f"a file of {lines} line{'' if lines == 1 else 's'}"


def _reload(host: Host) -> None:
    """udevd looks for changed rules only every three seconds; the VFs come sooner."""
    with contextlib.suppress(FileNotFoundError):
        host.run(("udevadm", "control", "--reload"))


# --- what goes into them ----------------------------------------------------------------------


def nm_unmanaged_rule(addresses: Iterable[str]) -> str:
    """NetworkManager is to leave these functions alone (NetworkManager(8), NM_UNMANAGED)."""
    kernels = "|".join(sorted(set(addresses)))
    if not kernels:
        raise ValueError("a rule for no function at all")
    return (
        f"{MARKER}\n"
        f'SUBSYSTEM=="net", ACTION!="remove", KERNELS=="{kernels}", ENV{{NM_UNMANAGED}}="1"\n'
    )


def pf_name_rule(pci: str, name: str) -> str:
    """A PF keeps its name in switchdev, where the kernel gives its port another one.

    Representors hang below the same PCI function; a port name such as `pf0vf3` tells them apart
    (Documentation/networking/representors.rst). Where that attribute cannot be read, as in legacy
    mode, the rule that jumps does not match.
    """
    mine = f'SUBSYSTEM=="net", ACTION=="add", KERNELS=="{pci}"'
    return (
        f"{MARKER}\n"
        f'{mine}, ATTR{{phys_port_name}}=="*pf*[vs]f*", GOTO="podrail_end"\n'
        f'{mine}, NAME="{name}"\n'
        'LABEL="podrail_end"\n'
    )


def rdma_netns_conf(mode: str) -> str:
    """The RDMA namespace mode from the moment ib_core is loaded, for `RDMA_CONF`.

    ib_core may be in the initramfs, which has a copy of /etc/modprobe.d of its own: then the
    initramfs must be made anew (`dracut -f`, `update-initramfs -u`), or the kernel be booted with
    `ib_core.netns_mode=`.
    """
    return f"{MARKER}\noptions ib_core netns_mode={_NETNS_MODES[mode]}\n"
