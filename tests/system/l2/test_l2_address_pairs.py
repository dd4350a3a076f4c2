"""An address that moves between ports by allowed address pairs, resolved by real ARP and ND."""

import pytest

from netfw.testing.lab.instance import Instance
from netfw.testing.lab.wait import wait_until
from tests.system.l2.agent_host import MESH4, POPULATED4
from tests.system.l2.environment import SOON, Site


@pytest.mark.spec("L2-62")
@pytest.mark.flavours(POPULATED4, MESH4)
def test_an_allowed_address_is_answered_for_by_the_port_that_uses_it(site: Site):
    """The responder of the client's host knows one owner; the other one uses the address now."""
    net = site.network("vxlan")
    client, owner = site.port(net, "host1"), site.port(net, "host2")
    pairs = [{"ip_address": owner.v4}, {"ip_address": owner.v6}]
    other = site.port(net, "host3", allowed_address_pairs=pairs)
    site.topology.write()
    asking, first, second = (site.plug(port) for port in (client, owner, other))
    site.settle()
    for address, length in ((owner.v4, 16), (owner.v6, 64)):
        await_resolved(asking, address, owner.mac)
        first.run(["ip", "addr", "del", f"{address}/{length}", "dev", "eth0"])
        second.run(["ip", "addr", "add", f"{address}/{length}", "dev", "eth0"])
        await_resolved(asking, address, other.mac)


def await_resolved(instance: Instance, address: str, mac: str) -> None:
    """Resolve *address* anew until it is at *mac* and answers."""

    def resolved() -> bool:
        instance.run(["ip", "neigh", "flush", "dev", "eth0"])
        lost = instance.ping(address, count=1, timeout=SOON).lost
        return not lost and mac in instance.run(["ip", "neigh", "show", address])

    wait_until(resolved, lambda: instance.run(["ip", "neigh"]))
