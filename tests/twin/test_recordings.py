"""What the recordings of the lab show that no test can ask of a twin: the order of events."""

from __future__ import annotations

import re
from pathlib import Path

LAB = Path(__file__).parent.parent / "data" / "lab"
EVENT = re.compile(r"(KERNEL|UDEV) *\[([0-9.]+)\] (\w+) +(\S+) \((\w+)\)")


def events() -> list[tuple[str, str, str]]:
    """(who, what, where) of four VFs coming on a PF that is up (`udevadm monitor`)."""
    lines = (LAB / "udev-4-vfs.txt").read_text().splitlines()
    found = [event for event in map(EVENT.match, lines) if event]
    assert len(found) == len(lines)
    return [(event[1], event[3], event[4]) for event in found]


def test_function_netdev_driver_and_then_the_name() -> None:
    seen = events()
    for index in range(4):
        vf = f"0000:81:10.{2 * index}"
        netdev = next(where for _, what, where in seen if what == "add" and f"{vf}/net/" in where)
        order = [
            seen.index(event)
            for event in (
                ("KERNEL", "add", vf),
                ("KERNEL", "add", netdev),
                ("KERNEL", "bind", vf),
                ("KERNEL", "move", f"{vf}/net/ens2v{index}"),
                ("UDEV", "add", f"{vf}/net/ens2v{index}"),
            )
        ]
        assert order == sorted(order)


def test_vfs_come_one_after_the_other_and_the_pf_last() -> None:
    kernel = [(what, where) for who, what, where in events() if who == "KERNEL"]
    order = [
        kernel.index((what, f"0000:81:10.{n}")) for n in (0, 2, 4, 6) for what in ("add", "bind")
    ]
    assert order == sorted(order)
    assert kernel.index(("change", "0000:81:00.0")) > order[-1]
