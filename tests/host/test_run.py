"""What a program is given to read."""

from __future__ import annotations

from collections.abc import Sequence

from podrail.host.linux import LinuxHost
from podrail.host.memory import MemoryHost
from podrail.host.seam import Ran


def test_standard_input_reaches_a_real_program() -> None:
    text = "ü\n" * 200_000  # more than a pipe holds
    assert LinuxHost().run(["cat"], stdin=text).stdout == text
    assert LinuxHost().run(["cat"]).stdout == ""


def test_a_program_that_reads_nothing_is_no_failure() -> None:
    assert LinuxHost().run(["true"], stdin="x" * 1_000_000).rc == 0


def test_a_model_reads_where_it_can() -> None:
    def reads(argv: Sequence[str], stdin: str = "") -> Ran:
        return Ran(tuple(argv), 0, stdin.upper())

    def reads_not(argv: Sequence[str]) -> Ran:
        return Ran(tuple(argv), 0, "alone")

    host = MemoryHost("m", programs={("reads",): reads, ("not",): reads_not})
    host.put_program(["said"], Ran(("said",), 0, "so"))
    assert host.run(["reads", "-"], stdin="abc").stdout == "ABC"
    assert host.run(["reads", "-"]).stdout == ""
    assert host.run(["not"], stdin="abc").stdout == "alone"
    assert host.run(["said"], stdin="abc").stdout == "so"
