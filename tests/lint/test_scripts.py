"""Shell text is found wherever a manifest carries it, and a fault is placed on its own line."""

from __future__ import annotations

import base64

import pytest

from podrail.model.bundle import read
from podrail.planning.lint import lint
from podrail.planning.lint.scripts import scripts

BAD = "modprobe rpcrdma_core"

CONFIG_MAP = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: checks
data:
  run.sh: |
    {}
"""

POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: checks
spec:
  containers:
    - name: checks
      image: nvcr.io/nvidia/pytorch:25.10-py3
      command: {}
      args: {}
"""

MACHINE = """\
apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfig
metadata:
  name: 99-worker-modules
  labels:
    machineconfiguration.openshift.io/role: worker
spec:
  config:
    ignition:
      version: 3.2.0
    storage:
      files:
        - path: /etc/modules-load.d/nfs.conf
          contents:
            source: {}
"""


def _places(text: str, id: str) -> list[int]:
    found = lint(read([("a.yaml", text)]))
    return [f.where.line for f in found if f.id == id and f.where]


def test_line_inside_a_block() -> None:
    text = CONFIG_MAP.format("set -e\n    echo one\n\n    " + BAD)
    assert _places(text, "command.no-such-module") == [10]


def test_comment_is_not_a_command() -> None:
    text = CONFIG_MAP.format(f"# {BAD}\n    modprobe rpcrdma # not rpcrdma_core")
    assert _places(text, "command.no-such-module") == []


def test_continued_line_is_one_command() -> None:
    script = "export NCCL_DEBUG=INFO\n    mpirun -np 2 \\\n      -x NCCL_DEBUG \\\n      all_reduce"
    assert _places(CONFIG_MAP.format(script), "command.mpirun-env") == []


def test_command_and_args_are_one_line() -> None:
    text = POD.format("[rping]", "[-c, -a, 192.168.100.11, -d, mlx5_21]")
    assert _places(text, "command.rping-device") == [9]


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("data:,rpcrdma_core%0A", id="percent"),
        pytest.param(
            "data:text/plain;base64," + base64.b64encode(b"rpcrdma_core\n").decode(), id="base64"
        ),
    ],
)
def test_file_of_a_machine_config(source: str) -> None:
    assert _places(MACHINE.format(source), "command.no-such-module") == [15]


def test_broken_data_url_is_no_script() -> None:
    bundle = read([("a.yaml", MACHINE.format("data:;base64,%%%"))])
    assert [script.raw for script in scripts(bundle)] in ([""], [])


def test_code_is_as_long_as_what_was_written() -> None:
    bundle = read([("a.yaml", CONFIG_MAP.format("ls \\\n    -l # long\n    # all\n    echo"))])
    for script in scripts(bundle):
        assert len(script.code) == len(script.raw)
