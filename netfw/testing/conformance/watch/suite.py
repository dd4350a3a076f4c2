"""Base of all suites: every test watches the calls of the drivers that it makes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from netfw.testing.conformance.watch.calls import watched_calls


class WatchedSuite:
    """A suite whose drivers are watched; see `netfw.testing.conformance.watch`."""

    @pytest.fixture(autouse=True)
    def _watch_calls(self) -> Iterator[None]:
        with watched_calls():
            yield
