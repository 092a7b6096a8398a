"""Files of our own: what is placed, what is left alone, and the texts."""

from __future__ import annotations

import errno
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podrail.host.memory import MemoryHost
from podrail.host.seam import exists
from podrail.host.twins import twin
from podrail.realise.kinds.files import (
    MARKER,
    File,
    is_ours,
    nm_unmanaged_rule,
    pf_name_rule,
    rdma_netns_conf,
)
from podrail.realise.step import KINDS, Failed, Step

PATH = "/etc/udev/rules.d/70-podrail-nm-0000:81:00.0.rules"
TEXT = f"{MARKER}\nsomething\n"


def step(text: str | None) -> Step:
    return Step("file", PATH, text)


def test_it_is_registered_and_outlives_a_boot() -> None:
    assert isinstance(KINDS["file"], File)
    assert File.lasting


def test_placed_changed_and_taken_away() -> None:
    host, file = twin("igb"), File()
    assert file.found(host, step(TEXT)) is None
    for text in (TEXT, f"{MARKER}\nother\n"):
        assert not file.holds(host, step(text))
        file.do(host, step(text))
        assert host.read(PATH) == text
        assert file.holds(host, step(text))
    file.undo(host, step(TEXT), None)
    assert not exists(host, PATH)


def test_taking_away_what_is_not_there() -> None:
    host = twin("igb")
    File().do(host, step(None))
    assert not exists(host, PATH)


def test_a_file_of_somebody_else_is_left_alone() -> None:
    host, file = twin("igb"), File()
    host.put(PATH, "# mine\nSUBSYSTEM==...\n")
    for wanted in (TEXT, None):
        with pytest.raises(
            Failed, match="podrail did not make it: its first line is '# mine'"
        ) as no:
            file.do(host, step(wanted))
        assert no.value.fix.endswith(f"mv {PATH} {PATH}.old")
    assert host.read(PATH) == "# mine\nSUBSYSTEM==...\n"


def test_a_file_that_says_the_same_holds_whoever_made_it() -> None:
    host, file = twin("igb"), File()
    host.put(PATH, "theirs\n")
    assert file.holds(host, step("theirs\n"))
    file.do(host, step("theirs\n"))
    assert host.read(PATH) == "theirs\n"


def test_a_text_without_the_marker_could_never_be_taken_back() -> None:
    host = twin("igb")
    with pytest.raises(ValueError, match="does not start with"):
        File().do(host, step("no marker\n"))
    assert not exists(host, PATH)


def test_what_cannot_be_read_is_not_overwritten() -> None:
    host = MemoryHost("h", {PATH: errno.EACCES})
    with pytest.raises(PermissionError):
        File().do(host, step(TEXT))


@pytest.mark.parametrize(
    ("text", "ours"),
    [(MARKER, True), (f"{MARKER}\n", True), (f"{MARKER}s\n", False), (f"\n{MARKER}\n", False)],
)
def test_the_first_line_tells_whose_it_is(text: str, ours: bool) -> None:
    assert is_ours(text) is ours


def test_in_words() -> None:
    assert File().says(None) == "no file"
    assert File().says(f"{MARKER}\n") == "a file of 1 line"
    assert File().says(TEXT) == "a file of 2 lines"


# --- texts ------------------------------------------------------------------------------------


def test_network_manager_is_told_once_for_all_vfs() -> None:
    assert nm_unmanaged_rule(["0000:81:10.2", "0000:81:10.0", "0000:81:10.2"]) == (
        f"{MARKER}\n"
        'SUBSYSTEM=="net", ACTION!="remove", KERNELS=="0000:81:10.0|0000:81:10.2", '
        'ENV{NM_UNMANAGED}="1"\n'
    )
    with pytest.raises(ValueError, match="no function"):
        nm_unmanaged_rule([])


addresses = st.builds(
    "{:04x}:{:02x}:{:02x}.{}".format,
    st.integers(0, 3), st.integers(0, 255), st.integers(0, 31), st.integers(0, 7),
)  # fmt: skip


@given(st.sets(addresses, min_size=1, max_size=40))
def test_a_rule_matches_its_functions_and_no_other(wanted: set[str]) -> None:
    found = re.search(r'KERNELS=="([^"]*)"', nm_unmanaged_rule(wanted))
    assert found
    assert set(found[1].split("|")) == wanted
    assert len(found[1].split("|")) == len(wanted)


def test_a_name_is_for_the_uplink_not_for_representors() -> None:
    lines = pf_name_rule("0000:9c:00.0", "ens8f0").splitlines()
    assert lines[0] == MARKER
    assert 'ATTR{phys_port_name}=="*pf*[vs]f*", GOTO="podrail_end"' in lines[1]
    assert lines[2].endswith('KERNELS=="0000:9c:00.0", NAME="ens8f0"')
    assert lines[3] == 'LABEL="podrail_end"'


@pytest.mark.parametrize(("mode", "number"), [("exclusive", "0"), ("shared", "1")])
def test_the_mode_ib_core_is_loaded_with(mode: str, number: str) -> None:
    assert rdma_netns_conf(mode) == f"{MARKER}\noptions ib_core netns_mode={number}\n"
