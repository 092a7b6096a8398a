"""The types plain YAML scalars have for the API server: YAML 1.1 without its base-60 numbers."""

from __future__ import annotations

import re
from typing import Any

_TRUE = {"yes", "true", "on"}
_BOOLEAN = re.compile(r"^(?:yes|no|true|false|on|off)$", re.IGNORECASE)
_INTEGER = re.compile(r"^[-+]?(?:0x[0-9a-fA-F_]+|0b[01_]+|0o?[0-7_]+|[1-9][0-9_]*|0)$")
_FLOAT = re.compile(r"^[-+]?(?:\.[0-9]+|[0-9][0-9_]*(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$")
_NULL = {"", "~", "null", "Null", "NULL"}


def scalar_value(text: str) -> Any:
    """The type a plain scalar has for the API server."""
    if text in _NULL:
        return None
    if _BOOLEAN.match(text):
        return text.lower() in _TRUE
    if _INTEGER.match(text):
        return _integer(text)
    if _FLOAT.match(text):
        return float(text.replace("_", ""))
    return text


def _integer(text: str) -> int | str:
    digits = text.replace("_", "").lstrip("+-")
    sign = -1 if text.startswith("-") else 1
    legacy_octal = len(digits) > 1 and digits[0] == "0" and digits[1].isdigit()
    try:
        return sign * (int(digits, 8) if legacy_octal else int(digits, 0))
    except ValueError:  # `0x_`, or more digits than Python converts
        return text
