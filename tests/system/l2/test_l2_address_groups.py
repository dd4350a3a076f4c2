"""Address groups in rules, with both firewalls: real packets while the addresses change."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from netfw.cli.commands.explain import DENIED
from netfw.testing.lab.lab import Lab
from netfw.testing.lab.wait import wait_until
from tests.nightly import nightly
from tests.system.l2.agent_host import BIN, PHYSNET, AgentHost
from tests.system.l2.environment import Site
from tests.system.l2.test_l2_firewall import (
    GUARDED,
    HYBRID,
    OUT,
    STEADY_UDP,
    WEB,
    allow,
    introduce_ports,
)
from tests.system.l2.topology import Port
from tests.system.streams import Connection, connects, streaming

pytestmark = [pytest.mark.spec("API-07", "FW-02", "FW-14"), pytest.mark.exclusive]

OTHERS = ["192.0.2.0/24", "2001:db8::/64"]


@pytest.fixture(params=[GUARDED, nightly(HYBRID)], ids=str)
def site(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with Lab(hosts=2, bridges=["br-int"], provider=[PHYSNET]) as lab:
        site = Site(lab, tmp_path_factory.mktemp("addresses"), request.param, agents=2)
        site.start()
        with site.tidy():
            yield site
            site.topology.address_groups = {}


def _define_ports(site: Site) -> tuple[Port, Port]:
    """Define a client, and a server with a rule for an address group that lacks the client."""
    topology = site.topology
    topology.address_groups["office"] = [*OTHERS]
    topology.groups["client"] = [*OUT]
    topology.groups["server"] = [
        allow("tcp", WEB, remote_address_group="office"),
        allow("udp", STEADY_UDP),
    ]
    net = site.network("vxlan")
    return (
        site.port(net, "host1", security_groups=["client"]),
        site.port(net, "host2", security_groups=["server"]),
    )


def test_a_rule_follows_the_addresses_of_its_group(site: Site) -> None:
    topology = site.topology
    ports = _define_ports(site)
    topology.write()
    client, server = (site.plug(port) for port in ports)
    introduce_ports(client, server, ports)
    site.settle()

    def reaches() -> bool:
        return connects(client, server, ports[1].v4, WEB)

    explained = partial(_explained, site["host2"], *ports)
    with streaming(client, server, ports[1].v4, STEADY_UDP) as stream:
        stream.await_passing()
        first = stream.sent
        assert not reaches()
        status, text = explained(WEB)
        assert status == DENIED
        assert f"{ports[0].v4} is not in address group" in text
        topology.address_groups["office"] = [*OTHERS, f"{ports[0].v4}/32"]
        site.settle()
        assert wait_until(reaches)
        status, text = explained(WEB)
        assert status == 0
        assert text.startswith("allowed by rule ")
        status, text = explained(WEB + 1)
        assert status == DENIED
        assert f"it is for ports {WEB}:{WEB}" in text
        connection = Connection(client, server, ports[1].v4, WEB)
        assert connection.carries()
        topology.address_groups["office"] = [*OTHERS, f"{ports[0].v6}/128"]
        site.settle()
        assert not reaches()
        assert not connection.carries(1.0), "what only the address allowed has ended"
        connection.close()
        stream.stop()
        lost = set(range(first, stream.sent)) - stream.answered
        assert not lost, "a rule without the group is not disturbed"


def _explained(host: AgentHost, client: Port, server: Port, number: int) -> tuple[int, str]:
    """Explain a connection of *client* to *server*; return the status and the output."""
    files = ["--config-file", str(host.conf)]
    question = [server.id, "ingress", client.v4, "tcp", str(number)]
    result = host.host.attempt([str(BIN / "netfw"), "explain", *files, *question])
    return result.status, result.output
