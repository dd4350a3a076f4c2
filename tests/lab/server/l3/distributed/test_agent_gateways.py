"""Gateway ports of L3 agents on external networks, and the MAC addresses of hosts."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any
from uuid import UUID, uuid4

import pytest

from netfw.drivers.values.agent_requests import (
    EnsureGatewayPort,
    EnsureHostMac,
    ReleaseGatewayPort,
)
from netfw.errors import Conflict, NotFound
from netfw.errors.ports import IpAddressGenerationFailure
from netfw.model.values.ids import NetworkId
from netfw.server.db import Database
from tests.lab.server.l3.environment import ADMIN, Json, Layer3
from tests.lab.server.l3.ha_samples import l3_agent
from tests.server.core.agent_samples import beat

pytestmark = pytest.mark.spec("L3-69")

OWNER = "network:floatingip_agent_gateway"


class Hosts:
    """An external network, and what the agents of hosts request there."""

    def __init__(self, database: Database) -> None:
        self.core = Layer3(database)
        self.network, self.subnet = self.core.outside("203.0.113.0/28")

    def ask(self, request: Any) -> Any:
        return self.core.core.agent_services.request_handlers[type(request)](request)

    def ensure(self, host: str, network: str = "") -> str:
        id = NetworkId(UUID(network or self.network))
        return str(self.ask(EnsureGatewayPort(network=id, host=host)).id)

    def release(self, host: str, network: str = "") -> None:
        id = NetworkId(UUID(network or self.network))
        assert self.ask(ReleaseGatewayPort(network=id, host=host)) is None

    def ports(self) -> list[Json]:
        return self.core.find("port", device_owner=OWNER)

    def delete_agent(self, host: str, kind: str) -> None:
        (agent,) = self.core.find("agent", host=host, agent_type=kind)
        self.core.delete("agent", agent["id"], ADMIN)

    def mac(self, host: str) -> str:
        return str(self.ask(EnsureHostMac(host=host)))


@pytest.fixture
def hosts(file_database: Database) -> Hosts:
    return Hosts(file_database)


def test_a_released_port_is_gone_with_its_address(hosts: Hosts) -> None:
    other = hosts.core.outside("198.51.100.0/24")[0]
    kept = {hosts.ensure("one", other), hosts.ensure("two")}
    for _ in range(20):  # the subnet has 13 addresses
        hosts.ensure("one")
        hosts.release("one")
    hosts.release("one")
    assert {port["id"] for port in hosts.ports()} == kept


@pytest.mark.spec("L3-62")
def test_a_subnet_without_a_free_address_is_named_and_one_that_is_freed_is_used(
    hosts: Hosts,
) -> None:
    taken = [hosts.core.port(hosts.network, ADMIN) for _ in range(13)]
    with pytest.raises(IpAddressGenerationFailure, match=r"no address is left in 203.0.113.0/28"):
        hosts.ensure("one")
    assert hosts.ports() == []
    hosts.core.delete("port", taken[5]["id"], ADMIN)
    port = hosts.core.show("port", hosts.ensure("one"))
    assert port["fixed_ips"] == taken[5]["fixed_ips"]


def test_release_without_a_port_or_network_is_no_error(hosts: Hosts) -> None:
    hosts.release("one")
    hosts.release("one", str(uuid4()))


def test_a_port_of_another_owner_with_that_device_stays(hosts: Hosts) -> None:
    device = hosts.core.show("port", hosts.ensure("one"))["device_id"]
    port = hosts.core.port(hosts.network, ADMIN, device_id=device)
    hosts.release("one")
    assert hosts.core.show("port", port["id"])["device_id"] == device
    assert hosts.ports() == []


def test_the_ports_of_a_host_go_with_its_l3_agent(hosts: Hosts) -> None:
    other = hosts.core.outside("198.51.100.0/24")[0]
    for host in ("one", "two"):
        l3_agent(hosts.core, host, mode="dvr")
        hosts.core.core.agent_services.agents([beat(host)])
    hosts.ensure("one")
    hosts.ensure("one", other)
    kept = hosts.ensure("two")
    hosts.delete_agent("one", "Open vSwitch agent")
    assert len(hosts.ports()) == 3
    hosts.delete_agent("one", "L3 agent")
    assert [port["id"] for port in hosts.ports()] == [kept]


def test_the_network_can_be_deleted_with_them(hosts: Hosts) -> None:
    hosts.ensure("one")
    hosts.ensure("two")
    port = hosts.core.port(hosts.network, ADMIN)
    with pytest.raises(Conflict, match="in use by 1 port; delete what uses it first"):
        hosts.core.delete("network", hosts.network, ADMIN)
    hosts.core.delete("port", port["id"], ADMIN)
    hosts.core.delete("network", hosts.network, ADMIN)
    assert hosts.ports() == []


@pytest.mark.spec("L3-61")
def test_the_mac_of_a_host_is_released_with_its_last_l2_agent(hosts: Hosts) -> None:
    l3_agent(hosts.core, "one", mode="dvr")
    hosts.core.core.agent_services.agents([beat("one")])
    mac = hosts.mac("one")
    hosts.delete_agent("one", "L3 agent")
    assert hosts.mac("one") == mac
    hosts.delete_agent("one", "Open vSwitch agent")
    assert hosts.mac("one") != mac


def test_requests_and_releases_at_once(database: Database) -> None:
    hosts = Hosts(database)

    def alternate(number: int) -> None:
        for _ in range(4):
            with suppress(NotFound):  # another thread released it already
                hosts.ensure(f"host{number % 2}")
            hosts.release(f"host{number % 2}")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(alternate, range(8)))
    assert hosts.ports() == []
