"""Refusals a twin can be told to give: writes, firmware, a driver that is not there."""

from __future__ import annotations

import errno
import json

import pytest

from podrail.host.faults import apply, parse
from podrail.host.record import RecordedHost, RecordingHost
from podrail.host.seam import exists
from podrail.host.twin import TwinHost
from podrail.host.twins import twin
from podrail.model.errors import UsageError
from tests.twin.covers import covers
from tests.twin.faulted import fault

PF = "/sys/bus/pci/devices/0000:81:00.0"
NUMVFS = f"{PF}/sriov_numvfs"


def refused(host: TwinHost, path: str, text: str) -> int | None:
    try:
        host.write(path, text)
    except OSError as no:
        return no.errno if no.filename == path else -1
    return None


def test_one_file() -> None:
    host = fault(twin("igb"), f"write:{NUMVFS}", "ENOMEM")
    assert refused(host, NUMVFS, "4") == errno.ENOMEM
    assert host.read(NUMVFS) == "0\n"
    assert refused(host, "/sys/class/net/ens2/mtu", "9000") is None


def test_whichever_way_it_is_reached() -> None:
    host = fault(twin("igb"), f"write:{NUMVFS}", "ENOMEM")
    assert refused(host, "/sys/class/net/ens2/device/sriov_numvfs", "4") == errno.ENOMEM
    host = fault(twin("igb"), "write:/sys/class/net/ens2/device/sriov_numvfs", "EIO")
    assert refused(host, NUMVFS, "4") == errno.EIO


def test_everything_below_a_directory() -> None:
    host = fault(twin("igb"), "write:/sys", "EROFS")
    for path, text in ((NUMVFS, "4"), ("/sys/bus/pci/drivers_probe", "x"), (f"{PF}/vendor", "1")):
        assert refused(host, path, text) == errno.EROFS
    host.place("/etc/x", "text")
    with pytest.raises(FileNotFoundError):
        host.write("/sys/not/there", "1")


def test_a_name_that_only_begins_alike_is_another_place() -> None:
    host = fault(twin("igb"), f"write:{PF}/sriov", "EROFS")
    assert refused(host, NUMVFS, "1") is None


def test_the_nearest_refusal_holds() -> None:
    host = fault(fault(twin("igb"), f"write:{NUMVFS}", "ENOMEM"), "write:/sys", "EROFS")
    assert refused(host, NUMVFS, "4") == errno.ENOMEM
    assert refused(host, "/sys/class/net/ens2/mtu", "9000") == errno.EROFS


def test_files_are_neither_placed_nor_unlinked() -> None:
    host = fault(twin("igb"), "write:/etc", "ENOSPC")
    with pytest.raises(OSError, match="No space left"):
        host.place("/etc/x", "text")
    with pytest.raises(OSError, match="No space left"):
        host.unlink("/etc/os-release")
    assert exists(host, "/etc/os-release")
    assert not exists(host, "/etc/x")


def test_what_is_not_there_yet_can_be_refused_too() -> None:
    vf = "/sys/bus/pci/devices/0000:81:10.0"
    host = fault(twin("igb"), f"write:{vf}/driver_override", "EPERM")
    host.write(NUMVFS, "1")
    assert refused(host, f"{vf}/driver_override", "vfio-pci") == errno.EPERM
    assert exists(host, f"{vf}/driver")


def test_taken_back() -> None:
    host = fault(twin("igb"), f"write:{NUMVFS}", "ENOMEM")
    fault(host, f"write:{NUMVFS}", None)
    assert refused(host, NUMVFS, "4") is None
    assert host.refusals == {}


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("write:/sys", "NOPE", "wanted the name of an errno such as EROFS"),
        ("write:/sys", "errorcode", "wanted the name of an errno"),
        ("write:/sys", 30, "wanted the name of an errno"),
        ("write:sys", "EROFS", "is no absolute path"),
        ("write:", "EROFS", "names nothing"),
        ("firmware:9c:00.0#X", 1, "names no setting of a card"),
        ("firmware:0000:9c:00.0", 1, "names no setting of a card"),
        ("firmware:0000:9c:00.0#SRIOV_EN", "True", "wanted a number"),
        ("firmware:0000:9c:00.0#SRIOV_EN", True, "wanted a number"),
    ],
)
def test_what_is_wrong_is_said(path: str, value: object, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        fault(twin("roce-cx6"), path, value)


@pytest.mark.parametrize("pci", ["0000:04:00.0", "0000:ee:00.0"])
def test_firmware_of_a_card_that_is_not_there(pci: str) -> None:
    with pytest.raises(UsageError, match=f"has no card of NVIDIA at {pci}"):
        fault(twin("roce-cx6"), f"firmware:{pci}#SRIOV_EN", 0)


def test_a_setting_this_firmware_does_not_have() -> None:
    host = fault(twin("roce-cx6"), "firmware:0000:9c:00.0#UCTX_EN", None)
    assert "UCTX_EN" not in host.run(["mstconfig", "-e", "-d", "0000:9c:00.0", "q"]).stdout


@pytest.mark.parametrize(
    ("path", "value"), [("write:/sys", "EROFS"), ("firmware:0000:9c:00.0#SRIOV_EN", 0)]
)
def test_a_record_is_never_written_to(path: str, value: object) -> None:
    recording = RecordingHost(twin("roce-cx6"))
    recording.read("/proc/cmdline")
    host = RecordedHost.from_text(recording.dump(), "record.json")
    text = json.dumps({"id": "f", "set": [{"path": path, "value": value}]})
    with pytest.raises(UsageError, match="nothing can be written to a record"):
        apply(host, parse(text, "f"))


@covers("module-gone")
def test_a_vf_that_never_gets_a_netdev() -> None:
    host = fault(twin("igb"), "module:igbvf", None)
    host.write(NUMVFS, "2")
    vf = "/sys/bus/pci/devices/0000:81:10.0"
    assert exists(host, vf)
    assert not exists(host, f"{vf}/driver")
    assert not exists(host, f"{vf}/net")
    ran = host.run(["modprobe", "igbvf"])
    assert ran.rc == 1
    assert "Module igbvf not found" in ran.stderr
    assert not exists(host, f"{vf}/net")
