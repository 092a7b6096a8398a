"""The unit and the container form: they load, and say what the agent needs."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from podrail.agent.wanted import usable
from podrail.cli import VERBS
from podrail.cli.agent import command
from podrail.realise.asked import Asked
from tests.conftest import ROOT

DEPLOY = ROOT / "deploy"
UNIT = (DEPLOY / "podrail-agent.service").read_text()
OBJECTS: list[dict[str, Any]] = list(yaml.safe_load_all((DEPLOY / "agent.yaml").read_text()))


def one(kind: str) -> dict[str, Any]:
    (found,) = [o for o in OBJECTS if o["kind"] == kind]
    return found


def options(words: list[str]) -> click.Context:
    """The options of `podrail agent …`, as click reads them; a wrong one raises."""
    assert words[0] == "agent"
    return command.make_context("agent", words[1:])


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not here")
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    place = tmp_path / "podrail-agent.service"
    place.write_text(UNIT.replace("/usr/bin/podrail", "/bin/true"))
    argv = ["systemd-analyze", "verify", "--man=no", str(place)]
    ran = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout + ran.stderr) == (0, "")


@pytest.mark.parametrize(
    "line",
    [
        "Type=notify", "Restart=always", "StateDirectory=podrail", "KillMode=mixed",
        "Before=kubelet.service containerd.service crio.service",
        "ExecStart=/usr/bin/podrail agent $PODRAIL_AGENT_OPTIONS",
    ],
)  # fmt: skip
def test_the_unit_says(line: str) -> None:
    assert line in UNIT.splitlines()


def test_what_the_work_needs_is_not_forbidden() -> None:
    for word in ("ProtectKernelTunables", "ProtectKernelModules", "PrivateNetwork", "ProtectProc"):
        assert not re.search(rf"^{word}=", UNIT, re.MULTILINE)


def test_the_pod_has_what_it_needs_and_no_token() -> None:
    spec = one("DaemonSet")["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert (spec["hostNetwork"], spec["hostPID"]) == (True, True)
    assert container["securityContext"]["privileged"] is True
    assert spec["automountServiceAccountToken"] is False
    assert one("ServiceAccount")["automountServiceAccountToken"] is False
    mounts = {m["name"]: m["mountPath"] for m in container["volumeMounts"]}
    assert set(mounts) == {v["name"] for v in spec["volumes"]}
    given = options(container["args"]).params
    assert (given["root"], given["paths"]) == (mounts["host"], (mounts["policies"],))
    assert container["readinessProbe"]["exec"]["command"][1] in VERBS


def test_everything_is_in_its_own_namespace() -> None:
    name = one("Namespace")["metadata"]["name"]
    assert {o["metadata"].get("namespace", name) for o in OBJECTS} == {name}


def test_the_first_config_map_wants_nothing() -> None:
    usable(Asked(tuple(one("ConfigMap")["data"].items())))


def test_the_image_starts_the_agent() -> None:
    text = (DEPLOY / "Containerfile").read_text()
    words = [json.loads(found) for found in re.findall(r"^(?:ENTRYPOINT|CMD) (.*)$", text, re.M)]
    assert words[0] == ["podrail"]
    assert options(words[1]).params["root"] == "/host"
