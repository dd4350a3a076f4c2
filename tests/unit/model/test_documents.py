"""Documents as values."""

from __future__ import annotations

from typing import Any

import pytest

from netfw.model import (
    JsonDocument,
)


def test_a_document_is_a_value() -> None:
    content = {"b": [1, None, True], "a": {"x": "y"}}
    document = JsonDocument(content)
    content["b"] = []
    assert document == JsonDocument({"a": {"x": "y"}, "b": [1, None, True]})
    assert len({document, JsonDocument(document.content())}) == 1
    document.content().clear()
    assert document.content() == {"a": {"x": "y"}, "b": [1, None, True]}
    assert document
    assert not JsonDocument()


def test_a_document_tells_true_from_one() -> None:
    assert JsonDocument({"a": True}) != JsonDocument({"a": 1})


def test_a_document_is_small_and_shallow() -> None:
    deep: dict[str, Any] = {}
    for _ in range(5000):
        deep = {"a": deep}
    wide = {str(number): number for number in range(2000)}
    cycle: dict[str, Any] = {}
    cycle["a"] = cycle
    for content in (deep, wide, cycle, {"a": 10**5000}, {"a": 0.5}, {"a": {1}}, {1: "a"}):
        with pytest.raises(ValueError):
            JsonDocument(content)
