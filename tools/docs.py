"""`make docs`: the pages that are written from the code itself."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from podrail.host.twins.behaviours import BEHAVIOURS
from podrail.planning.lint import rules

ROOT = Path(__file__).resolve().parents[1]
CASES = "../tests/lint/cases"


def lint_page() -> Iterator[str]:
    """Every rule, by family."""
    found = rules()
    yield "# Lint rules"
    yield ""
    yield (
        f"{len(found)} rules. `error` cannot work (exit 3), `warning` is risky or has no effect "
        "(exit 1). Each has a manifest that breaks it and the nearest one that does not. Beside "
        "them, `yaml.*` and `schema.*` findings tell what the API server would refuse or drop. "
        "Errata are numbered mistakes found in published guides; `tests/lint/test_errata.py` says "
        "for each which rule names it, or why none can."
    )
    for family, members in groupby(found, key=lambda rule: rule.id.partition(".")[0]):
        yield from ("", f"## {family}", "", "| rule | | why | errata |", "|---|---|---|---|")
        for rule in members:
            word = "error" if rule.status == "fail" else "warning"
            cases = f"[bad]({CASES}/{rule.id}.bad.yaml) [good]({CASES}/{rule.id}.good.yaml)"
            yield f"| `{rule.id}`<br>{cases} | {word} | {rule.why} | {', '.join(rule.errata)} |"
    yield ""


def twins_page() -> Iterator[str]:
    """What the twins do, and what of it was seen on a real kernel."""
    yield "# What the twins do"
    yield ""
    yield (
        "A twin may not lie: each behaviour cites a recording of the lab or a kernel source line. "
        "`unproven` means that no lab can show it (no such hardware there)."
    )
    yield from ("", "| behaviour | status | says | cited |", "|---|---|---|---|")
    for behaviour in BEHAVIOURS:
        yield (
            f"| `{behaviour.id}` | {behaviour.status} | {behaviour.statement} "
            f"| {behaviour.citation} |"
        )
    yield ""


PAGES = {"docs/lint.md": lint_page, "docs/twins.md": twins_page}


def main() -> int:
    """Write the pages, or with --check say which are not as the code says."""
    stale = []
    for name, page in PAGES.items():
        text, file = "\n".join(page()), ROOT / name
        if "--check" not in sys.argv:
            file.write_text(text, encoding="utf-8")
        elif not file.exists() or file.read_text(encoding="utf-8") != text:
            stale.append(name)
    if stale:
        print(f"not as the code says: {', '.join(stale)}; run: make docs")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
