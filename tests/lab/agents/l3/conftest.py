"""A host with an L3 agent."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lab.agents.l3.environment import RouterSite


@pytest.fixture
def site(make_lab: Any, tmp_path: Path) -> Iterator[RouterSite]:
    lab = make_lab(hosts=1, bridges=["br-int"])
    (host,) = lab.hosts.values()
    found = RouterSite(host, tmp_path)
    yield found
    found.close()
