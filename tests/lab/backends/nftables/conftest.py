from __future__ import annotations

import pytest

from netfw.testing.plugin import MakeLab
from tests.lab.backends.nftables.environment import NftablesHost


@pytest.fixture
def firewall(make_lab: MakeLab) -> NftablesHost:
    """Return a host with Linux bridges, and the nftables firewall on it."""
    lab = make_lab(hosts=1)
    (host,) = lab.hosts.values()
    return NftablesHost(host)
