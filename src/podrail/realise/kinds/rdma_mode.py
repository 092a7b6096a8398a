"""The RDMA namespace mode: whether every network namespace sees every RDMA device."""

from __future__ import annotations

from podrail.host.seam import Host
from podrail.inventory.rdma import netns_in
from podrail.realise.kinds.files import RDMA_CONF, rdma_netns_conf
from podrail.realise.kinds.running import last_words, run
from podrail.realise.step import Failed, Kind, Step, Value, kind

_PACKAGE = "iproute2 (RHEL: iproute)"


@kind
class RdmaNetns(Kind):
    """`shared` or `exclusive`. A `file` step beside it keeps the mode over a boot; where the kernel
    does not change it now, that file is how it comes true, and the boot is reported."""

    name = "rdma-netns"
    title = "RDMA namespace mode"

    def read(self, host: Host, target: str) -> Value:
        ran = run(host, ("rdma", "-j", "system"), _PACKAGE)
        mode = None if ran.rc else netns_in(ran.stdout)
        if mode is None:
            raise Failed(
                f"`rdma system` tells no netns mode: {last_words(ran)}",
                "load RDMA support (modprobe ib_core), or update iproute2 to 5.3 or later",
            )
        return mode

    def write(self, host: Host, target: str, value: Value) -> None:
        now = self.read(host, target)
        if now == value:
            return
        ran = run(host, ("rdma", "system", "set", "netns", str(value)), _PACKAGE)
        if ran.rc and "busy" in ran.stderr.lower():
            return  # rdma_compatdev_set: not while there is another namespace; see `pending`
        if ran.rc or self.read(host, target) != value:
            raise Failed(
                f"RDMA netns mode stays {now}, wanted {value}: {last_words(ran)}",
                "run as root in the host's network namespace; look at `dmesg`",
            )

    def holds(self, host: Host, step: Step) -> bool:
        return step.to in (self.read(host, step.target), _kept(host))

    def pending(self, host: Host, step: Step) -> str | None:
        now = self.read(host, step.target)
        if now == step.to:
            return None
        return (
            f"RDMA namespace mode is {now} and becomes {step.to} with a reboot: the kernel changes "
            "it only while there is no other network namespace. Where ib_core is in the initramfs, "
            "make that anew first"
        )


def _kept(host: Host) -> str | None:
    """The mode that our own file brings at the next boot."""
    try:
        text = host.read(RDMA_CONF)
    except OSError:
        return None
    return next((mode for mode in ("shared", "exclusive") if text == rdma_netns_conf(mode)), None)
