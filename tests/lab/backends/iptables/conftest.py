from __future__ import annotations

import pytest

from netfw.linux.iptables import Backend
from netfw.testing.plugin import MakeLab
from tests.lab.backends.iptables.environment import IptablesHost
from tests.nightly import nightly


@pytest.fixture(params=[Backend.NFT, nightly(Backend.LEGACY)], ids=["nft", "legacy"])
def firewall(request: pytest.FixtureRequest, make_lab: MakeLab) -> IptablesHost:
    """Return a host with Linux bridges, and a firewall driver on it."""
    lab = make_lab(hosts=1)
    (host,) = lab.hosts.values()
    return IptablesHost(host, request.param)
