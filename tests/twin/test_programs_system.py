"""The programs of a twin that change what outlives a boot, and the boot itself."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from podrail.host.seam import exists
from podrail.host.twin import TwinHost
from podrail.host.twins import machine, twin
from podrail.host.twins.build import build
from podrail.host.twins.reboot import reboot
from podrail.inventory import discover
from tests.twin.covers import covers
from tests.twin.faulted import fault

PCI, OTHER = "0000:9c:00.0", "0000:9c:00.1"
AT = f"/sys/bus/pci/devices/{PCI}"


def mstconfig(host: TwinHost, *words: str) -> tuple[int, str]:
    ran = host.run(["mstconfig", *words])
    return ran.rc, ran.stdout


def row(host: TwinHost, key: str, pci: str = PCI) -> list[str]:
    rc, text = mstconfig(host, "-e", "-d", pci, "q", key)
    assert rc == 0
    return next(line.split() for line in text.splitlines() if key in line.split())


# --- mstconfig --------------------------------------------------------------------------------


@covers("mstconfig-query")
def test_every_setting_has_three_values() -> None:
    rc, text = mstconfig(twin("roce-cx6"), "-e", "-d", PCI, "q")
    lines = text.splitlines()
    head = next(n for n, line in enumerate(lines) if line.startswith("Configurations:"))
    assert (rc, lines[head].split()[1:]) == (0, ["Default", "Current", "Next", "Boot"])
    rows = {line.split()[-4]: line.split()[-3:] for line in lines[head + 1 : -1]}
    assert rows["SRIOV_EN"] == ["False(0)", "True(1)", "True(1)"]
    assert rows["NUM_OF_VFS"] == ["0", "16", "16"]
    assert "LINK_TYPE_P1" not in rows
    assert row(twin("ib-cx7"), "LINK_TYPE_P1", "0000:3c:00.0")[-1] == "IB(1)"


@covers("mstconfig-set", "mstconfig-card", "firmware-vfs")
def test_what_is_set_is_next_and_a_boot_makes_it_current() -> None:
    host = twin("roce-cx6")
    rc, text = mstconfig(host, "-y", "-d", PCI, "set", "SRIOV_EN=True", "NUM_OF_VFS=32")
    assert rc == 0
    assert "Applying... Done!" in text
    assert row(host, "NUM_OF_VFS") == row(host, "NUM_OF_VFS", OTHER)
    assert row(host, "NUM_OF_VFS") == ["*", "NUM_OF_VFS", "0", "16", "32"]
    assert host.read(f"{AT}/sriov_totalvfs") == "16\n"
    reboot(host)
    assert row(host, "NUM_OF_VFS") == ["*", "NUM_OF_VFS", "0", "32", "32"]
    for pci in (PCI, OTHER):
        host.write(f"/sys/bus/pci/devices/{pci}/sriov_numvfs", "32")
    vfs = [vf.pci for pf in discover(host).pfs for vf in pf.vfs]
    assert len(set(vfs)) == len(vfs) == 64


@covers("firmware-vfs")
def test_firmware_with_sriov_off() -> None:
    host = twin("roce-cx6")
    host.write(f"{AT}/sriov_numvfs", "2")
    fault(host, f"firmware:{PCI}#SRIOV_EN", 0)
    for pci in (PCI, OTHER):
        names = host.entries(f"/sys/bus/pci/devices/{pci}")
        assert not [name for name in names if name.startswith(("sriov_", "virtfn"))]
    assert all(not pf.totalvfs for pf in discover(host).pfs if pf.pci in (PCI, OTHER))
    mstconfig(host, "-y", "-d", PCI, "set", "SRIOV_EN=1")
    reboot(host)
    assert host.read(f"{AT}/sriov_totalvfs") == "16\n"


@covers("mstconfig-refuses")
def test_what_mstconfig_refuses() -> None:
    host = twin("roce-cx6")
    host.write(f"{AT}/sriov_numvfs", "1")
    unknown = (1, "-E- Failed to identify the device\n")
    assert mstconfig(host, "-e", "-d", "0000:04:00.0", "q") == unknown
    assert mstconfig(host, "-e", "-d", "0000:9c:00.2", "q") == unknown
    assert mstconfig(host, "-e", "-d", "0000:ee:00.0", "q")[1] == "-E- Failed to open the device\n"
    rc, text = mstconfig(host, "-y", "-d", PCI, "set", "LINK_TYPE_P1=2")
    assert (rc, text.splitlines()[-1]) == (
        1,
        "-E- The Device doesn't support LINK_TYPE_P1 parameter",
    )
    assert mstconfig(host, "-y", "-d", PCI, "set", "SRIOV_EN=maybe")[0] == 1
    assert row(host, "SRIOV_EN")[-1] == "True(1)"
    assert mstconfig(host, "-d", PCI, "set", "SRIOV_EN=0")[0] == 255
    with pytest.raises(FileNotFoundError):
        twin("igb").run(["mstconfig", "-e", "-d", "0000:81:00.0", "q"])


@covers("mstconfig-lockdown")
def test_mstconfig_under_lockdown() -> None:
    host = fault(twin("roce-cx6"), "/sys/kernel/security/lockdown", "none [integrity] x")
    ran = host.run(["mstconfig", "-e", "-d", PCI, "q"])
    assert (ran.rc, ran.stdout) == (1, "-E- Failed to open the device\n")
    assert "Operation not permitted" in ran.stderr


# --- what keeps kernel arguments --------------------------------------------------------------


def booted(tool: str) -> TwinHost:
    line = "BOOT_IMAGE=/vmlinuz root=/dev/vda1 ro quiet"
    return build(replace(machine("cx6-ib"), bootloader=tool, cmdline=line), "twin:cx6-ib")


@covers("rpm-ostree-kargs")
def test_rpm_ostree() -> None:
    host = booted("rpm-ostree")
    assert host.run(["rpm-ostree", "kargs"]).stdout == "root=/dev/vda1 ro quiet\n"
    change = ["rpm-ostree", "kargs", "--delete-if-present=quiet", "--append-if-missing=iommu=pt"]
    assert "queued for next boot" in host.run(change).stdout
    assert host.run(change).stdout == "No changes.\n"
    assert host.run(["rpm-ostree", "kargs"]).stdout == "root=/dev/vda1 ro iommu=pt\n"
    assert host.run(["rpm-ostree", "kargs", "--editor"]).rc == 255
    assert host.run(["rpm-ostree", "status"]).rc == 255


@covers("grubby")
def test_grubby() -> None:
    host = booted("grubby")
    told = host.run(["grubby", "--info=ALL"]).stdout
    assert told.count('args="ro quiet"\n') == 2
    host.run(["grubby", "--update-kernel=ALL", "--remove-args=quiet", "--args=iommu=nopt a"])
    host.run(["grubby", "--update-kernel=ALL", "--args=iommu=pt"])
    assert host.run(["grubby", "--info=ALL"]).stdout.count('args="ro a iommu=pt"\n') == 2
    assert host.run(["grubby", "--update-kernel=DEFAULT", "--args=b"]).rc == 255
    assert host.run(["grubby", "--default-kernel"]).rc == 255


@covers("update-grub")
def test_update_grub() -> None:
    host = booted("update-grub")
    host.place(
        "/etc/default/grub.d/90-a.cfg", 'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX iommu=pt"\n'
    )
    host.place("/etc/default/grub.d/91-b.cfg", 'GRUB_CMDLINE_LINUX_DEFAULT="splash"\n')
    host.place("/etc/default/grub.d/no", 'GRUB_CMDLINE_LINUX="no"\n')
    assert host.run(["update-grub"]).rc == 0
    lines = [x.split() for x in host.read("/boot/grub/grub.cfg").splitlines() if "\tlinux" in x]
    assert lines[0][2:] == ["root=/dev/vda1", "ro", "quiet", "iommu=pt", "splash"]
    assert lines[1][2:] == ["root=/dev/vda1", "ro", "recovery", "nomodeset", "quiet", "iommu=pt"]
    assert host.run(["update-grub", "-o", "x"]).rc == 255
    fault(host, "/boot/grub/grub.cfg", None)
    assert host.run(["update-grub"]).rc == 1


@covers("reboot")
@pytest.mark.parametrize("name", ["roce-cx6", "cx6-ib", "igb"])
def test_a_boot_of_a_machine_nobody_changed(name: str) -> None:
    host, fresh = twin(name), twin(name)
    reboot(host)
    boot_id = "/proc/sys/kernel/random/boot_id"
    first = host.read(boot_id)
    assert {**fresh._files, boot_id: first} == host._files
    assert fresh._links == host._links
    reboot(host)
    assert host.read(boot_id) != first


@covers("reboot")
def test_what_a_boot_keeps() -> None:
    host = fault(twin("igb"), "module:igbvf", None)
    fault(host, "program:ethtool", None)
    fault(host, "write:/sys/class/net", "EROFS")
    host.write("/sys/bus/pci/devices/0000:81:00.0/sriov_numvfs", "2")
    host.place("/etc/modprobe.d/x.conf", "options x y=1\n")
    host.place("/run/x", "")
    host.run(["ip", "link", "set", "ens2", "mtu", "9000"])
    reboot(host)
    assert host.read("/sys/bus/pci/devices/0000:81:00.0/sriov_numvfs") == "0\n"
    assert host.read("/sys/class/net/ens2/mtu") == "1500\n"
    assert host.read("/etc/modprobe.d/x.conf") == "options x y=1\n"
    assert not exists(host, "/run/x")
    with pytest.raises(FileNotFoundError):
        host.run(["ethtool", "-i", "ens2"])
    with pytest.raises(OSError, match="Read-only"):
        host.write("/sys/class/net/ens2/mtu", "9000")
    assert host.run(["modprobe", "igbvf"]).rc == 1
    host.unlink("/etc/os-release")
    reboot(host)
    assert not exists(host, "/etc/os-release")


# --- rdma, devlink, ethtool -------------------------------------------------------------------


def mode(host: TwinHost) -> str:
    return host.run(["rdma", "system"]).stdout


@covers("netns-mode", "netns-mode-busy")
def test_the_namespace_mode() -> None:
    host = twin("igb")
    assert host.run(["rdma", "system", "set", "netns", "exclusive"]).rc == 0
    assert "netns exclusive" in mode(host)
    assert host.read("/sys/module/ib_core/parameters/netns_mode") == "N\n"
    host.place("/run/netns/pod", "")
    ran = host.run(["rdma", "system", "set", "netns", "shared"])
    assert ran.rc
    assert "Device or resource busy" in ran.stderr
    assert host.run(["rdma", "system", "set", "netns", "exclusive"]).rc == 0
    assert "netns exclusive" in mode(host)


@covers("netns-mode-option")
@pytest.mark.parametrize("name", ["igb", "roce-cx6"])  # loaded when asked for, loaded at boot
def test_the_mode_ib_core_is_loaded_with(name: str) -> None:
    host = twin(name)
    host.place("/etc/modprobe.d/a.conf", "# comment\noptions ib_core netns_mode=0\n")
    reboot(host)
    assert "exclusive" in mode(host)
    host.place("/etc/modprobe.d/b.conf", "options ib_core send_queue_size=1 netns_mode=1\n")
    reboot(host)
    assert "shared" in mode(host)


def test_the_mode_from_the_command_line() -> None:
    host = twin("roce-cx6")
    host.run(["rpm-ostree", "kargs", "--append-if-missing=ib_core.netns_mode=0"])
    reboot(host)
    assert "exclusive" in mode(host)


def devlink(host: TwinHost, *words: str) -> tuple[int, str]:
    ran = host.run(["devlink", *words])
    return ran.rc, ran.stderr.strip() or ran.stdout.strip()


@covers("eswitch-mode", "steering-mode")
def test_modes_of_the_eswitch() -> None:
    host = twin("roce-cx6")
    steer = ("dev", "param", "set", f"pci/{PCI}", "name", "flow_steering_mode", "value")
    assert devlink(host, *steer, "smfs", "cmode", "runtime") == (0, "")
    assert devlink(host, "dev", "eswitch", "set", f"pci/{PCI}", "mode", "switchdev") == (0, "")
    rc, told = devlink(host, "-j", "dev", "eswitch", "show", f"pci/{PCI}")
    assert (rc, json.loads(told)["dev"][f"pci/{PCI}"]["mode"]) == (0, "switchdev")
    assert devlink(host, *steer, "dmfs", "cmode", "runtime")[0] == 1
    rc, told = devlink(
        host, "-j", "dev", "param", "show", f"pci/{PCI}", "name", "flow_steering_mode"
    )
    values = json.loads(told)["param"][f"pci/{PCI}"][0]["values"]
    assert (rc, values) == (0, [{"cmode": "runtime", "value": "smfs"}])
    reboot(host)
    assert '"legacy"' in devlink(host, "-j", "dev", "eswitch", "show", f"pci/{PCI}")[1]


def test_what_devlink_refuses() -> None:
    host = twin("roce-cx6")
    none = (1, "kernel answers: No such device")
    assert devlink(host, "dev", "eswitch", "set", "pci/0000:04:00.0", "mode", "legacy") == none
    show = ("-j", "dev", "param", "show")
    assert devlink(host, *show, "pci/0000:04:00.0", "name", "x") == none
    invalid = (1, "kernel answers: Invalid argument")
    assert devlink(host, *show, f"pci/{PCI}", "name", "enable_x") == invalid
    assert devlink(host, "dev", "eswitch", "set", f"pci/{PCI}", "mode", "off")[0] == 255
    to_switchdev = ("dev", "eswitch", "set", "pci/0000:3c:00.0", "mode", "switchdev")
    unsupported = (1, "kernel answers: Operation not supported")
    assert devlink(twin("ib-cx7"), *to_switchdev) == unsupported


@covers("tc-offload")
def test_the_offload_of_flow_rules() -> None:
    host = twin("roce-cx6")
    host.write(f"{AT}/sriov_numvfs", "1")
    assert "\nhw-tc-offload: off\n" in host.run(["ethtool", "-k", "ens8f0"]).stdout
    assert host.run(["ethtool", "-K", "ens8f0", "hw-tc-offload", "on"]).rc == 0
    assert "\nhw-tc-offload: on\n" in host.run(["ethtool", "-k", "ens8f0"]).stdout
    assert "off [fixed]" in host.run(["ethtool", "-k", "br-ex"]).stdout
    assert host.run(["ethtool", "-K", "ens8f0v0", "hw-tc-offload", "on"]).rc == 1
    assert host.run(["ethtool", "-k", "none"]).rc == 1
    assert host.run(["ethtool", "-K", "none", "hw-tc-offload", "on"]).rc == 1
    assert host.run(["ethtool", "-K", "ens8f0", "gro", "off"]).rc == 255
