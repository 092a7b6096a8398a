"""`ip`, as far as podrail uses it."""

from __future__ import annotations

from collections.abc import Sequence

from podrail.host.seam import Ran
from podrail.host.twin import TwinHost
from podrail.host.twins import net
from podrail.host.twins.programs import ip_batch, ip_link, ip_show
from podrail.host.twins.programs.answer import not_modelled, refused

_OBJECTS = {"link": "link", "addr": "addr", "address": "addr", "a": "addr", "route": "route"}
_OPTIONS = {"-details": "d", "-json": "j", "-statistics": "s"}
_BATCH = ("-b", "-batch")


def ip(host: TwinHost, argv: Sequence[str], stdin: str = "") -> Ran:
    """`ip [ -d ] [ -j ] [ -4 | -6 ] link|addr|route show …`, `ip link set …`, `ip -batch -`."""
    options, words, force = "", list(argv[1:]), False
    while words and words[0].startswith("-") and words[0] not in _BATCH:
        word = words.pop(0)
        force = force or word == "-force"
        options += "" if word == "-force" else _OPTIONS.get(word, word.lstrip("-"))
    if not words or words[0] not in _BATCH:
        return _one(host, argv, options, words)
    if words[1:] != ["-"]:
        return not_modelled(argv)

    def one(line: Sequence[str]) -> Ran:
        return _one(host, [argv[0], *line], options, list(line))

    return ip_batch.batch(argv, stdin, one, force=force)


def _one(host: TwinHost, argv: Sequence[str], options: str, words: list[str]) -> Ran:
    what = _OBJECTS.get(words[0]) if words else None
    if what is None:
        name = words[0] if words else ""
        return refused(argv, 1, f'Object "{name}" is unknown, try "ip help".')
    verb = words[1] if len(words) > 1 else "show"
    if what == "link" and verb == "set":
        return _set_link(host, argv, words[2:])
    if verb in ("show", "list"):
        return ip_show.show(host, argv, options, [what, *words[1:]])
    return not_modelled(argv)


def _set_link(host: TwinHost, argv: Sequence[str], words: list[str]) -> Ran:
    ran = ip_link.set_link(host, argv, words)
    name, what = (words[1:] if words[:1] == ["dev"] else words)[:2] if ran.rc == 0 else ("", "")
    netdev = host.netdevs.get(name)
    # net/core/rtnetlink.c:do_setlink: NETDEV_CHANGEADDR is always told; what was set on a VF only
    # by a PF that is up (net/core/dev.c:netdev_state_change)
    if netdev and (what == "address" or (what == "vf" and net.flags(host, netdev) & net.UP)):
        host.link_event("new", name)
    return ran
