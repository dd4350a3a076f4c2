"""A fake network for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from netfw.testing.fakes.transport import FakeMessageBus


@pytest.fixture
def wire() -> Iterator[FakeMessageBus]:
    made = FakeMessageBus()
    yield made
    made.close()
