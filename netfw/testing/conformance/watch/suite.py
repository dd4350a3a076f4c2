"""Base of all suites: every test watches the calls of the drivers that it makes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from netfw.testing.conformance.watch.calls import watched_calls


class WatchedSuite:
    """A suite whose drivers are watched; see `netfw.testing.conformance.watch`."""

    def untried_contracts(self) -> Mapping[str, str]:
        """Return contracts whose promises no test tries on this driver, each with the reason.

        Their tests run, and a failed one is reported; one that passes proves nothing.
        """
        return {}

    @pytest.fixture(autouse=True)
    def _watch_calls(self) -> Iterator[None]:
        with watched_calls():
            yield
