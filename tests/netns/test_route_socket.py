"""rtnetlink without `ip`: a link goes into another namespace, gets its addresses and comes back."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

pytestmark = pytest.mark.netns

MOVE = """\
import ipaddress, json, os, subprocess
from podrail.attach.kernel.namespace import NotANamespace, opened
from podrail.attach.kernel.socket import RouteSocket

ready, say = os.pipe()
pod_pid = os.fork()
if pod_pid == 0:
    tell = f"echo > /proc/{os.getppid()}/fd/{say}; exec tail -f /dev/null"
    os.execvp("unshare", ["unshare", "-n", "sh", "-c", tell])
os.read(ready, 1)
told = {}
theirs, ours = f"/proc/{pod_pid}/ns/net", "/proc/self/ns/net"
with RouteSocket() as root, opened(theirs) as space, opened(ours) as home:
    index = root.link(name="v0").index
    root.set_link(index, namespace=space, name="net1", mtu=1400)
    with RouteSocket(space) as pod:
        index = pod.link(name="net1").index
        pod.set_link(index, up=True, address="02:00:00:00:00:09")
        first = ipaddress.ip_interface("10.1.0.5/24")
        pod.add_address(index, first)
        pod.add_address(index, ipaddress.ip_interface("fd00::5/64"))
        pod.add_route(index, ipaddress.ip_network("10.9.0.0/16"), "10.1.0.1")
        for name, ask in (("again", lambda: pod.add_address(index, first)),
                          ("nobody", lambda: pod.link(name="nope"))):
            try:
                ask()
            except OSError as no:
                told[name] = no.errno
        shown = ["nsenter", f"--net=/proc/{pod_pid}/ns/net", "ip", "-j"]
        told["addresses"] = json.loads(subprocess.check_output([*shown, "addr", "show", "net1"]))
        told["routes"] = json.loads(subprocess.check_output([*shown, "route"]))
        pod.set_link(index, up=False)
        pod.set_link(index, namespace=home, name="v9")
    back = root.link(name="v9")
    told["back"] = [back.name, back.mtu, back.address, back.up]
try:
    with opened("/proc/self/status"):
        pass
except NotANamespace:
    told["refused"] = True
os.kill(pod_pid, 9)
print(json.dumps(told))
"""


def test_there_and_back() -> None:
    done = subprocess.run(
        ["unshare", "-n", "sh", "-c",
         'ip link add v0 type veth peer name v1 && exec "$0" -c "$1"', sys.executable, MOVE],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    (link,) = told["addresses"]
    assert (link["mtu"], link["address"]) == (1400, "02:00:00:00:00:09")
    assert {one["local"] for one in link["addr_info"]} >= {"10.1.0.5", "fd00::5"}
    assert {"dst": "10.9.0.0/16", "gateway": "10.1.0.1"}.items() <= told["routes"][-1].items()
    assert (told["again"], told["nobody"]) == (17, 19)  # EEXIST, ENODEV
    assert told["back"] == ["v9", 1400, "02:00:00:00:00:09", False]
    assert told["refused"]
