"""QEMU's own door: cut a link, freeze a node, pull its plug."""

from __future__ import annotations

import json
import socket
from typing import Any

from podrail.model.errors import Refused


def qmp(path: str, command: str, **arguments: Any) -> Any:
    """One command to one machine."""
    try:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(10.0)
            sock.connect(path)
            with sock.makefile("rwb") as door:
                door.readline()  # the greeting
                _say(door, "qmp_capabilities")
                return _say(door, command, **arguments)
    except OSError as failure:
        raise Refused(f"the machine behind {path} does not answer: {failure.strerror}") from failure


def _say(door: Any, command: str, **arguments: Any) -> Any:
    door.write(json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n")
    door.flush()
    while True:
        line = door.readline()
        if not line:
            raise Refused(f"the machine ended while it was asked for {command}")
        answer = json.loads(line)
        if "error" in answer:
            raise Refused(f"QEMU refuses {command}: {answer['error']['desc']}")
        if "return" in answer:
            return answer["return"]
