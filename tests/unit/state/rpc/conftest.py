"""A fake network for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from netfw.testing.fakes.transport import FakeBroker


@pytest.fixture
def wire() -> Iterator[FakeBroker]:
    made = FakeBroker()
    yield made
    made.close()
