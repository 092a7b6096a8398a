"""The frames between forwarder and service."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podrail.attach import wire

KEYS = st.from_regex(r"CNI_[A-Z0-9_]{1,12}", fullmatch=True) | st.just(wire.NAME)
VALUES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40)


@given(st.dictionaries(KEYS, VALUES, max_size=8), st.binary(max_size=300))
def test_a_request_comes_out_as_it_went_in(env: dict[str, str], stdin: bytes) -> None:
    assert wire.unframe(wire.frame(env, stdin)) == wire.Frame(env, stdin)


@given(st.dictionaries(KEYS, VALUES, max_size=4), st.binary(max_size=60), st.data())
def test_a_cut_request_is_none(env: dict[str, str], stdin: bytes, data: st.DataObject) -> None:
    whole = wire.frame(env, stdin)
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(wire.WireError):
        wire.unframe(whole[:cut])


@given(st.binary(max_size=200))
def test_whatever_comes_is_a_frame_or_refused(garbage: bytes) -> None:
    with pytest.raises(wire.WireError):
        wire.unframe(garbage)


@given(st.dictionaries(KEYS, VALUES, max_size=4), st.binary(max_size=60), st.data())
def test_a_header_is_known_as_soon_as_its_line_is_there(
    env: dict[str, str], stdin: bytes, data: st.DataObject
) -> None:
    whole = wire.frame(env, stdin)
    line = whole.index(b"\n") + 1
    part = whole[: data.draw(st.integers(0, len(whole)))]
    found = wire.header(part)
    assert (found is not None) == (len(part) >= line)
    assert found is None or (found.size, found.total) == (line, len(whole))


@pytest.mark.parametrize(
    "head",
    [
        b"PRCNI1 -1 0\n", b"PRCNI1 0 -1\n", b"PRCNI1 0x1 0\n", b"PRCNI1 1\n", b"PRCNI1 1 1 1\n",
        b"PRCNI1  1 1\n", b"PRCNI1 +1 1\n", b"PRCNI1 01 1\n", b"PRCNI2 1 1\n", b"\n",
        b"GET / HTTP\n", b"PRCNI1 1 1\r\n", b"PRCNI1 " + b"9" * 70, "PRCNI1 ١ ١\n".encode(),
        b"PRCNI1 99999999999 0\n",
    ],
)  # fmt: skip
def test_a_wrong_header_is_refused(head: bytes) -> None:
    with pytest.raises(wire.WireError):
        wire.header(head)


@pytest.mark.parametrize("wrong", [b"X", b"\0", b"PRCNI2"])
def test_garbage_is_refused_at_its_first_bytes(wrong: bytes) -> None:
    with pytest.raises(wire.WireError):
        wire.header(wrong)


@pytest.mark.parametrize(
    ("env", "stdin", "good"),
    [
        (wire.ENV_MAX, wire.STDIN_MAX, True), (wire.ENV_MAX + 1, 0, False),
        (0, wire.STDIN_MAX + 1, False), (0, 10**9, False),
    ],
)  # fmt: skip
def test_a_length_is_judged_before_anything_is_read(env: int, stdin: int, good: bool) -> None:
    line = b"PRCNI1 %d %d\n" % (env, stdin)
    if good:
        found = wire.header(line)
        assert found is not None
        assert found.total == len(line) + env + stdin
    else:
        with pytest.raises(wire.WireError, match="wanted at most"):
            wire.header(line)


@pytest.mark.parametrize(
    ("block", "why"),
    [
        pytest.param(b"CNI_IFNAME=net1", "end with a NUL", id="no NUL at the end"),
        pytest.param(b"CNI_IFNAME=ne\0t1\0", "wanted CNI_", id="a NUL in a value"),
        pytest.param(b"CNI_IFNAME=a\0CNI_IFNAME=b\0", "twice", id="twice"),
        pytest.param(b"PATH=/bin\0", "wanted CNI_", id="not CNI's"),
        pytest.param(b"LD_PRELOAD=/tmp/x.so\0", "wanted CNI_", id="the loader's"),
        pytest.param(b"CNI_=x\0", "wanted CNI_", id="no name"),
        pytest.param(b"CNI_\xff=x\0", "wanted UTF-8", id="not UTF-8"),
        pytest.param(b"\0", "wanted CNI_", id="empty entry"),
    ],
)
def test_a_wrong_environment_is_refused(block: bytes, why: str) -> None:
    with pytest.raises(wire.WireError, match=why):
        wire.unframe(b"PRCNI1 %d 0\n" % len(block) + block)


@given(st.integers(0, 255), st.binary(max_size=100))
def test_an_answer_comes_out_as_it_went_in(code: int, body: bytes) -> None:
    assert wire.unanswer(wire.answer(code, body)) == wire.Answer(code, body)


@pytest.mark.parametrize("wrong", [b"", b"0", b"0 0", b"0 1\n", b"0 0\nx", b"-1 0\n", b"256 0\n"])
def test_a_wrong_answer_is_refused(wrong: bytes) -> None:
    with pytest.raises(wire.WireError):
        wire.unanswer(wrong)
