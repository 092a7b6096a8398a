"""Names of mount units, as `systemd-escape --path` writes them (systemd.unit(5))."""

from __future__ import annotations

import pytest

from podrail.planning.lint.storage import escape_path


@pytest.mark.parametrize(
    ("path", "name"),
    [
        pytest.param("/", "-", id="root"),
        pytest.param("/var/mnt/data", "var-mnt-data", id="plain"),
        pytest.param("/var/mnt/ai-data", r"var-mnt-ai\x2ddata", id="dash"),
        pytest.param("/var//mnt/data/", "var-mnt-data", id="extra-slashes"),
        pytest.param("/.hidden/a.b", r"\x2ehidden-a.b", id="leading-dot"),
        pytest.param("/srv/a b", r"srv-a\x20b", id="space"),
        pytest.param("/srv/é", r"srv-\xc3\xa9", id="bytes-of-utf8"),
        pytest.param("/srv/a:b_c", "srv-a:b_c", id="kept"),
    ],
)
def test_escape(path: str, name: str) -> None:
    assert escape_path(path) == name
