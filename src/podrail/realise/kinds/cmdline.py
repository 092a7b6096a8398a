"""Kernel command lines as lists of arguments: what must change for some to be there. Pure.

An argument makes those of the same key go that contradict it. Some keys take a list of options
(`pci=noaer,realloc`), of which only the contradicting ones go; a few may be given more than once
(`console=`), and there none does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from podrail.realise.step import Failed

# Documentation/admin-guide/kernel-parameters.txt: options separated by commas
_LISTS = ("pci", "iommu", "intel_iommu", "amd_iommu")
_REPEATED = ("console", "earlycon", "hugepages", "hugepagesz", "initcall_blacklist")
_SAFE = re.compile(r"[^\s\"'$`\\]+")


def check(wanted: Mapping[str, bool]) -> None:
    """`Failed` on what is no single argument, or what a shell would read otherwise."""
    for arg in wanted:
        if not _SAFE.fullmatch(arg):
            raise Failed(
                f"{arg!r} is no single kernel argument",
                "give each argument for itself, without blanks and quotes",
            )


def key_of(arg: str) -> str:
    """The kernel takes `-` and `_` in names for the same (kernel/params.c:dash2underscore)."""
    return arg.partition("=")[0].replace("-", "_")


def _options(arg: str) -> list[str]:
    return [option for option in arg.partition("=")[2].split(",") if option]


def _against(one: str, other: str) -> bool:
    same = one.partition("=")[0] == other.partition("=")[0]
    return one != other and (
        same or "off" in (one, other) or one == f"no{other}" or other == f"no{one}"
    )


def edits(present: Sequence[str], wanted: Mapping[str, bool]) -> dict[str, bool]:
    """Argument → whether to add or to remove it, so that the line is as wanted."""
    line = list(present)
    for arg in (arg for arg, there in wanted.items() if not there):
        line = _without(line, arg)
    kept = {arg for arg, there in wanted.items() if there}
    for arg in wanted:
        line = _with(line, arg, kept) if arg in kept else line
    gone = {arg: False for arg in present if arg not in line}
    return gone | {arg: True for arg in line if arg not in present}


def edited(present: Sequence[str], changes: Mapping[str, bool]) -> list[str]:
    """The line with edits done."""
    kept = [arg for arg in present if changes.get(arg, True)]
    return kept + [arg for arg, there in changes.items() if there and arg not in kept]


def _without(line: list[str], arg: str) -> list[str]:
    line = [word for word in line if word != arg]
    if key_of(arg) not in _LISTS or len(_options(arg)) != 1:
        return line
    found = [(word, _options(word)) for word in line]
    return [
        word if key_of(word) != key_of(arg) else _joined(word, options, _options(arg))
        for word, options in found
        if key_of(word) != key_of(arg) or options != _options(arg)
    ]


def _joined(word: str, options: Sequence[str], gone: Sequence[str]) -> str:
    if not set(options) & set(gone):
        return word
    return f"{word.partition('=')[0]}={','.join(o for o in options if o not in gone)}"


def _with(line: list[str], arg: str, wanted: set[str]) -> list[str]:
    key = key_of(arg)
    if key in _LISTS:
        return _with_options(line, arg)
    if key not in _REPEATED:
        line = [word for word in line if key_of(word) != key or word == arg or word in wanted]
    return line if arg in line else [*line, arg]


def _with_options(line: list[str], arg: str) -> list[str]:
    key, want = key_of(arg), _options(arg)
    known = [option for word in line if key_of(word) == key for option in _options(word)]
    against = [o for o in known if any(_against(o, w) for w in want)]
    if not against and all(w in known for w in want):
        return line
    merged = [o for o in dict.fromkeys(known) if o not in against and o not in want] + want
    rest = [word for word in line if key_of(word) != key]
    return [*rest, f"{arg.partition('=')[0]}={','.join(merged)}"]
