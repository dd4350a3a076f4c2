"""Sites with a distributed router, which the tests of this folder share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from netfw.testing.lab import sandbox
from tests.nightly import nightly
from tests.system.l3.distributed.site import DistributedSite, distributed_site


@pytest.fixture(scope="package", params=["vxlan", nightly("vlan")])
def site(request: pytest.FixtureRequest) -> Iterator[DistributedSite]:
    """Yield a site that works; each test leaves it so.

    The parameter is the type of its networks, and of the external one unless that is a VLAN.
    """
    sandbox.require()
    network_type, _, external_type = request.param.partition("-")
    with distributed_site(network_type, external_type=external_type or "vlan") as made:
        yield made
