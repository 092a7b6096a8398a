"""The recipe's hash, and the part of the lock a node gets."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from podrail.lab import recipe
from podrail.model.errors import Refused

LOCK = """\
# a comment
click==8.5.1 \\
    --hash=sha256:aa \\
    --hash=sha256:bb
pydantic-core==2.50.4 \\
    --hash=sha256:cc
ruff==0.17.4 \\
    --hash=sha256:dd
typing_extensions==4.16.0 --hash=sha256:ee
"""

REQUIRES = {
    "podrail": ["click>=8.2", "pydantic>=2.10", 'ruff; extra == "dev"'],
    "pydantic": ["pydantic_core==2.50.4", "typing-extensions>=4"],
    "click": ['colorama; platform_system == "Windows"'],
}


@pytest.fixture
def guest(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    copy = tmp_path / "guest"
    shutil.copytree(recipe.GUEST, copy)
    monkeypatch.setattr(recipe, "GUEST", copy)
    return copy


@pytest.fixture
def lock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.requires", REQUIRES.get)
    monkeypatch.setattr(recipe, "_lock_text", lambda: LOCK)


def test_the_same_recipe_has_the_same_hash() -> None:
    assert recipe.recipe_hash() == recipe.recipe_hash()
    assert len(recipe.recipe_hash()) == 12


@pytest.mark.parametrize("name", [*recipe.GUEST_FILES, recipe.INITRAMFS_INIT])
def test_every_guest_file_changes_the_hash(guest: Path, name: str) -> None:
    before = recipe.recipe_hash()
    with (guest / name).open("a", encoding="utf-8") as file:
        file.write("# changed\n")
    assert recipe.recipe_hash() != before


def test_the_agent_does_not_change_the_hash(guest: Path) -> None:
    before = recipe.recipe_hash()
    (guest / "agent.py").write_text("pass\n", encoding="utf-8")
    assert recipe.recipe_hash() == before


@pytest.mark.parametrize(
    ("constant", "value"),
    [
        ("VERSION", recipe.VERSION + 1),
        ("PACKAGES", (*recipe.PACKAGES, "strace")),
        ("EXCLUDES", recipe.EXCLUDES[1:]),
        ("INITRAMFS_MODULES", ("virtio_blk",)),
        ("KERNEL_SUITE", "trixie"),
    ],
)
def test_every_constant_changes_the_hash(
    monkeypatch: pytest.MonkeyPatch, constant: str, value: object
) -> None:
    before = recipe.recipe_hash()
    monkeypatch.setattr(recipe, constant, value)
    assert recipe.recipe_hash() != before


def test_words_that_move_between_lists_change_the_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipe, "PACKAGES", ("a", "b"))
    monkeypatch.setattr(recipe, "EXCLUDES", ("c",))
    before = recipe.recipe_hash()
    monkeypatch.setattr(recipe, "PACKAGES", ("a",))
    monkeypatch.setattr(recipe, "EXCLUDES", ("b", "c"))
    assert recipe.recipe_hash() != before


@pytest.mark.usefixtures("lock")
def test_the_runtime_lock_holds_what_podrail_needs_and_no_more() -> None:
    text = recipe.runtime_lock()
    assert "click==8.5.1" in text
    assert "--hash=sha256:bb" in text
    assert "pydantic-core==2.50.4" in text
    assert "typing_extensions==4.16.0" in text
    assert "ruff" not in text
    assert "#" not in text


@pytest.mark.usefixtures("lock")
def test_a_new_pin_changes_the_hash_and_a_developers_tool_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = recipe.recipe_hash()
    monkeypatch.setattr(recipe, "_lock_text", lambda: LOCK.replace("0.17.4", "0.18.0"))
    assert recipe.recipe_hash() == before
    monkeypatch.setattr(recipe, "_lock_text", lambda: LOCK.replace("8.5.1", "8.5.2"))
    assert recipe.recipe_hash() != before


@pytest.mark.usefixtures("lock")
def test_a_lock_without_our_pins_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipe, "_lock_text", lambda: "ruff==1\n")
    with pytest.raises(Refused, match="make lock"):
        recipe.runtime_lock()


def test_the_real_lock_pins_every_runtime_dependency() -> None:
    text = recipe.runtime_lock()
    for name in ("click", "pydantic", "pydantic-core", "pyyaml", "typing-extensions"):
        assert f"{name}==" in text
