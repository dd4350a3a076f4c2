"""Hosts move from iptables_hybrid to openflow, port by port: real packets, all the time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from netfw.testing.lab.instance import Instance
from netfw.testing.lab.lab import Lab
from netfw.testing.lab.wait import wait_until
from tests.system.l2.agent_host import PHYSNET, AgentHost
from tests.system.l2.environment import Site
from tests.system.l2.test_l2_firewall import (
    DENIED_UDP,
    HYBRID,
    OPEN_UDP,
    STEADY_UDP,
    WEB,
    Pair,
    allow,
    introduce_ports,
)
from tests.system.l2.topology import Port
from tests.system.streams import Connection, streaming

pytestmark = [pytest.mark.exclusive, pytest.mark.spec("FW-13")]

OWNER = "hybrid_firewall_driver iptables_hybrid"


@pytest.fixture
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with Lab(hosts=2, bridges=["br-int"], provider=[PHYSNET]) as lab:
        site = Site(lab, tmp_path_factory.mktemp("move"), HYBRID, agents=2)
        site.start()
        pair = Pair(site)
        pair.rules["server"].append(allow("tcp", WEB))
        site.settle()
        yield pair


def chains(host: AgentHost) -> set[str]:
    lines = host.host.run(["iptables-save"]).splitlines()
    return {line.split()[0] for line in lines if line.startswith(":nf")}


def move(host: AgentHost) -> None:
    """Have ports filtered in the switch from now on, except for those with a hybrid plug."""
    host.configure(agent="hybrid_firewall_driver = iptables_hybrid", firewall="openflow")
    host.restart()


def plug_directly(site: Site, port: Port) -> Instance:
    """Plug a port without a Linux bridge."""
    port.kind = "tap"
    return site.plug(port, host=port.host)


def unplug_hybrid(site: Site, port: Port) -> None:
    """Remove a hybrid plug, as a hypervisor does."""
    site.unplug(port)
    for device in (f"tap{port.number}", f"qbr{port.number}"):
        site[port.host].host.run(["ip", "link", "del", device])


def is_active(site: Site, port: Port) -> bool:
    return site[port.host].reported(port).get("status") == "ACTIVE"


def check_filtered(
    one: Instance, two: Instance, ports: tuple[Port, Port], allowed_port: int = OPEN_UDP
) -> None:
    """See that what is allowed passes, and that what is denied never does."""
    introduce_ports(one, two, ports)
    source = STEADY_UDP if allowed_port == STEADY_UDP else 0
    with (
        streaming(one, two, ports[1].v6, DENIED_UDP) as denied,
        streaming(one, two, ports[1].v6, allowed_port, source) as allowed,
    ):
        allowed.await_passing()
        wait_until(lambda: denied.sent > 20)
        denied.stop()
        assert not denied.arrived


def test_hosts_move_and_ports_with_a_hybrid_plug_keep_filters_and_connections(pair: Pair) -> None:
    hosts = [pair.site[name] for name in ("host1", "host2")]
    before = [chains(host) for host in hosts]
    connection = Connection(pair.one, pair.two, pair.target, WEB)
    assert connection.carries()
    with pair.undisturbed(), pair.watched() as (allowed, _):
        for host in hosts:
            move(host)
            assert pair.ports[hosts.index(host)].device in host.status()["warnings"][OWNER]
    assert allowed.lost == 0, f"{allowed.lost} of {allowed.sent}"
    assert connection.answers()  # only the iptables of before know that it is one
    connection.close()
    assert [chains(host) for host in hosts] == before


def test_new_and_replugged_ports_are_filtered_in_the_switch(pair: Pair) -> None:
    site, host, moved = pair.site, pair.site["host2"], pair.ports[1]
    pair.rules["server"].append(allow("udp", OPEN_UDP, ethertype="IPv6"))
    move(host)
    new = site.port(moved.net, "host2", security_groups=["server"])
    site.topology.write()
    instance = plug_directly(site, new)
    wait_until(lambda: is_active(site, new), host.last_words)
    check_filtered(pair.one, instance, (pair.ports[0], new))
    check_filtered(instance, pair.two, (new, moved), STEADY_UDP)
    hybrid = chains(host)
    unplug_hybrid(site, moved)
    two = plug_directly(site, moved)
    check_filtered(pair.one, two, (pair.ports[0], moved))
    check_filtered(instance, two, (new, moved), STEADY_UDP)
    wait_until(lambda: "any more" in host.status()["warnings"][OWNER], host.last_words)
    assert chains(host) < hybrid
    host.configure(agent="retired_firewall_drivers = iptables_hybrid", firewall="openflow")
    host.restart()
    wait_until(lambda: not chains(host), host.last_words)
    check_filtered(pair.one, two, (pair.ports[0], moved))
