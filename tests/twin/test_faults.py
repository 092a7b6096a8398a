"""Fault files: what is refused, what is changed, and what follows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from podrail.host.faults import Changeable, Expect, Fault, apply, load, parse
from podrail.host.linux import LinuxHost
from podrail.host.record import RecordedHost, RecordingHost
from podrail.host.seam import exists
from podrail.host.twin import TwinHost
from podrail.host.twins import twin
from podrail.model.errors import UsageError
from tests.twin.covers import covers


def fault(path: str, value: Any) -> Fault:
    text = json.dumps({"id": "f", "set": [{"path": path, "value": value}]})
    return parse(text, "fault.json")


def changed(name: str, path: str, value: Any) -> TwinHost:
    host = twin(name)
    apply(host, fault(path, value))
    return host


def test_a_whole_file() -> None:
    text = """
id: totalvfs-zero
twin: roce-cx6
set:
  - {path: /sys/class/net/ens8f0/device/sriov_totalvfs, value: 0}
  - {path: "module:rpcrdma", value: null}
expect: {fails: [vf.total], root: vf.total}
"""
    got = parse(text, "f.yaml")
    assert (got.id, got.twin, got.expect) == (
        "totalvfs-zero",
        "roce-cx6",
        Expect(("vf.total",), "vf.total"),
    )
    assert [c.path for c in got.changes][1] == "module:rpcrdma"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "found NoneType, wanted a mapping"),
        ("[1]", "found list, wanted a mapping"),
        ("a: [", "not YAML or JSON"),
        ("{id: x}", "'set' is missing"),
        ("{id: x, set: []}", "wanted a list with at least one entry"),
        ("{id: '', set: [{path: /a, value: b}]}", "found '', wanted text"),
        ("{id: x, sets: []}", "unknown key 'sets'; there are id, twin, set, expect"),
        ("{id: x, set: [{path: /a}]}", "set[0]: 'value' is missing"),
        ("{id: x, set: [{path: sys/a, value: b}]}", "is none of a path such as /sys/…"),
        ("{id: x, set: [{path: 'module:', value: null}]}", "names nothing"),
        ("{id: x, set: [{path: /a, value: [1]}]}", "wanted text, a number or null"),
        ("{id: x, set: [{path: /a, value: true}]}", "wanted text, a number or null"),
        ("{id: x, set: [{path: 'program:ip', value: {code: 1}}]}", "unknown key 'code'"),
        ("{id: x, set: [{path: /a, value: b}], expect: {fail: []}}", "unknown key 'fail'"),
        ("{id: x, set: [{path: 'program:\"unclosed', value: a}]}", "No closing quotation"),
        ("{id: x, set: [{path: 'program:ip', value: {rc: abc}}]}", "rc: found 'abc', wanted a n"),
        ("{id: x, set: [{path: 'program:ip', value: {rc: true}}]}", "rc: found True, wanted a n"),
        ("{id: x, set: [{path: 'program:ip', value: {stdout: 5}}]}", "stdout: found 5, wanted tex"),
        ("{id: x, set: [{path: 'module:../x', value: null}]}", "is not the name of a module"),
    ],
)
def test_what_is_wrong_is_said(text: str, message: str) -> None:
    with pytest.raises(UsageError) as no:
        parse(text, "f.yaml")
    assert "f.yaml" in str(no.value)
    assert message in str(no.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read the fault file"):
        load(str(tmp_path / "none.yaml"))


def test_this_machine_is_never_changed() -> None:
    with pytest.raises(UsageError, match="faults are for twins and recorded hosts"):
        apply(LinuxHost(), fault("/proc/cmdline", "x"))


def test_a_fault_of_another_twin() -> None:
    text = '{"id": "f", "twin": "igb", "set": [{"path": "/a", "value": "b"}]}'
    with pytest.raises(UsageError, match="is for twin:igb and the host is twin:roce-cx6"):
        apply(twin("roce-cx6"), parse(text, "f"))


def test_a_file_through_its_alias() -> None:
    host = changed("roce-cx6", "/sys/class/net/ens8f0/device/sriov_totalvfs", 0)
    assert host.read("/sys/bus/pci/devices/0000:9c:00.0/sriov_totalvfs") == "0\n"


def test_a_new_file_and_one_that_goes() -> None:
    host = changed("roce-cx6", "/etc/sriov-operator/pci/0000:9c:00.0", "{}")
    assert host.entries("/etc/sriov-operator/pci") == ("0000:9c:00.0",)
    assert not exists(changed("igb", "/proc/cmdline", None), "/proc/cmdline")


@pytest.mark.parametrize("value", [None, "1"])
def test_a_place_that_does_not_exist(value: str | None) -> None:
    with pytest.raises(UsageError, match="twin:igb"):
        changed("igb", "/sys/class/net/ens8f0/device/sriov_numvfs", value)


def test_numvfs_makes_vfs() -> None:
    host = changed("roce-cx6", "/sys/class/net/ens8f0/device/sriov_numvfs", 4)
    assert exists(host, "/sys/class/net/ens8f0v3")


def test_a_pulled_cable() -> None:
    host = changed("roce-cx6", "/sys/class/net/ens8f0/carrier", 0)
    link = json.loads(host.run(["ip", "-d", "-j", "link", "show", "ens8f0"]).stdout)[0]
    assert link["operstate"] == "DOWN"
    assert "NO-CARRIER" in link["flags"]
    assert host.read("/sys/class/infiniband/mlx5_0/ports/1/state") == "1: DOWN\n"
    assert '"state":"DOWN"' in host.run(["rdma", "-j", "-d", "link"]).stdout


def test_a_dead_infiniband_port_takes_ipoib_down() -> None:
    host = changed("ib-cx7", "/sys/class/infiniband/mlx5_0/ports/1/state", "1: DOWN")
    assert host.read("/sys/class/net/ibp60s0/operstate") == "down\n"


def test_a_device_falls_off_the_bus() -> None:
    host = changed("roce-cx6", "/sys/bus/pci/devices/0000:9c:00.0", None)
    assert not exists(host, "/sys/class/net/ens8f0")
    assert "mlx5_0" not in host.entries("/sys/class/infiniband")
    gone = changed("hgx-h100", "/sys/bus/pci/devices/0000:1b:00.0", None)
    assert "0000:1b:00.0" not in gone.entries("/proc/driver/nvidia/gpus")


def test_a_switch_takes_all_below_it() -> None:
    host = changed("roce-cx6", "/sys/bus/pci/devices/0000:98:00.0", None)
    assert not exists(host, "/sys/bus/pci/devices/0000:9b:00.0")
    assert not exists(host, "/sys/class/net/ens8f1")


def test_drivers_change() -> None:
    host = changed("roce-cx6", "/sys/bus/pci/devices/0000:9c:00.0/driver", None)
    assert not exists(host, "/sys/class/net/ens8f0")
    host = changed("roce-cx6", "/sys/bus/pci/devices/0000:9c:00.0/driver", "vfio-pci")
    assert host.readlink("/sys/bus/pci/devices/0000:9c:00.0/driver").endswith("/vfio-pci")
    with pytest.raises(UsageError, match="has no driver 'nouveau'"):
        changed("roce-cx6", "/sys/bus/pci/devices/0000:19:00.0/driver", "nouveau")


@covers("module-users")
def test_a_module_takes_its_users_with_it() -> None:
    host = changed("hgx-h100", "module:ib_uverbs", None)
    modules = host.read("/proc/modules")
    for name in ("ib_uverbs", "mlx5_ib", "rdma_ucm", "nvidia_peermem"):
        assert f"{name} " not in modules
        assert not exists(host, f"/sys/module/{name}")
    assert "mlx5_core " in modules
    assert host.entries("/sys/class/infiniband") == ()
    assert not exists(host, "/sys/kernel/mm/memory_peers/nv_mem/version")
    assert host.run(["ibv_devinfo"]).rc == 255
    assert exists(host, "/sys/class/net/ibp24s0")


@pytest.mark.parametrize(
    ("name", "module", "gone"),
    [
        ("hgx-h100", "nvidia_peermem", "/sys/kernel/mm/memory_peers/nv_mem/version"),
        ("hgx-h100", "nvidia", "/proc/driver/nvidia/version"),
        ("hgx-h100", "ib_ipoib", "/sys/class/net/ibp24s0"),
        ("roce-cx6", "mlx5_core", "/sys/class/net/ens8f0"),
        ("igb", "igb", "/sys/bus/pci/drivers/igb"),
    ],
)
def test_what_goes_with_a_module(name: str, module: str, gone: str) -> None:
    assert exists(twin(name), gone)
    assert not exists(changed(name, f"module:{module}", None), gone)


def test_no_mount_over_rdma_without_rpcrdma() -> None:
    host = changed("roce-cx6", "module:rpcrdma", None)
    assert "rdma" not in host.read("/proc/mounts")
    assert "rdma" not in host.read("/proc/self/mountstats")


def test_a_module_that_is_not_loaded_cannot_go() -> None:
    with pytest.raises(UsageError, match="module:nvidia_peermem is not loaded"):
        changed("roce-cx6", "module:nvidia_peermem", None)


def test_a_module_comes() -> None:
    host = changed("roce-cx6", "module:nvidia_fs", "2.26")
    assert host.read("/sys/module/nvidia_fs/version") == "2.26\n"
    assert host.loaded("nvidia_fs")


def test_rdma_without_ib_core() -> None:
    ran = changed("roce-cx6", "module:ib_core", None).run(["rdma", "-j", "system"])
    assert (ran.rc, ran.stderr) == (1, "Failed to open NETLINK_RDMA socket\n")


def test_programs() -> None:
    host = changed("roce-cx6", "program:ibv_devinfo", None)
    with pytest.raises(FileNotFoundError):
        host.run(["ibv_devinfo"])
    host = changed("roce-cx6", "program:rdma -j system", '[{"netns":"exclusive"}]')
    assert host.run(["rdma", "-j", "system"]).stdout == '[{"netns":"exclusive"}]'
    assert host.run(["rdma", "-j", "-d", "dev"]).rc == 0
    host = changed("roce-cx6", "program:rdma -j system", {"rc": 1, "stderr": "no"})
    assert host.run(["rdma", "-j", "system"]).rc == 1
    host = changed("roce-cx6", "program:rdma -j system", None)
    with pytest.raises(FileNotFoundError):
        host.run(["rdma", "-j", "system"])


def test_objects_are_kept_aside() -> None:
    host = changed("igb", "object:ConfigMap/kube-system/x#data", {"a": 1})
    assert host.objects == {"ConfigMap/kube-system/x#data": {"a": 1}}


def recorded() -> RecordedHost:
    recording = RecordingHost(twin("roce-cx6"))
    recording.read("/proc/cmdline")
    recording.read("/proc/modules")
    recording.read("/sys/module/nvidia/version")
    recording.run(["rdma", "-j", "system"])
    return RecordedHost.from_text(recording.dump(), "record.json")


def test_a_recorded_host_is_changed_too() -> None:
    host = recorded()
    apply(host, fault("/proc/cmdline", "quiet"))
    apply(host, fault("module:nvidia", None))
    apply(host, fault("program:rdma -j system", None))
    apply(host, fault("object:Node//n#x", 1))
    assert host.read("/proc/cmdline") == "quiet\n"
    assert "\nnvidia " not in host.read("/proc/modules")
    assert host.objects == {"Node//n#x": 1}
    with pytest.raises(FileNotFoundError):
        host.read("/sys/module/nvidia/version")
    with pytest.raises(FileNotFoundError):
        host.run(["rdma", "-j", "system"])


def without_modules() -> list[Changeable]:
    hosts: list[Changeable] = [twin("roce-cx6"), recorded()]
    for host in hosts:
        apply(host, fault("/proc/modules", None))
    return hosts


@pytest.mark.parametrize("value", [None, "1"])
def test_modules_after_their_list_is_gone(value: str | None) -> None:
    for host in without_modules():
        with pytest.raises(UsageError, match="/proc/modules cannot be read"):
            apply(host, fault("module:mlx5_core", value))


def test_a_program_that_was_never_asked_can_go_too() -> None:
    host = recorded()
    apply(host, fault("program:devlink dev show", None))
    with pytest.raises(FileNotFoundError):
        host.run(["devlink", "dev", "show"])


def test_a_program_whose_last_word_ends_with_a_colon() -> None:
    host = changed("igb", "program:ip -6 a:", "x")
    assert host.run(["ip", "-6", "a:"]).stdout == "x"


def test_what_can_be_changed() -> None:
    assert isinstance(twin("igb"), Changeable)
    assert isinstance(recorded(), Changeable)
    assert not isinstance(LinuxHost(), Changeable)
    assert not isinstance(RecordingHost(twin("igb")), Changeable)
