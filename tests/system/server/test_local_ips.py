"""Local IPs by the public API, with a real agent, its firewall and real packets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from openstack.exceptions import ConflictException

from netfw.cli.demo.server import Cloud, make_cloud
from netfw.testing.lab import sandbox
from netfw.testing.lab.instance import Instance
from netfw.testing.lab.wait import wait_until
from tests.system.l2.test_l2_local_ips import Speaker, ask

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::Warning:openstack"),
    pytest.mark.spec("API-07"),
    pytest.mark.nightly,
]
UDP = 6000


@pytest.fixture(scope="module")
def served() -> Iterator[Cloud]:
    """Yield two hosts; the first one serves local IPs."""
    sandbox.require()
    with make_cloud() as cloud:
        cloud.server.start()
        cloud.hosts[0].agent.options["agent"]["extensions"] = "local_ip"
        for host in cloud.hosts:
            host.start()
        wait_until(lambda: len(list(cloud.network.agents())) == 2)
        yield cloud


class Site:
    """A client and a server on the first host, and another port on the second."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud, self.api = cloud, cloud.network
        self.network = self.api.create_network(name="local")
        self.api.create_subnet(network_id=self.network.id, cidr="10.78.0.0/24", ip_version=4)
        self.group = self.api.create_security_group(name="names")
        self.api.create_security_group_rule(
            security_group_id=self.group.id,
            direction="ingress",
            protocol="udp",
            port_range_min=UDP,
            port_range_max=UDP,
        )
        self.client, self.server, self.elsewhere = (
            self.port(name, host) for name, host in (("client", 0), ("server", 0), ("far", 1))
        )

    def port(self, name: str, host: int) -> Any:
        return self.api.create_port(
            network_id=self.network.id,
            name=name,
            security_group_ids=[self.group.id],
            binding_host_id=self.cloud.hosts[host].host.name,
        )

    def plug(self, port: Any) -> Instance:
        return self.cloud.hosts[0].plug_port(port)

    def flows(self, address: str) -> bool:
        return address in self.cloud.hosts[0].host.ovs.ofctl("dump-flows", "br-int")


def test_a_local_ip_leads_to_an_associated_port(served: Cloud) -> None:
    site = Site(served)
    api = site.api
    client, server = site.plug(site.client), site.plug(site.server)
    speaker = Speaker(server, site.server.fixed_ips[0]["ip_address"], UDP, "server")
    try:
        local_ip = api.create_local_ip(network_id=site.network.id, name="names")
        address = local_ip.local_ip_address
        made = api.create_local_ip_association(local_ip, fixed_port_id=site.server.id)
        assert (made.host, made.local_ip_address) == (site.server.binding_host_id, address)
        wait_until(lambda: ask(client, address, UDP) == "server")
        assert ask(client, address, UDP + 1) == ""
        with pytest.raises(ConflictException, match="extensions = local_ip"):
            api.create_local_ip_association(local_ip, fixed_port_id=site.elsewhere.id)
        with pytest.raises(ConflictException):
            api.delete_local_ip(local_ip, ignore_missing=False)
        api.delete_local_ip_association(local_ip, site.server.id, ignore_missing=False)
        wait_until(lambda: not site.flows(address))
        wait_until(lambda: ask(client, address, UDP) == "")
        api.delete_local_ip(local_ip, ignore_missing=False)
        assert list(api.ports(device_owner="network:local_ip")) == []
    finally:
        speaker.close()
