"""Where a character of a scalar's text stands in the file, through folding, quotes and escapes.

YAML folds line breaks into spaces and drops indentation, but keeps every other character in order.
So the n-th character that is no white space stands in the file as the n-th of the scalar's source.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

_WHITE_ESCAPES = "nrtv bfeaN_LP0\n"
"""Escapes of a double-quoted scalar that stand for white space or a control character."""


def place(
    lines: Sequence[str], start: tuple[int, int], style: str | None, text: str, at: tuple[int, int]
) -> tuple[int, int]:
    """Line and column, from 0, of a place in the text (also from 0) of a scalar in these lines."""
    rows = text.split("\n")
    before = [*rows[: at[0]], rows[at[0]][: at[1]] if at[0] < len(rows) else ""]
    wanted = sum(not c.isspace() for row in before for c in row)
    last = start
    for seen, last in enumerate(_solid(lines, start, style)):
        if seen == wanted:
            return last
    return last


def _solid(
    lines: Sequence[str], start: tuple[int, int], style: str | None
) -> Iterator[tuple[int, int]]:
    """The places of a scalar's characters that are no white space, escapes counted once."""
    row, column = start
    while row < len(lines):
        line = lines[row]
        while column < len(line):
            here, width = line[column], 1
            if style == '"' and here == "\\":
                width = 2
                here = " " if line[column + 1 : column + 2] in _WHITE_ESCAPES else "x"
            elif style == "'" and line[column : column + 2] == "''":
                width = 2
            if not here.isspace():
                yield row, column
            column += width
        row, column = row + 1, 0
