"""`ip`, as far as podrail uses it."""

from __future__ import annotations

from collections.abc import Sequence

from podrail.host.seam import Ran
from podrail.host.twin import TwinHost
from podrail.host.twins.programs import ip_link, ip_show
from podrail.host.twins.programs.answer import not_modelled, refused

_OBJECTS = {"link": "link", "addr": "addr", "address": "addr", "a": "addr", "route": "route"}
_OPTIONS = {"-details": "d", "-json": "j", "-statistics": "s"}


def ip(host: TwinHost, argv: Sequence[str]) -> Ran:
    """`ip [ -d ] [ -j ] [ -4 | -6 ] link|addr|route show …` and `ip link set …`."""
    options, words = "", list(argv[1:])
    while words and words[0].startswith("-"):
        word = words.pop(0)
        options += _OPTIONS.get(word, word.lstrip("-"))
    what = _OBJECTS.get(words[0]) if words else None
    if what is None:
        name = words[0] if words else ""
        return refused(argv, 1, f'Object "{name}" is unknown, try "ip help".')
    verb = words[1] if len(words) > 1 else "show"
    if what == "link" and verb == "set":
        return ip_link.set_link(host, argv, words[2:])
    if verb in ("show", "list"):
        return ip_show.show(host, argv, options, [what, *words[1:]])
    return not_modelled(argv)
