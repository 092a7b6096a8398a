"""The RDMA namespace mode."""

from __future__ import annotations

import pytest

from podrail.host.twins import twin
from podrail.host.twins.reboot import reboot
from podrail.realise.kinds.files import RDMA_CONF, File, rdma_netns_conf
from podrail.realise.kinds.rdma_mode import RdmaNetns
from podrail.realise.step import MACHINE, Failed, Step
from tests.twin.faulted import fault


def step(mode: str) -> Step:
    return Step("rdma-netns", MACHINE, mode)


@pytest.mark.parametrize("name", ["roce-cx6", "igb"])  # JSON, and the text of the lab's iproute2
def test_there_and_back(name: str) -> None:
    host, mode = twin(name), RdmaNetns()
    assert mode.found(host, step("exclusive")) == "shared"
    assert mode.holds(host, step("shared"))
    mode.do(host, step("exclusive"))
    assert mode.holds(host, step("exclusive"))
    mode.undo(host, step("exclusive"), "shared")
    assert mode.read(host, MACHINE) == "shared"


def test_pods_keep_the_kernel_from_it_and_the_boot_is_reported() -> None:
    host = fault(twin("roce-cx6"), "/run/netns/4f1d", "")
    mode = RdmaNetns()
    mode.do(host, step("exclusive"))
    assert mode.read(host, MACHINE) == "shared"
    assert not mode.holds(host, step("exclusive"))
    told = mode.pending(host, step("exclusive")) or ""
    assert "is shared and becomes exclusive with a reboot" in told


def test_the_file_is_the_way_out() -> None:
    host = fault(twin("roce-cx6"), "/run/netns/4f1d", "")
    File().do(host, Step("file", RDMA_CONF, rdma_netns_conf("exclusive")))
    assert RdmaNetns().holds(host, step("exclusive"))
    assert RdmaNetns().pending(host, step("exclusive"))
    reboot(host)
    assert RdmaNetns().read(host, MACHINE) == "exclusive"
    assert RdmaNetns().pending(host, step("exclusive")) is None


def test_without_the_program() -> None:
    host = fault(twin("roce-cx6"), "program:rdma", None)
    with pytest.raises(Failed, match="rdma is not installed") as no:
        RdmaNetns().read(host, MACHINE)
    assert "iproute2" in no.value.fix


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ({"rc": 1, "stderr": "Failed to open NETLINK_RDMA socket"}, "Failed to open NETLINK_RDMA"),
        ("Unknown object 'system'.", "Unknown object"),
    ],
)
def test_a_machine_that_tells_no_mode(answer: object, told: str) -> None:
    host = fault(twin("roce-cx6"), "program:rdma -j system", answer)
    with pytest.raises(Failed, match=told):
        RdmaNetns().holds(host, step("shared"))


@pytest.mark.parametrize("rc", [0, 1])
def test_a_mode_that_does_not_come_about(rc: int) -> None:
    answer = {"rc": rc, "stderr": "error: Operation not permitted"}
    host = fault(twin("roce-cx6"), "program:rdma system set netns exclusive", answer)
    with pytest.raises(Failed, match="stays shared, wanted exclusive: error: Operation not perm"):
        RdmaNetns().do(host, step("exclusive"))
