from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podrail.attach.deviceplugin.naming import Resource, resource

NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,61}[A-Za-z0-9]", fullmatch=True)
PREFIXES = st.from_regex(r"[a-z0-9]{1,20}(\.[a-z0-9]{1,20}){0,10}", fullmatch=True)


@pytest.mark.parametrize(
    ("name", "good"),
    [
        ("openshift.io/rail_a", True),
        ("nvidia.com/rail-a.b", True),
        ("rdma/hca", True),
        ("rail", False),
        ("/rail", False),
        ("nvidia.com/", False),
        ("Nvidia.com/rail", False),
        ("nvidia.com/-rail", False),
        ("nvidia.com/rail_", False),
        ("nvidia.com/a/b", False),
        ("kubernetes.io/rail", False),
        ("node.kubernetes.io/rail", False),
        ("requests.nvidia.com/rail", False),
        (f"nvidia.com/{'a' * 64}", False),
        (f"{'a.' * 122}a/rail", False),
    ],
)
def test_what_the_kubelet_accepts(name: str, good: bool) -> None:
    assert (resource(name).wrong is None) is good


def test_variables_in_both_spellings() -> None:
    assert Resource("openshift.io", "rail_a").variables == ("PCIDEVICE_OPENSHIFT_IO_RAIL_A",)
    assert Resource("my-org.io", "rail-a.b").variables == (
        "PCIDEVICE_MY-ORG_IO_RAIL-A_B",
        "PCIDEVICE_MY_ORG_IO_RAIL_A_B",
    )


@given(PREFIXES, NAMES)
def test_one_spelling_suits_a_shell(prefix: str, name: str) -> None:
    assert re.fullmatch(r"[A-Z_][A-Z0-9_]*", Resource(prefix, name).variables[-1])


@given(st.lists(st.tuples(PREFIXES, NAMES), unique=True, min_size=2, max_size=6))
def test_sockets_fit_and_differ(names: list[tuple[str, str]]) -> None:
    found = [Resource(*name).socket("/var/lib/kubelet/plugins_registry") for name in names]
    assert all(len(path.encode()) <= 107 for path in found)
    assert all(path.count("/") == 5 for path in found)
    # `a_b/c` and `a/b_c` would meet, but a prefix has no underscore
    assert len(set(found)) == len(found)
