"""A fake network for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from netfw.testing.fakes.transport import FakeNetwork


@pytest.fixture
def wire() -> Iterator[FakeNetwork]:
    made = FakeNetwork()
    yield made
    made.close()
