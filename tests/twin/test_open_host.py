"""`--host`: local, a record, a twin; and a clear word about anything else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from podrail.host.linux import LinuxHost
from podrail.host.open import open_host
from podrail.host.record import RecordingHost
from podrail.host.twins import names, twin
from podrail.model.errors import Unmeasured, UsageError


def test_local() -> None:
    assert isinstance(open_host("local"), LinuxHost)


@pytest.mark.parametrize("name", names())
def test_twins(name: str) -> None:
    assert open_host(f"twin:{name}").label == f"twin:{name}"


def test_an_unknown_twin_names_those_there_are() -> None:
    with pytest.raises(UsageError) as no:
        open_host("twin:roce-cx7")
    said = str(no.value)
    assert all(name in said for name in names())
    assert "Did you mean 'roce-cx6'?" in said


def test_a_record(tmp_path: Path) -> None:
    recording = RecordingHost(twin("igb"))
    recording.read("/proc/cmdline")
    path = tmp_path / "node.json"
    path.write_text(recording.dump())
    host = open_host(str(path))
    assert host.label == str(path)
    assert "intel_iommu=on" in host.read("/proc/cmdline")


def test_a_file_that_is_no_record(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(Unmeasured, match="is not a record of a machine"):
        open_host(str(path))


@pytest.mark.parametrize("spec", ["", "nosuch", "/", "twin", "TWIN:igb", "a\0b"])
def test_anything_else(spec: str) -> None:
    with pytest.raises(UsageError, match=r"twin:NAME"):
        open_host(spec)


def test_the_lab_is_for_later() -> None:
    with pytest.raises(UsageError, match="the lab is not part of this version"):
        open_host("lab:node1")


def test_faults_are_applied_in_order(tmp_path: Path) -> None:
    files = []
    for value in ("1", "2"):
        path = tmp_path / f"{value}.yaml"
        path.write_text(f"id: f{value}\nset: [{{path: /proc/cmdline, value: '{value}'}}]\n")
        files.append(str(path))
    assert open_host("twin:igb", files).read("/proc/cmdline") == "2\n"


def test_a_plain_open_loads_no_twin_and_no_yaml() -> None:
    code = (
        "import sys; from podrail.host.open import open_host; open_host('local'); "
        "print([m for m in sys.modules if 'twin' in m or m == 'yaml'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
