"""What host profiles are made with: dcb, mlnx_qos, ethtool, setpci, systemctl and a few files."""

from __future__ import annotations

import errno
import json
from functools import partial

import pytest

from podrail.host.open import open_host
from podrail.host.seam import exists
from podrail.host.twin import TwinHost
from podrail.host.twins import tuning
from podrail.host.twins.programs import dcb
from tests.twin.conftest import Pf
from tests.twin.covers import covers

POLICY = "/sys/devices/system/cpu/cpufreq/policy0"


@pytest.fixture
def twin(roce: Pf) -> TwinHost:
    assert isinstance(roce.host, TwinHost)
    return roce.host


def said(host: TwinHost, *argv: str) -> tuple[int, str, str]:
    ran = host.run(argv)
    return ran.rc, ran.stdout, ran.stderr


# --- dcb ----------------------------------------------------------------------------------------


@covers("mlx5-pfc")
def test_pfc_per_priority(twin: TwinHost) -> None:
    first = '{"pfc_cap":8,"macsec_bypass":false,"delay":7,"prio_pfc":'
    rc, out, _ = said(twin, "dcb", "-j", "pfc", "show", "dev", "ens8f0")
    assert (rc, out) == (0, first + "[" + ",".join(["false"] * 8) + "]}\n")
    said(twin, "dcb", "pfc", "set", "dev", "ens8f0", "prio-pfc", "all:on", "0:off")
    said(twin, "dcb", "pfc", "set", "dev", "ens8f0", "prio-pfc", "7:off")
    shown = json.loads(said(twin, "dcb", "-j", "pfc", "show", "dev", "ens8f0")[1])
    assert shown["prio_pfc"] == [False, *[True] * 6, False]
    other = json.loads(said(twin, "dcb", "-j", "pfc", "show", "dev", "ens8f1")[1])
    assert not any(other["prio_pfc"])


@covers("mlx5-dscp")
def test_trust_follows_the_map(twin: TwinHost) -> None:
    twin.put_program(["mlnx_qos"], partial(dcb.mlnx_qos, twin))
    trust = "Priority trust state: {}\n".format
    assert said(twin, "dcb", "-j", "app", "show", "dev", "ens8f0")[1] == "{}\n"
    assert trust("pcp") in said(twin, "mlnx_qos", "-i", "ens8f0")[1]
    said(twin, "dcb", "app", "add", "dev", "ens8f0", "dscp-prio", "26:3", "48:6")
    assert said(twin, "dcb", "-j", "app", "show", "dev", "ens8f0")[1] == (
        '{"dscp_prio":[[26,3],[48,6]]}\n'
    )
    assert trust("dscp") in said(twin, "mlnx_qos", "-i", "ens8f0")[1]
    assert said(twin, "dcb", "app", "del", "dev", "ens8f0", "dscp-prio", "26:4")[0] == 1
    assert said(twin, "dcb", "app", "del", "dev", "ens8f0", "dscp-prio", "26:3")[0] == 0
    assert trust("dscp") in said(twin, "mlnx_qos", "-i", "ens8f0")[1]
    said(twin, "dcb", "app", "flush", "dev", "ens8f0", "dscp-prio")
    assert trust("pcp") in said(twin, "mlnx_qos", "-i", "ens8f0")[1]


@covers("dcb-replace")
def test_replacing_complains_and_ends_well(twin: TwinHost) -> None:
    replace = ("dcb", "app", "replace", "dev", "ens8f0", "dscp-prio")
    assert said(twin, *replace, "26:1") == (0, "", "")
    rc, _, err = said(twin, *replace, "26:3")
    assert (rc, err.splitlines()[-1]) == (0, "Could not remove replaced APP entries")
    assert said(twin, *replace, "26:3") == (0, "", "")
    assert said(twin, "dcb", "-j", "app", "show", "dev", "ens8f0")[1] == '{"dscp_prio":[[26,3]]}\n'


@covers("dcb-absent")
@pytest.mark.parametrize(
    ("name", "why"),
    [("lo", "Operation not supported"), ("eno1", "Operation not supported"),
     ("nope", "No such device")],
)  # fmt: skip
def test_what_has_no_dcb(twin: TwinHost, name: str, why: str) -> None:
    said_ = said(twin, "dcb", "-j", "pfc", "show", "dev", name)
    assert said_ == (1, "\n", f"Attribute read: {why}\n")
    assert said(twin, "dcb", "app", "flush", "dev", name, "dscp-prio")[1] == ""


@covers("dcb-absent")
def test_neither_infiniband_nor_a_vf_has_dcb(roce: Pf, ib: Pf) -> None:
    roce.write("sriov_numvfs", "1")
    for pf, name in ((roce, roce.vf_netdev(0)), (ib, ib.name)):
        ran = pf.host.run(["dcb", "-j", "app", "show", "dev", name])
        assert (ran.rc, ran.stderr) == (1, "Attribute read: Operation not supported\n")


@covers("dcb-absent")
def test_an_object_this_dcb_does_not_know(twin: TwinHost) -> None:
    rc, out, err = said(twin, "dcb", "-j", "apptrust", "show", "dev", "ens8f0")
    assert (rc, out, err) == (1, "\n", 'Object "apptrust" is unknown\n')


@covers("mlnx-qos")
def test_mlnx_qos_tells_and_sets_the_same(twin: TwinHost) -> None:
    twin.put_program(["mlnx_qos"], partial(dcb.mlnx_qos, twin))
    said(twin, "mlnx_qos", "-i", "ens8f0", "--pfc", "0,0,0,1,0,0,0,0")
    _, out, _ = said(twin, "mlnx_qos", "-i", "ens8f0", "--trust", "dscp")
    assert "\tenabled     0   0   0   1   0   0   0   0   \n" in out
    assert "\tprio:3 dscp:31,30,29,28,27,26,25,24,\n" in out
    said(twin, "mlnx_qos", "-i", "ens8f0", "--dscp2prio", "set,26,5")
    shown = json.loads(said(twin, "dcb", "-j", "app", "show", "dev", "ens8f0")[1])
    assert dict(shown["dscp_prio"])[26] == 5
    assert len(shown["dscp_prio"]) == 64


# --- ethtool ------------------------------------------------------------------------------------


@covers("mlx5-rings")
@pytest.mark.parametrize(
    ("asked", "became"), [("8192", 8192), ("5000", 8192), ("64", 64), ("65", 128)]
)
def test_a_ring_becomes_a_power_of_two(twin: TwinHost, asked: str, became: int) -> None:
    assert said(twin, "ethtool", "-G", "ens8f0", "tx", asked) == (0, "", "")
    _, out, _ = said(twin, "ethtool", "-g", "ens8f0")
    maxima, _, now = out.partition("Current hardware settings:\n")
    assert "RX:\t\t8192\n" in maxima
    assert now.startswith(f"RX:\t\t1024\nRX Mini:\tn/a\nRX Jumbo:\tn/a\nTX:\t\t{became}\n")


@covers("mlx5-rings")
@pytest.mark.parametrize("asked", ["8193", "63"])
def test_a_ring_out_of_range(twin: TwinHost, asked: str) -> None:
    rc, _, err = said(twin, "ethtool", "-G", "ens8f0", "tx", asked)
    assert (rc, err.splitlines()[-1]) == (81, "netlink error: Invalid argument")
    assert ("exceeds maximum" in err) == (asked == "8193")


@covers("mlx5-coalescing")
def test_adapting_brings_its_own_numbers(twin: TwinHost) -> None:
    said(twin, "ethtool", "-C", "ens8f0", "adaptive-rx", "off", "rx-usecs", "50")
    _, out, _ = said(twin, "ethtool", "-c", "ens8f0")
    assert "\nAdaptive RX: off  TX: on\n" in out
    assert "\nrx-usecs: 50\n" not in out
    said(twin, "ethtool", "-C", "ens8f0", "adaptive-rx", "off", "rx-usecs", "50")
    assert "\nrx-usecs: 50\n" in said(twin, "ethtool", "-c", "ens8f0")[1]
    rc, _, err = said(twin, "ethtool", "-C", "ens8f0", "rx-usecs", "99999")
    assert (rc, err) == (1, "netlink error: Numerical result out of range\n")
    assert said(twin, "ethtool", "-C", "ens8f0", "bogus", "1")[0] == 1


@covers("mlx5-rings")
def test_other_netdevs(twin: TwinHost) -> None:
    assert said(twin, "ethtool", "-g", "lo")[2] == "netlink error: Operation not supported\n"
    assert said(twin, "ethtool", "-g", "nope")[2].endswith("netlink error: No such device\n")
    assert said(twin, "ethtool", "-g", "eno1")[0] == 255
    assert said(twin, "ethtool", "-i", "ens8f0")[1].startswith("driver: mlx5_core\n")


# --- setpci -------------------------------------------------------------------------------------


def config(pf: Pf) -> bytes:
    return pf.host.read_bytes(f"{pf.path}/config")


@covers("setpci-mask")
def test_a_mask_spares_the_other_bits(roce: Pf, twin: TwinHost) -> None:
    _, before, _ = said(twin, "setpci", "-s", roce.address, "CAP_EXP+8.w")
    assert int(before, 16) & 0x7010 == 0x5010
    assert said(twin, "setpci", "-s", roce.address, "CAP_EXP+8.w=0000:0010") == (0, "", "")
    _, after, _ = said(twin, "setpci", "-s", roce.address, "CAP_EXP+8.w")
    assert int(after, 16) == int(before, 16) & ~0x10


@covers("setpci-mask")
def test_without_a_mask_the_register_is_lost(roce: Pf, twin: TwinHost) -> None:
    """Seed 002's line for relaxed ordering: it hits Link Control, and all of it."""
    said(twin, "setpci", "-s", roce.address, "CAP_EXP+10.w=0020")
    assert said(twin, "setpci", "-s", roce.address, "CAP_EXP+10.w")[1] == "0020\n"


@covers("setpci-silent")
def test_what_setpci_only_warns_of(roce: Pf, twin: TwinHost) -> None:
    rc, _, err = said(twin, "setpci", "-s", "0000:ff:00.0", "CAP_EXP+8.w=0010:0010")
    assert (rc, err) == (0, "setpci: Warning: No devices selected for operation group 1.\n")
    before = config(roce)
    twin.put("/sys/kernel/security/lockdown", "none [integrity] confidentiality\n")
    rc, _, err = said(twin, "setpci", "-s", roce.address, "CAP_EXP+8.w=0000:0010")
    assert (rc, err) == (0, "pcilib: sysfs_write: write failed: Operation not permitted\n")
    assert config(roce) == before


@covers("setpci-silent")
def test_a_function_without_the_capability(roce: Pf, twin: TwinHost) -> None:
    raw = bytearray(config(roce))
    raw[0x34] = 0
    twin.put(twin.resolve(f"{roce.path}/config"), bytes(raw))
    rc, _, err = said(twin, "setpci", "-s", roce.address, "CAP_EXP+8.w=0010:0010")
    assert rc == 1
    assert "Instance #0 of Capability 0010 not found" in err


# --- files --------------------------------------------------------------------------------------


@covers("governor")
def test_a_governor_must_be_there(twin: TwinHost) -> None:
    assert twin.text(f"{POLICY}/scaling_available_governors").split() == [
        "performance",
        "powersave",
    ]
    twin.write(f"{POLICY}/scaling_governor", "powersave")
    assert twin.read(f"{POLICY}/scaling_governor") == "powersave\n"
    with pytest.raises(OSError, match="Invalid argument"):
        twin.write(f"{POLICY}/scaling_governor", "schedutil")


@covers("governor")
def test_a_virtual_machine_has_no_cpufreq() -> None:
    assert not exists(open_host("twin:igb"), "/sys/devices/system/cpu/cpufreq")


@covers("ecn-files")
def test_ecn_files_are_the_vendors(roce: Pf, twin: TwinHost) -> None:
    at = "/sys/class/net/ens8f0/ecn/roce_rp/enable"
    assert not exists(twin, at)
    tuning.show_ecn(twin, "ens8f0")
    twin.write(f"{at}/3", "0")
    assert [twin.text(f"{at}/{p}") for p in range(8)] == [*"11101111"]
    with pytest.raises(OSError, match="Invalid argument"):
        twin.write(f"{at}/3", "2")
    with pytest.raises(OSError, match="Permission denied") as no:
        twin.write("/sys/class/infiniband/mlx5_0/ports/1/gids/3", "0")
    assert no.value.errno == errno.EACCES


@covers("tos-view")
def test_the_tos_outlives_its_view(twin: TwinHost) -> None:
    view = "/sys/kernel/config/rdma_cm/mlx5_0"
    tos = f"{view}/ports/1/default_roce_tos"
    assert said(twin, "mkdir", view) == (0, "", "")
    assert twin.read(tos) == "0\n"
    twin.write(tos, "106")
    for bad, why in (("256", "Numerical result out of range"), ("x", "Invalid argument")):
        with pytest.raises(OSError, match=why):
            twin.write(tos, bad)
    assert "File exists" in said(twin, "mkdir", view)[2]
    assert said(twin, "rmdir", view) == (0, "", "")
    assert not exists(twin, view)
    assert "No such file" in said(twin, "rmdir", view)[2]
    said(twin, "mkdir", view)
    assert twin.read(tos) == "106\n"
    assert "No such device" in said(twin, "mkdir", view.replace("mlx5_0", "mlx5_9"))[2]


@covers("systemd-reload")
def test_a_drop_in_counts_after_a_reload(twin: TwinHost) -> None:
    show = ("systemctl", "show", "-p", "LoadState", "-p", "LimitMEMLOCK", "kubelet.service")
    assert said(twin, *show)[1] == "LimitMEMLOCK=8388608\nLoadState=loaded\n"
    place = "/etc/systemd/system/kubelet.service.d"
    twin.place(f"{place}/50-a.conf", "[Service]\nLimitMEMLOCK=infinity\n")
    assert "8388608" in said(twin, *show)[1]
    said(twin, "systemctl", "daemon-reload")
    assert "infinity" in said(twin, *show)[1]
    twin.place(f"{place}/60-b.conf", "[Service]\nLimitMEMLOCK=65536\n")
    said(twin, "systemctl", "daemon-reload")
    assert "LimitMEMLOCK=65536" in said(twin, *show)[1]
    assert "LoadState=not-found" in said(twin, *show[:-1], "docker.service")[1]
