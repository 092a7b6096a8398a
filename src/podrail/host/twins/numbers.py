"""The kernel's own reading of numbers and switches written to sysfs (lib/kstrtox.c)."""

from __future__ import annotations

import re

_NUMBER = re.compile(r"\+?(?:0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)\n?\Z")
_YES, _NO = ("1", "y", "Y", "t", "T"), ("0", "n", "N", "f", "F")


def kstrtoul(text: str, top: int = 2**64 - 1) -> int | None:
    """A number in base 0 with at most one newline after it; None where the kernel says no."""
    if not _NUMBER.match(text):
        return None
    digits = text.strip().lstrip("+")
    octal = len(digits) > 1 and digits[0] == "0" and digits[1] not in "xX"
    value = int(digits, 8) if octal else int(digits, 0)
    return value if value <= top else None


def kstrtobool(text: str) -> bool | None:
    """`1`, `y`, `on` … as true, `0`, `n`, `off` … as false."""
    if text[:1] in _YES or text[:2].lower() == "on":
        return True
    if text[:1] in _NO or text[:2].lower() == "of":
        return False
    return None


def words(text: str) -> list[str]:
    """The names in a text, for lists too long to quote one by one."""
    return text.split()
