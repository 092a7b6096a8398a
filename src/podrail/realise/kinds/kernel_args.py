"""Arguments of the kernel, through whatever keeps them on this machine.

What is read and written is the command line of the next boot; until that boot `pending` tells what
is not in force yet. Where nothing keeps them, that is said, with the arguments to add by hand.
"""

from __future__ import annotations

from collections.abc import Mapping

from podrail.host.seam import Host
from podrail.realise.kinds.boot_tools import Tool, tool_of
from podrail.realise.kinds.cmdline import check, edits
from podrail.realise.step import Failed, Kind, Step, Value, kind

Wanted = Mapping[str, bool]


@kind
class KernelArgs(Kind):
    """Argument → whether it is to be there; others of the same key make room and come back."""

    name = "kernel-args"
    title = "kernel arguments"
    lasting = True

    def read(self, host: Host, target: str) -> Value:
        return {arg: True for line in tool_of(host, "").lines(host) for arg in line}

    def holds(self, host: Host, step: Step) -> bool:
        try:
            tool = _tool(host, step.to)
        except Failed:
            # nobody keeps them; somebody may have added them by hand
            if not pending(host, step.to):
                return True
            raise
        return not _todo(host, tool, step.to)

    def found(self, host: Host, step: Step) -> Value:
        tool = _tool(host, step.to)
        present = {arg for line in tool.lines(host) for arg in line}
        return {arg: arg in present for arg in {**_todo(host, tool, step.to), **step.to}}

    def write(self, host: Host, target: str, value: Value) -> None:
        check(value)
        tool = _tool(host, value)
        todo = _todo(host, tool, value)
        if not todo:
            return
        add = [arg for arg, there in todo.items() if there]
        tool.change(host, add, [arg for arg, there in todo.items() if not there])
        if left := _todo(host, tool, value):
            raise Failed(
                f"{tool.name} did its work, and the next boot still lacks: {self.says(left)}",
                "see what else sets the command line, such as a MachineConfig or a tuned profile",
            )

    def pending(self, host: Host, step: Step) -> str | None:
        due = pending(host, step.to)
        return f"the running kernel was booted without: {self.says(due)}" if due else None

    def says(self, value: Value) -> str:
        return " ".join(arg if there else f"no {arg}" for arg, there in value.items()) or "nothing"


def _tool(host: Host, wanted: Wanted) -> Tool:
    return tool_of(host, " ".join(arg for arg, there in wanted.items() if there))


def _todo(host: Host, tool: Tool, wanted: Wanted) -> dict[str, bool]:
    todo: dict[str, bool] = {}
    for line in tool.lines(host):
        todo |= edits(line, wanted)
    return todo


def pending(host: Host, wanted: Wanted) -> dict[str, bool]:
    """What the running kernel does not have as wanted: only a reboot brings it."""
    running = host.read("/proc/cmdline").split()
    return {arg: there for arg, there in wanted.items() if edits(running, {arg: there})}
