"""The router *edge* with machines around it, which the tests of faults share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from netfw.testing.lab import sandbox
from tests.system.l3.edge_site import EdgeSite, edge_site


@pytest.fixture(scope="session")
def edge() -> Iterator[EdgeSite]:
    """Yield a site that works; each test leaves it so."""
    sandbox.require()
    with edge_site() as site:
        yield site
