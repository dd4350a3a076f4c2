"""An address that moves between ports by allowed address pairs, resolved by real ARP and ND."""

from pathlib import Path

import pytest

from netfw.testing.lab.instance import Instance
from netfw.testing.lab.wait import wait_until
from tests.nightly import nightly
from tests.system.l2.agent_host import MESH4, POPULATED4
from tests.system.l2.environment import SOON, Site


@pytest.mark.spec("L2-62")
@pytest.mark.flavours(POPULATED4, nightly(MESH4))
def test_an_allowed_address_is_answered_for_by_the_port_that_uses_it(site: Site):
    # The responder of the client's host knows one owner; the other one uses the address now.
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


@pytest.mark.spec("L2-24")
@pytest.mark.flavours(POPULATED4, nightly(MESH4))
def test_requests_of_an_address_that_moved_reach_the_port_that_they_are_for(site: Site):
    # A receiver of ARP or a neighbour solicitation updates its entry of the sender. Otherwise it
    # would send to the former MAC until that entry has aged, which takes 23 to 53 s.
    net = site.network("vxlan")
    client = site.port(net, "host1")
    pairs = [{"ip_address": "10.0.9.9"}, {"ip_address": "fd00:a::99"}]
    owners = [site.port(net, host, allowed_address_pairs=pairs) for host in ("host2", "host3")]
    site.topology.write()
    asking, first, second = (site.plug(port) for port in (client, *owners))
    site.settle()
    asking.call(_keep_neighbours)
    for vip, client_ip, length in (("10.0.9.9", client.v4, 16), ("fd00:a::99", client.v6, 64)):
        first.run(["ip", "addr", "add", f"{vip}/{length}", "dev", "eth0"])
        await_resolved(asking, vip, owners[0].mac)
        first.run(["ip", "addr", "del", f"{vip}/{length}", "dev", "eth0"])
        second.run(["ip", "addr", "add", f"{vip}/{length}", "dev", "eth0"])
        route = ["ip", "route", "replace", client_ip, "dev", "eth0", "src", vip]
        wait_until(
            lambda route=route: second.attempt(route).status == 0, "the address is tentative"
        )

        def answered(client_ip: str = client_ip) -> bool:
            second.run(["ip", "neigh", "flush", "dev", "eth0"])
            return not second.ping(client_ip, count=1, timeout=1).lost

        wait_until(answered, lambda: asking.run(["ip", "neigh"]))


def _keep_neighbours() -> None:
    """Let entries of the neighbour table be valid for an hour."""
    for family in ("ipv4", "ipv6"):
        path = Path(f"/proc/sys/net/{family}/neigh/eth0/base_reachable_time_ms")
        path.write_text("3600000")
