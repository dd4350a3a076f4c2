"""Addresses that two instances share behind a distributed router."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from netfw.testing.lab.temp_directory import temporary_directory
from netfw.testing.lab.wait import wait_until
from tests.system.l3.distributed.site import DistributedSite
from tests.system.l3.distributed.virtual_address import SharedAddress, shared_address
from tests.system.pings import pinging_all

pytestmark = [
    pytest.mark.exclusive,
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::Warning:openstack"),
]
FOLLOWED = 0.05
"""Seconds by which routers may follow an announcement later than a machine of the same network."""


@pytest.fixture
def shared(site: DistributedSite) -> Iterator[SharedAddress]:
    """Yield addresses on the green network; their first holder is on the first host."""
    with (
        temporary_directory("netfw-vip.") as directory,
        shared_address(site, site.green, (site.first, site.second), directory) as made,
    ):
        yield made


@pytest.mark.spec("L3-64", "API-19")
def test_an_address_is_followed_to_another_instance(
    site: DistributedSite, shared: SharedAddress
) -> None:
    floating_ip = site.network.create_ip(
        floating_network_id=site.outside.network.id, port_id=shared.port.id
    )
    same = {f"same network IPv{v}": (site.green2.instance, shared.address(v)) for v in (4, 6)}
    routed = {
        f"{name} IPv{version}": (guest.instance, shared.address(version))
        for name, guest in (("first host", site.blue1), ("second host", site.blue2))
        for version in (4, 6)
    }
    routed["floating IP"] = (site.world, str(floating_ip.floating_ip_address))
    site.await_reached({**same, **routed})
    first, second = shared.members
    with pinging_all({**same, **routed}) as pings:
        first.instance.namespaces.ip(f"link set {first.instance.device or 'eth0'} down")
        wait_until(lambda: shared.holder() is second)
        site.await_reached({**same, **routed})
        assert pings.outage(*routed) <= pings.outage(*same) + FOLLOWED, pings.report()
    site.network.delete_ip(floating_ip)
