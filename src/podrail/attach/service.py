"""The attach service: a process of its own that answers the CNI forwarder.

The agent forks workers and therefore has one thread; here there are many. It ends by SIGTERM, after
what it is doing, and what an ADD had begun when it was killed is taken back at the next start.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from functools import partial
from pathlib import Path
from typing import Any

from podrail.attach import netconf
from podrail.attach.ipam.leases import LocalAddresses
from podrail.attach.rail import Rails
from podrail.attach.request import ADD, CHECK, DEL, GC, Request
from podrail.attach.result import render, versions
from podrail.attach.server import Server
from podrail.attach.store import Attachments
from podrail.host.linux import LinuxHost
from podrail.model.errors import PodrailError

SOCKET = "/run/podrail/cni.sock"


def answer(rails: Rails, request: Request) -> dict[str, Any]:
    """Do what a runtime asks."""
    if request.command == ADD:
        return render(rails.add(request), request.version)
    if request.command == DEL:
        rails.delete(request)
    elif request.command == CHECK:
        rails.check(request)
    elif request.command == GC:
        collect(rails, request)
    elif request.command == "VERSION":
        return versions()
    return {}


def collect(rails: Rails, request: Request) -> None:
    """What the runtime does not know of any more is brought back."""
    valid = {(one.container_id, one.ifname) for one in netconf.attachments(request)}
    for one in rails.store.all():
        mine = one.config.get("name") == request.network
        if mine and (one.container, one.ifname) not in valid:
            rails.bring_back(one)


def serve(place: Path, socket: Path) -> None:
    """Until a signal comes."""
    os.umask(0o077)
    place.mkdir(parents=True, exist_ok=True)
    addresses = LocalAddresses(str(place / "leases.db"))
    rails = Rails(LinuxHost(), Attachments(str(place / "attachments.db")), addresses)
    for one in rails.reconcile():
        _tell(f"{one.pci}: an ADD for {one.container} was interrupted; the VF is back")
    stop = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, stop)  # threads inherit it; this one waits for them
    with Server(socket, partial(answer, rails), spool=place / "spool", tell=_tell):
        _tell("attach: serving")
        signal.sigwait(stop)


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main() -> int:
    """`python -m podrail.attach.service`: started by the agent."""
    parser = argparse.ArgumentParser(prog="podrail-attach")
    parser.add_argument("--state", type=Path, default=Path("/var/lib/podrail"))
    parser.add_argument("--socket", type=Path, default=Path(SOCKET))
    given = parser.parse_args()
    try:
        serve(given.state, given.socket)
    except PodrailError as no:
        _tell(f"attach: {no}")
        return no.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
