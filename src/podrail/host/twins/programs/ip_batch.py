"""`ip -batch -` of a twin: one command a line, until the first that fails.

iproute2 lib/utils.c:do_batch. A command whose words `ip` itself cannot read ends the whole program
(lib/utils.c:invarg calls exit), even with -force; what the kernel refuses only fails its line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from podrail.host.seam import Ran
from podrail.host.twins.programs.answer import not_modelled

_SYNTAX = 255
_UNREAD = frozenset("\\'\"")
"""What joins lines and words there, and no twin has."""


def batch(
    argv: Sequence[str], text: str, one: Callable[[Sequence[str]], Ran], *, force: bool
) -> Ran:
    """Run each line through `one`; with `force` go on after a failure."""
    if _UNREAD & set(text):
        return not_modelled(argv)
    rc, out, err = 0, "", ""
    for number, words in _commands(text):
        ran = one(words)
        out, err = out + ran.stdout, err + ran.stderr
        if ran.rc == _SYNTAX:
            return Ran(tuple(argv), _SYNTAX, out, err)
        if ran.rc:
            rc, err = 1, f"{err}Command failed -:{number}\n"
            if not force:
                break
    return Ran(tuple(argv), rc, out, err)


def _commands(text: str) -> Iterator[tuple[int, list[str]]]:
    """The lines that say something, numbered from 1; `#` starts a comment (getcmdline)."""
    for number, line in enumerate(text.split("\n"), 1):
        if words := line.partition("#")[0].split():
            yield number, words
