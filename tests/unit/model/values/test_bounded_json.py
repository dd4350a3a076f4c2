"""JSON of a peer is refused before it is parsed, if it could become large."""

from __future__ import annotations

import pytest

from netfw.model.values.bounded_json import load_bounded


def test_json_within_its_limits_is_parsed():
    assert load_bounded(b'{"a":[1,2]}', size=11, values=4) == {"a": [1, 2]}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b'{"a": [1, 2]}', "it has 13 bytes, and 12 is the limit"),
        (b"[{},{},0]", "it has up to 6 values, and 4 is the limit"),
        (b"[[[[[[0]]]]]", "it has up to 7 values, and 4 is the limit"),
        (b"[", "Expecting value"),
        (b"\xff", "decode"),
    ],
)
def test_json_beyond_its_limits_is_refused(data, reason):
    with pytest.raises(ValueError, match=reason):
        load_bounded(data, size=12, values=4)


def test_deep_nesting_is_refused():
    with pytest.raises(ValueError, match="nested too deeply"):
        load_bounded(b"[" * 100_000 + b"]" * 100_000, size=1 << 20, values=1 << 20)
