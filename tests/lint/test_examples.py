"""The examples a user copies from: each folder lints without a single finding."""

from __future__ import annotations

from pathlib import Path

import pytest

from podrail.model.bundle import read
from podrail.planning.lint import lint

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FOLDERS = sorted(f for f in EXAMPLES.glob("seed-*") if f.is_dir())


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda f: f.name)
def test_example_is_clean(folder: Path) -> None:
    files = sorted(folder.rglob("*.yaml"))
    found = lint(read([(str(f.relative_to(folder)), f.read_text()) for f in files]))
    assert [(str(f.where), f.id, f.actual) for f in found] == []


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda f: f.name)
def test_readme_names_the_folder(folder: Path) -> None:
    assert folder.name in (EXAMPLES / "README.md").read_text()
