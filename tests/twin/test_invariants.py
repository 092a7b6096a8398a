"""Whatever is written to sriov_numvfs, the machine stays in one piece."""

from __future__ import annotations

import contextlib
import json

from hypothesis import given, settings
from hypothesis import strategies as st

from podrail.host.twin import TwinHost
from podrail.host.twins import twin

PFS = {
    "igb": ("enp67s0", "ens2"),
    "roce-cx6": ("ens8f0", "ens8f1"),
    "ib-cx7": ("ibp60s0", "ibp94s0"),
}

writes = st.lists(
    st.tuples(
        st.integers(0, 1), st.sampled_from(["0", "1", "3", "7", "16", "17", "x", "-1", "0\n"])
    ),
    max_size=12,
)


def check(host: TwinHost, name: str) -> None:
    at = f"/sys/class/net/{name}/device"
    count = int(host.read(f"{at}/sriov_numvfs"))
    virtfns = [n for n in host.entries(at) if n.startswith("virtfn")]
    info = json.loads(host.run(["ip", "-d", "-j", "link", "show", name]).stdout)[0]["vfinfo_list"]
    assert len(virtfns) == len(info) == count
    for virtfn in virtfns:
        vf = host.resolve(f"{at}/{virtfn}")
        assert host.resolve(f"{vf}/physfn") == host.resolve(at)
        assert vf.rpartition("/")[2] in host.entries("/sys/bus/pci/devices")


def check_whole(host: TwinHost) -> None:
    for name in host.entries("/sys/class/net"):
        assert host.read(f"/sys/class/net/{name}/ifindex")
    for name in host.names("/sys/class/infiniband"):
        assert host.read(f"/sys/class/infiniband/{name}/ports/1/gids/0")
    for group in host.entries("/sys/kernel/iommu_groups"):
        assert host.entries(f"/sys/kernel/iommu_groups/{group}/devices")
    indexes = [n.ifindex for n in host.netdevs.values()]
    assert len(set(indexes)) == len(indexes)


@settings(max_examples=60, deadline=None)
@given(name=st.sampled_from(sorted(PFS)), sequence=writes)
def test_any_sequence_of_writes_keeps_the_machine_whole(
    name: str, sequence: list[tuple[int, str]]
) -> None:
    host = twin(name)
    for which, text in sequence:
        with contextlib.suppress(OSError):
            host.write(f"/sys/class/net/{PFS[name][which]}/device/sriov_numvfs", text)
        for pf in PFS[name]:
            check(host, pf)
    check_whole(host)


def test_all_gone_leaves_nothing_behind() -> None:
    host, fresh = twin("roce-cx6"), twin("roce-cx6")
    for text in ("16", "0"):
        for name in PFS["roce-cx6"]:
            host.write(f"/sys/class/net/{name}/device/sriov_numvfs", text)
    assert host._files == fresh._files
    assert host._links == fresh._links
