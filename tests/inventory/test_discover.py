"""The whole of `discover`: records replay equal, nothing makes it fail, it is fast, it shows."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from podrail.host.linux import LinuxHost
from podrail.host.memory import MemoryHost
from podrail.host.record import RecordedHost, RecordingHost
from podrail.host.seam import Host, Ran, exists
from podrail.inventory import discover
from podrail.inventory.render import ranges, render
from podrail.model.inventory import Inventory
from tests.inventory.machines import IP_LINK, IP_ROUTE, bare, lab_vm, links, pf, says, vf


def replayed(host: Host) -> tuple[Inventory, Inventory]:
    recording = RecordingHost(host)
    first = discover(recording)
    again = discover(RecordedHost.from_text(recording.dump(), host.label))
    return first, again


def test_a_record_replays_to_the_equal_inventory() -> None:
    first, again = replayed(lab_vm())
    assert first.to_json() == again.to_json()
    assert first == again
    assert len(first.pfs[1].vfs) == 4


def test_this_very_machine_replays_too() -> None:
    first, again = replayed(LinuxHost())
    assert first.to_json() == again.to_json()
    assert first.node.kernel


def test_nothing_of_an_empty_machine_is_invented() -> None:
    found = discover(MemoryHost("empty"))
    assert (found.pfs, found.gpus, found.rdma, found.node.kernel) == ((), (), (), None)
    assert {"program:ip", "/proc/modules"} <= {fact.path for fact in found.unknown}


def _spoilable() -> tuple[list[str], list[tuple[str, ...]]]:
    recording = RecordingHost(lab_vm())
    discover(recording)
    record: dict[str, Any] = json.loads(recording.dump())
    return sorted(record["files"]), [tuple(p["argv"]) for p in record["programs"]]


FILES, PROGRAMS = _spoilable()
SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=6)
KEYS = st.sampled_from(
    (
        *("ifname", "ifindex", "master", "link", "address", "mtu", "altnames", "flags", "vf"),
        *("linkinfo", "info_kind", "vfinfo_list", "vlan_list", "rate", "addr_info", "local"),
        *("dst", "dev", "nexthops", "table", "port", "netdev", "ctx", "cm_id", "netns"),
        *("phys_port_name", "node_guid", "mode", "PodDeviceEntries"),
    )
)
SHAPES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=12,
)
OUTPUTS = st.text(max_size=30) | SHAPES.map(json.dumps)
CONTENTS = st.text(max_size=30) | st.binary(max_size=300) | st.integers(1, 110)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    files=st.dictionaries(st.sampled_from(FILES), CONTENTS, max_size=8),
    programs=st.dictionaries(
        st.sampled_from(PROGRAMS), st.tuples(st.integers(0, 1), OUTPUTS), max_size=6
    ),
)
def test_garbage_never_raises(
    files: dict[str, str | bytes | int], programs: dict[tuple[str, ...], tuple[int, str]]
) -> None:
    host = lab_vm()
    for path, content in files.items():
        host.put(host.resolve(path) if exists(host, path) else path, content)
    for argv, (rc, text) in programs.items():
        host.put_program(argv, Ran(argv, rc, text, text))
    found = discover(host)
    json.dumps(found.to_json())
    assert render(found)


@settings(max_examples=60, deadline=None)
@given(shape=SHAPES)
def test_any_json_from_every_program(shape: Any) -> None:
    host = lab_vm()
    for argv in PROGRAMS:
        says(host, argv, json.dumps(shape))
    assert [pf.pci for pf in discover(host).pfs] == ["0000:00:02.0", "0000:01:00.0"]


def test_output_that_is_not_json_is_unknown() -> None:
    host = lab_vm()
    says(host, IP_LINK, "{]")
    reasons = {fact.path: fact.reason for fact in discover(host).unknown}
    assert reasons["program:ip -d -j link show"].startswith("not JSON")


# --- size ---------------------------------------------------------------------------------------


def big_machine(pfs: int = 16, vfs: int = 64) -> MemoryHost:
    host = bare()
    shown = []
    for p in range(pfs):
        at = pf(host, f"pci0000:{p:02x}/0000:{p + 32:02x}:00.0", f"ens{p}", total=vfs)
        infos = [{"vf": i, "trust": False, "vlan_list": [{}]} for i in range(vfs)]
        shown.append({"ifname": f"ens{p}", "vfinfo_list": infos})
        for i in range(vfs):
            there = vf(host, at, i, f"0000:{p + 32:02x}:{1 + i // 8:02x}.{i % 8}", "mlx5_core")
            host.put_dir(f"{there}/net/ens{p}v{i}")
            shown.append({"ifname": f"ens{p}v{i}"})
    says(host, IP_LINK, links(*shown))
    says(host, IP_ROUTE, [{"dst": "default", "dev": "ens0"}])
    return host


def test_a_thousand_vfs_are_quick_from_a_record(tmp_path: Path) -> None:
    recording = RecordingHost(big_machine())
    assert sum(len(pf.vfs) for pf in discover(recording).pfs) == 1024
    (tmp_path / "record.json").write_text(recording.dump())
    script = (
        "import sys, pathlib\n"
        "from podrail.host.record import RecordedHost\n"
        "from podrail.inventory import discover\n"
        "found = discover(RecordedHost.from_text(pathlib.Path(sys.argv[1]).read_text(), 'r'))\n"
        "assert sum(len(pf.vfs) for pf in found.pfs) == 1024\n"
        "assert not {'pydantic', 'rich', 'asyncio', 'yaml', 'click'} & set(sys.modules)\n"
    )
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "record.json")], check=True)
    assert time.perf_counter() - start < 1.0


# --- the tree -----------------------------------------------------------------------------------


def test_the_labs_tree() -> None:
    text = "\n".join(render(discover(lab_vm())))
    assert "└─ VFs 4 of 7 · vf 0-3 igbvf" in text
    assert "eth1  0000:01:00.0  Intel 82576" in text
    assert "management: the default route leaves through eth0" in text
    assert "RDMA netns shared" in text


def test_holders_are_named_in_the_tree() -> None:
    host = lab_vm()
    uid = "8d2f6c1e-0000-4000-8000-000000000001"
    entry = {"PodUID": uid, "ContainerName": "train", "DeviceIDs": {"0": ["0000:01:10.2"]}}
    host.put(
        "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint",
        json.dumps({"Data": {"PodDeviceEntries": [entry]}}),
    )
    text = "\n".join(render(discover(host)))
    assert "1 held: vf 1 by pod 8d2f… (container train)" in text


def test_unknown_reasons_are_grouped_and_counted() -> None:
    lines = render(discover(MemoryHost("empty")))
    at = next(i for i, line in enumerate(lines) if line.startswith("└─ unknown"))
    assert len(lines) - at <= 12
    assert any("and 4 like it: the firmware gives no DMI table" in line for line in lines)


def test_ranges() -> None:
    assert ranges([7, 0, 1, 2, 9, 8, 20]) == "0-2,7-9,20"
