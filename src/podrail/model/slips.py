"""What is behind a YAML syntax error, in the operator's words."""

from __future__ import annotations

import re


def explain(lines: list[str], at: int, problem: str) -> tuple[str, str]:
    """What was found and what to do; knows the mistakes behind most broken manifests."""
    for slip in (_tab, _template, _fence):
        if known := slip(lines, at):
            return f"{known[0]} ({problem})", known[1]
    placeholder = next((n for n in (at, at - 1) if _opens_brace(lines, n)), None)
    if placeholder is not None:
        found = lines[placeholder].split(":", 1)[1].strip()
        return (
            f"`{found}`: a value that begins with {{ opens a flow mapping ({problem})",
            "replace the {PLACEHOLDER} with the real value, or put the value in quotes",
        )
    indent, before = _indent(lines, at), _indent_before(lines, at)
    if indent is not None and before is not None and indent != before:
        return (
            f"this line is indented by {indent}, the keys before it by {before} ({problem})",
            f"indent it by {before} like its siblings, or deeper if it belongs to the key above",
        )
    return problem, "check indentation, colons and quotes around this line"


def _around(lines: list[str], at: int) -> list[str]:
    """The line itself first, then the one above and the one below."""
    return [lines[n] for n in (at, at - 1, at + 1) if 0 <= n < len(lines)]


def _tab(lines: list[str], at: int) -> tuple[str, str] | None:
    for line in _around(lines, at):
        if "\t" in line[: len(line) - len(line.lstrip())]:
            return "a tab in the indentation: YAML allows only spaces", "replace tabs by spaces"
    return None


def _template(lines: list[str], at: int) -> tuple[str, str] | None:
    for line in _around(lines, at):
        if found := re.search(r"\{\{.*?\}\}|\{%.*?%\}", line):
            return (
                f"`{found[0]}` is a template, not YAML",
                "render it first, for example: helm template CHART | podrail lint -f -",
            )
    return None


def _fence(lines: list[str], at: int) -> tuple[str, str] | None:
    for line in _around(lines, at):
        if line.startswith(("```", "~~~")):
            return f"`{line.strip()}` is left over from a Markdown page", "delete the line"
    return None


def _opens_brace(lines: list[str], at: int) -> bool:
    return 0 <= at < len(lines) and re.match(r"^[\s-]*[\w.-]+:\s+\{\w+\}\S", lines[at]) is not None


def _indent(lines: list[str], at: int) -> int | None:
    if not 0 <= at < len(lines) or not lines[at].strip():
        return None
    return len(lines[at]) - len(lines[at].lstrip())


def _indent_before(lines: list[str], at: int) -> int | None:
    """The indentation of the nearest line above that is not a comment."""
    # YAML 1.1 also breaks lines at \r, \x85 and \u2028: `at` may lie beyond the file's lines
    above = (n for n in range(min(at, len(lines)) - 1, -1, -1) if lines[n].strip())
    nearest = next((n for n in above if lines[n].strip()[0] != "#"), None)
    return None if nearest is None else _indent(lines, nearest)
