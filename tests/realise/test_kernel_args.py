"""Kernel arguments: what must change, and each tool that keeps them."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podrail.host.seam import exists
from podrail.host.twin import TwinHost
from podrail.host.twins import machine, twin
from podrail.host.twins.build import build
from podrail.host.twins.programs import bootloader
from podrail.host.twins.reboot import reboot
from podrail.realise.kinds import boot_tools
from podrail.realise.kinds.boot_tools import DROP_IN, drop_in, merged
from podrail.realise.kinds.cmdline import edited, edits, key_of
from podrail.realise.kinds.files import MARKER
from podrail.realise.kinds.kernel_args import KernelArgs, pending
from podrail.realise.step import MACHINE, Failed, Step
from tests.twin.faulted import fault

IOMMU = {"intel_iommu=on": True, "iommu=pt": True}


def booted(tool: str | None, *args: str) -> TwinHost:
    """A machine with a tool, booted with these arguments."""
    words = ("BOOT_IMAGE=/boot/vmlinuz", "root=/dev/vda1", "ro", *args)
    base = replace(machine("cx6-ib"), bootloader=tool, cmdline=" ".join(words))
    return build(base, "twin:cx6-ib")


def step(wanted: Mapping[str, bool]) -> Step:
    return Step("kernel-args", MACHINE, dict(wanted))


# --- pure -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "wanted", "todo"),
    [
        ("ro", {"iommu=pt": True}, {"iommu=pt": True}),
        ("ro iommu=pt", {"iommu=pt": True}, {}),
        ("ro iommu=pt", {"iommu=pt": False}, {"iommu=pt": False}),
        ("ro", {"iommu=pt": False}, {}),
        ("quiet", {"quiet": True}, {}),
        ("intel_iommu=off", {"intel_iommu=on": True},
         {"intel_iommu=off": False, "intel_iommu=on": True}),
        ("intel_iommu=on intel_iommu=off", {"intel_iommu=on": True}, {"intel_iommu=off": False}),
        ("x=1", {"x=1": True, "x=2": True}, {"x=2": True}),
        ("intel_iommu=on,sm_on", {"intel_iommu=on": True}, {}),
        ("iommu=nopt", {"iommu=pt": True}, {"iommu=nopt": False, "iommu=pt": True}),
        ("pci=realloc=off", {"pci=realloc": True}, {"pci=realloc=off": False, "pci=realloc": True}),
        ("pci=noaer", {"pci=realloc": True}, {"pci=noaer": False, "pci=noaer,realloc": True}),
        ("pci=noaer,realloc", {"pci=realloc": True}, {}),
        ("pci=noaer,realloc", {"pci=realloc": False},
         {"pci=noaer,realloc": False, "pci=noaer": True}),
        ("pci=noaer", {"pci=realloc": False}, {}),
        ("", {"pci=realloc": True, "pci=assign-busses": True}, {"pci=realloc,assign-busses": True}),
        ("ib_core.netns_mode=1", {"ib_core.netns_mode=0": True},
         {"ib_core.netns_mode=1": False, "ib_core.netns_mode=0": True}),
        ("ib-core.netns_mode=1", {"ib_core.netns_mode=0": True},
         {"ib-core.netns_mode=1": False, "ib_core.netns_mode=0": True}),
        ("console=tty0", {"console=ttyS0": True}, {"console=ttyS0": True}),
        ("iommu.passthrough=0", {"iommu=pt": True}, {"iommu=pt": True}),
    ],
)  # fmt: skip
def test_what_must_change(line: str, wanted: dict[str, bool], todo: dict[str, bool]) -> None:
    assert edits(line.split(), wanted) == todo


ARGS = """
ro quiet console=tty0 console=ttyS0 ib_core.netns_mode=0 ib_core.netns_mode=1
intel_iommu=on intel_iommu=off intel_iommu=on,sm_on iommu=pt iommu=nopt iommu=off
pci=realloc pci=realloc=off pci=noaer pci=noaer,realloc
"""
args = st.sampled_from(ARGS.split())
lines = st.lists(args, unique=True, max_size=8)
wishes = st.dictionaries(args, st.booleans(), max_size=4).filter(
    lambda wish: len({key_of(arg) for arg in wish}) == len(wish)
)


@given(lines, wishes)
def test_done_once_it_holds_and_touches_nothing_else(
    line: list[str], wanted: dict[str, bool]
) -> None:
    todo = edits(line, wanted)
    after = edited(line, todo)
    assert edits(after, wanted) == {}
    assert len(set(after)) == len(after)
    keys = {key_of(arg) for arg in wanted}
    assert [a for a in after if key_of(a) not in keys] == [a for a in line if key_of(a) not in keys]


@given(lines, wishes)
def test_taken_back_it_says_what_it_said(line: list[str], wanted: dict[str, bool]) -> None:
    todo = edits(line, wanted)
    was = {arg: arg in line for arg in {**todo, **wanted}}
    back = edited(edited(line, todo), edits(edited(line, todo), was))
    if len({key_of(arg) for arg in line}) == len(line):
        assert sorted(back) == sorted(line)


# --- the drop-in of Debian's grub -------------------------------------------------------------


def sourced(
    text: str, common: str, usual: str, where: Path | None = None
) -> tuple[list[str], list[str]]:
    """What a real shell makes of a drop-in, as grub-mkconfig does (it runs with set -e)."""
    script = f"""set -e
GRUB_CMDLINE_LINUX={common!r}
GRUB_CMDLINE_LINUX_DEFAULT={usual!r}
{text}
printf '%s\\n%s\\n' "$GRUB_CMDLINE_LINUX" "$GRUB_CMDLINE_LINUX_DEFAULT"
"""
    done = subprocess.run(
        ["sh", "-c", script], capture_output=True, text=True, check=True, cwd=where
    )
    first, second = done.stdout.splitlines()
    return first.split(), second.split()


words = st.lists(args, unique=True, max_size=4)


@settings(max_examples=40, deadline=None)
@given(ours=words, others=words, common=words, usual=words)
def test_a_shell_and_the_twin_read_the_drop_in_alike(
    ours: list[str], others: list[str], common: list[str], usual: list[str]
) -> None:
    text = drop_in(ours, others)
    got = sourced(text, " ".join(common), " ".join(usual))
    wanted = [a for a in common if a not in others] + ours, [a for a in usual if a not in others]
    assert got == wanted
    host = booted("update-grub")
    host.put("/etc/default/grub", f'GRUB_CMDLINE_LINUX="{" ".join(common)}"\n'
             f'GRUB_CMDLINE_LINUX_DEFAULT="{" ".join(usual)}"\n')  # fmt: skip
    host.put(DROP_IN, text)
    assert host.run(["update-grub"]).rc == 0
    assert (bootloader.next_cmdline(host) or "").split()[3:] == [*got[0], *got[1]]


def test_nothing_is_expanded(tmp_path: Path) -> None:
    for name in ("a=1", "b=c"):
        (tmp_path / name).touch()
    text = drop_in(["iommu=pt"], ["x"])
    assert sourced(text, "a=* b=[c] x -n", "", tmp_path) == (["a=*", "b=[c]", "-n", "iommu=pt"], [])


def test_a_drop_in_grows_and_shrinks() -> None:
    one = merged("", ["iommu=pt"], ["iommu=off"])
    assert one is not None
    two = merged(one, ["pci=realloc"], [])
    assert two is not None
    assert two == drop_in(["iommu=pt", "pci=realloc"], ["iommu=off"])
    assert merged(two, ["iommu=off"], ["iommu=pt", "pci=realloc"]) is None
    assert one.startswith(f"{MARKER}\n")


# --- the tools --------------------------------------------------------------------------------

TOOLS = ["rpm-ostree", "grubby", "update-grub"]


@pytest.mark.parametrize("tool", TOOLS)
def test_there_and_back(tool: str) -> None:
    host, kind = booted(tool, "quiet", "intel_iommu=off", "pci=realloc=off"), KernelArgs()
    before = bootloader.next_cmdline(host)
    wanted = step({**IOMMU, "pci=realloc": True, "quiet": False})
    was = kind.found(host, wanted)
    assert was == {
        "quiet": True, "intel_iommu=off": True, "pci=realloc=off": True,
        "intel_iommu=on": False, "iommu=pt": False, "pci=realloc": False,
    }  # fmt: skip
    assert not kind.holds(host, wanted)
    kind.do(host, wanted)
    assert kind.holds(host, wanted)
    line = (bootloader.next_cmdline(host) or "").split()
    assert line[3:] == ["intel_iommu=on", "iommu=pt", "pci=realloc"]
    kind.do(host, wanted)
    assert (bootloader.next_cmdline(host) or "").split() == line
    kind.undo(host, wanted, was)
    assert sorted((bootloader.next_cmdline(host) or "").split()) == sorted((before or "").split())
    assert not exists(host, DROP_IN)


@pytest.mark.parametrize("tool", TOOLS)
def test_a_reboot_brings_it(tool: str) -> None:
    host = booted(tool)
    KernelArgs().do(host, step(IOMMU))
    assert pending(host, IOMMU) == IOMMU
    assert "iommu" not in host.read("/proc/cmdline")
    reboot(host)
    assert pending(host, IOMMU) == {}
    assert KernelArgs().holds(host, step(IOMMU))
    assert KernelArgs().read(host, MACHINE)["iommu=pt"] is True


def test_pending_is_told_for_each_argument() -> None:
    host = booted("grubby", "intel_iommu=on", "quiet")
    assert pending(host, {**IOMMU, "quiet": False}) == {"iommu=pt": True, "quiet": False}


@pytest.mark.parametrize(
    ("name", "tool"),
    [("roce-cx6", "rpm-ostree"), ("ib-cx7", "rpm-ostree"), ("hgx-h100", "update-grub")],
)
def test_the_tool_of_a_machine(name: str, tool: str) -> None:
    assert boot_tools.tool_of(twin(name), "").name == tool
    assert KernelArgs().holds(twin(name), step(IOMMU))


def test_an_argument_that_only_one_entry_lacks_is_added() -> None:
    host = booted("grubby", "iommu=pt")
    host.put("/boot/loader/entries/c4d5-0-rescue.conf", "options root=/dev/vda1 ro\n")
    assert not KernelArgs().holds(host, step({"iommu=pt": True}))
    KernelArgs().do(host, step({"iommu=pt": True}))
    assert host.run(["grubby", "--info=ALL"]).stdout.count("iommu=pt") == 2


def test_in_words() -> None:
    assert KernelArgs().says({"iommu=pt": True, "quiet": False}) == "iommu=pt no quiet"
    assert KernelArgs().says({}) == "nothing"
    assert KernelArgs.lasting


# --- refusals ---------------------------------------------------------------------------------


def test_no_tool_at_all_says_what_to_add() -> None:
    host = twin("igb")
    wanted = step({"pci=realloc": True, "iommu=pt": True})
    for act in (KernelArgs().holds, KernelArgs().found, KernelArgs().do):
        with pytest.raises(Failed, match=r"nothing on this machine \(debian\)") as no:
            act(host, wanted)
        assert no.value.fix.endswith("and reboot: pci=realloc iommu=pt")


def test_no_tool_and_done_by_hand_holds() -> None:
    assert KernelArgs().holds(twin("igb"), step(IOMMU))


@pytest.mark.parametrize(
    ("system", "place"),
    [("talos", "machine.install.extraKernelArgs"), ("flatcar", "/oem/grub.cfg"),
     ("cos", "Container-Optimized OS"), ("bottlerocket", "settings.boot"), ("x", "boot loader")],
)  # fmt: skip
def test_systems_without_a_tool_have_a_place(system: str, place: str) -> None:
    host = booted(None)
    host.put("/etc/os-release", f"NAME=n\nID={system}\n")
    with pytest.raises(Failed) as no:
        KernelArgs().do(host, step(IOMMU))
    assert place in no.value.fix
    host.remove("/etc/os-release")
    with pytest.raises(Failed, match="this system"):
        KernelArgs().do(host, step(IOMMU))


REFUSED = {"rc": 1, "stderr": "error: Transaction in progress"}


@pytest.mark.parametrize(
    ("tool", "words", "told"),
    [
        ("rpm-ostree", "rpm-ostree kargs", "`rpm-ostree kargs`: error: Trans"),
        (
            "rpm-ostree",
            "rpm-ostree kargs --append-if-missing=iommu=pt",
            "if-missing=iommu=pt`: err",
        ),
        ("grubby", "grubby --info=ALL", "`grubby --info=ALL`: error: Trans"),
        ("grubby", "grubby --update-kernel=ALL --args=iommu=pt", "--args=iommu=pt`: error: Trans"),
        ("update-grub", "update-grub", "`update-grub`: error: Trans"),
    ],
)
def test_a_tool_that_fails(tool: str, words: str, told: str) -> None:
    host = booted(tool)
    before = bootloader.next_cmdline(host)
    fault(host, f"program:{words}", REFUSED)
    with pytest.raises(Failed, match=told):
        KernelArgs().do(host, step({"iommu=pt": True}))
    assert bootloader.next_cmdline(host) == before
    assert not exists(host, DROP_IN)


def test_a_failed_update_grub_leaves_the_drop_in_it_found() -> None:
    host = booted("update-grub")
    KernelArgs().do(host, step({"iommu=pt": True}))
    was = host.read(DROP_IN)
    fault(host, "program:update-grub", REFUSED)
    with pytest.raises(Failed):
        KernelArgs().do(host, step({"quiet": True}))
    assert host.read(DROP_IN) == was


def test_an_ostree_machine_without_its_program() -> None:
    host = fault(booted("rpm-ostree"), "program:rpm-ostree", None)
    with pytest.raises(Failed, match="rpm-ostree is not installed"):
        KernelArgs().holds(host, step(IOMMU))


def test_a_tool_that_changes_nothing() -> None:
    host = booted("update-grub")
    fault(host, "program:update-grub", "done")
    with pytest.raises(
        Failed, match="update-grub did its work, and the next boot still lacks: iom"
    ):
        KernelArgs().do(host, step({"iommu=pt": True}))


def test_a_drop_in_of_somebody_else() -> None:
    host = booted("update-grub")
    host.put(DROP_IN, "GRUB_TIMEOUT=5\n")
    with pytest.raises(Failed, match="podrail did not make it"):
        KernelArgs().do(host, step(IOMMU))
    assert host.read(DROP_IN) == "GRUB_TIMEOUT=5\n"


@pytest.mark.parametrize("text", [None, "insmod part_gpt\n"])
def test_a_grub_that_boots_nothing(text: str | None) -> None:
    host = fault(booted("update-grub"), "/boot/grub/grub.cfg", text)
    with pytest.raises(Failed, match=r"grub\.cfg starts no kernel"):
        KernelArgs().holds(host, step(IOMMU))


@pytest.mark.parametrize("arg", ["iommu=pt quiet", 'a="b"', "a=$HOME", "a=`id`", "a\\b", ""])
def test_what_is_no_single_argument(arg: str) -> None:
    with pytest.raises(Failed, match="is no single kernel argument"):
        KernelArgs().do(booted("update-grub"), step({arg: True}))
