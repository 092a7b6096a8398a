"""Tiers: which ran, which were left out and why. A tier that is left out says so at the end."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("podrail", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("podrail")

ROOT = Path(__file__).resolve().parents[1]

LATER = "not part of this version"
LAB = "run it with: make test-lab"


def netns_missing() -> str | None:
    """Why the netns tier cannot run here, or None."""
    if os.geteuid() != 0:
        return "needs root"
    if not shutil.which("ip"):
        return "needs the ip program (iproute2)"
    probe = subprocess.run(["ip", "netns", "list"], capture_output=True, check=False)
    unshared = subprocess.run(
        ["unshare", "-n", "ip", "link", "add", "v0", "type", "veth"],
        capture_output=True, check=False,
    )  # fmt: skip
    if probe.returncode or unshared.returncode:
        return f"the kernel refuses: {unshared.stderr.decode().strip() or 'no network namespaces'}"
    return None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    reason = netns_missing()
    for item in items:
        if reason and item.get_closest_marker("netns"):
            item.add_marker(pytest.mark.skip(reason=f"netns tier: {reason}"))


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    lab = config.getoption("markexpr") == "lab"
    netns = "this is the lab's run" if lab else netns_missing()
    said = [
        "unit, twin: left out, this is the lab's run" if lab else "unit, twin: ran",
        f"netns: left out, {netns}" if netns else "netns: ran",
        "lab: ran" if lab else f"lab: left out, {LAB}",
        f"cluster, device: left out, {LATER}",
    ]
    terminalreporter.write_line("tiers  " + " · ".join(said))
