"""A host with a DHCP agent."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lab.agents.dhcp.environment import Site


@pytest.fixture
def site(make_lab: Any, tmp_path: Path) -> Iterator[Site]:
    lab = make_lab(hosts=1, bridges=["br-int"])
    (host,) = lab.hosts.values()
    found = Site(host, tmp_path)
    yield found
    found.close()
