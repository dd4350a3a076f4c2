"""Prefixes that a real server delegates to a real client of a router."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from ipaddress import IPv6Network, ip_interface
from pathlib import Path
from uuid import uuid4

import pytest
from attrs import define, evolve, field

from netfw.drivers.router import RouterDriver
from netfw.drivers.values.events import Event
from netfw.drivers.values.router_values import PrefixDelegated
from netfw.linux import netns
from netfw.model.subnet import Ipv6Mode, Subnet
from netfw.model.values.address import Mac
from netfw.model.values.ids import SubnetId
from netfw.plan import Update
from netfw.testing.conformance.router.factories import (
    Site,
    make_net,
    make_site,
    next_mac,
)
from netfw.testing.conformance.router.lab_machine import LabMachine
from netfw.testing.lab.services.prefix_server import PrefixServer
from netfw.testing.lab.wait import wait_until
from netfw_drivers.linux_router.plan.names import router_namespace
from tests.lab.backends.linux_router.environment import (
    LinuxRouterEnvironment,
    MakeDriver,
    bring,
    plan,
)

pytestmark = [pytest.mark.services, pytest.mark.spec("L3-27")]
FIRST, SECOND = "2001:db8:1000::/48", "2001:db8:2000::/48"
AWAY_SECONDS = 600.0 if os.environ.get("NETFW_LONG") else 8.0
"""Longer than the four seconds after which a client asks all servers."""
PRINTABLE = (Mac("fa:16:3e:41:42:43"), Mac("fa:16:3e:22:5c:7d"))
"""The second one has a quotation mark and a backslash."""
MODES = {"ipv6_ra_mode": Ipv6Mode.SLAAC, "ipv6_address_mode": Ipv6Mode.SLAAC}


@define
class Delegation:
    """A router with a delegated subnet, its driver, and what was delegated last."""

    environment: LinuxRouterEnvironment
    make: MakeDriver
    site: Site
    subnet: SubnetId = field(factory=lambda: SubnetId(uuid4()))
    events: list[PrefixDelegated] = field(factory=list)
    driver: RouterDriver = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Make the driver anew, as after a kill of the agent."""
        self.driver = self.make()
        self.events.clear()
        self.driver.watch(self.record)

    def record(self, event: Event) -> None:
        if isinstance(event, PrefixDelegated):
            self.events.append(event)

    def wanted(self, prefix: IPv6Network | None) -> Site:
        """Return the router as an agent has it when *prefix* is recorded."""
        port = self.site.full.interfaces[0]
        port = evolve(port, delegated=frozenset({self.subnet}))
        if prefix is not None:
            subnet = Subnet(
                id=self.subnet, network_id=port.network, cidr=prefix, gateway=prefix[1], **MODES
            )
            own = ip_interface(f"{prefix[1]}/64")
            port = evolve(port, addresses=(*port.addresses, own), subnets=(*port.subnets, subnet))
        return self.site.with_full(interfaces=(port,))

    def bring(self, prefix: IPv6Network | None = None) -> None:
        bring(self.driver, self.wanted(prefix))

    def take(self, seconds: float = 60) -> IPv6Network | None:
        """Wait for the next event, and return its prefix."""
        wait_until(lambda: bool(self.events), self.log, seconds=seconds)
        event = self.events.pop(0)
        assert (event.router, event.subnet) == (self.site.router, self.subnet)
        assert event.prefix is None or isinstance(event.prefix, IPv6Network)
        return event.prefix

    def log(self) -> str:
        files = sorted((self.environment.router_confs / "dhclient").glob("*"))
        return "\n".join(f"{each.name}:\n{each.read_text()}" for each in files if each.is_file())

    def clients(self) -> list[int]:
        """Return the pids of the clients in the namespace of the router."""
        own = netns.identity(router_namespace(self.site.router))
        return [pid for pid in _dhclients() if _netns(pid) == own]


def _dhclients() -> Iterator[int]:
    for path in Path("/proc").glob("[0-9]*/comm"):
        try:
            if path.read_text().strip() == "dhclient":
                yield int(path.parent.name)
        except OSError:
            continue


def _netns(pid: int) -> object:
    try:
        status = os.stat(f"/proc/{pid}/ns/net")
    except OSError:
        return None
    return netns.NamespaceIdentity(status.st_dev, status.st_ino)


@pytest.fixture
def gateway_mac() -> Mac:
    return next_mac()


@pytest.fixture
def delegation(
    environment: LinuxRouterEnvironment, make_driver: MakeDriver, gateway_mac: Mac
) -> Delegation:
    plain = make_site(make_net(1))
    (port,) = plain.full.interfaces
    ipv4 = tuple(each for each in port.addresses if each.version == 4)
    subnets = tuple(each for each in port.subnets if each.ip_version == 4)
    site = plain.with_full(interfaces=(evolve(port, addresses=ipv4, subnets=subnets),))
    site = site.with_gateway(port=evolve(site.gateway.port, mac=gateway_mac))
    environment.admit(site.ports)
    return Delegation(environment, make_driver, site)


@pytest.fixture
def server(
    environment: LinuxRouterEnvironment, delegation: Delegation, tmp_path: Path
) -> Iterator[PrefixServer]:
    external = delegation.site.external
    provider = environment.machine(external.id, external.interfaces(1))
    assert isinstance(provider, LabMachine)
    made = PrefixServer(provider.instance, str(external.blocks[1]), tmp_path)
    yield made
    made.stop()


def is_from(prefix: IPv6Network | None, pool: str) -> bool:
    return prefix is not None and prefix.subnet_of(IPv6Network(pool))


def addresses(machine: LabMachine) -> list[str]:
    found = json.loads(machine.instance.run(["ip", "-6", "-j", "address", "show", "dev", "eth0"]))
    return [each["local"] for link in found for each in link["addr_info"]]


def test_an_instance_has_an_address_of_a_delegated_prefix_and_is_renumbered(
    delegation: Delegation, server: PrefixServer
) -> None:
    net = delegation.site.nets[0]
    instance = delegation.environment.machine(net.id, ())
    assert isinstance(instance, LabMachine)
    instance.instance.run(["sysctl", "-qw", "net.ipv6.conf.eth0.accept_ra=1"])
    server.start(FIRST)
    delegation.bring()
    first = delegation.take()
    assert is_from(first, FIRST)
    delegation.bring(first)
    assert not plan(delegation.driver, Update(put=delegation.wanted(first).wanted()))
    wait_until(lambda: has_address(instance, first), seconds=60)
    assert first is not None
    wait_until(lambda: instance.reach(first[1]) is not None, seconds=60)
    pids = delegation.clients()
    server.start(SECOND)
    second = delegation.take()
    assert is_from(second, SECOND)
    delegation.bring(second)
    wait_until(lambda: has_address(instance, second), seconds=60)
    found = instance.advertisement()
    assert found is not None
    assert (found.prefixes, found.withdrawn) == ({str(second)}, {str(first)})
    assert delegation.clients() == pids, "it renewed"


def has_address(machine: LabMachine, prefix: IPv6Network | None) -> bool:
    assert prefix is not None
    return any(ip_interface(each).ip in prefix for each in addresses(machine))


@pytest.mark.nightly
def test_a_prefix_survives_kills_of_driver_and_client(
    delegation: Delegation, server: PrefixServer
) -> None:
    server.start(FIRST)
    delegation.bring()
    first = delegation.take()
    (client,) = delegation.clients()
    delegation.restart()
    delegation.bring(first)
    assert delegation.clients() == [client], "it is adopted"
    assert delegation.take() == first
    os.kill(client, signal.SIGKILL)
    wait_until(lambda: delegation.clients() not in ([], [client]), seconds=60)
    delegation.restart()
    delegation.bring(first)
    assert delegation.take() == first


@pytest.mark.parametrize("gateway_mac", PRINTABLE, ids=str)
def test_the_client_writes_a_mac_address_of_printable_octets_as_text(
    delegation: Delegation, server: PrefixServer
) -> None:
    server.start(FIRST)
    delegation.bring()
    first = delegation.take()
    assert is_from(first, FIRST)
    delegation.bring(first)
    (client,) = delegation.clients()
    os.kill(client, signal.SIGKILL)
    wait_until(lambda: delegation.clients() not in ([], [client]), seconds=60)
    server.start(SECOND)
    assert is_from(delegation.take(), SECOND)


@pytest.mark.nightly
def test_a_prefix_stays_while_its_server_is_away(
    delegation: Delegation, server: PrefixServer, tmp_path: Path
) -> None:
    # The server is away beyond the time at which a client asks all servers.
    server.start(FIRST)
    delegation.bring()
    first = delegation.take()
    delegation.bring(first)
    server.stop()
    time.sleep(AWAY_SECONDS)  # nothing may happen
    assert not delegation.events
    assert not plan(delegation.driver, Update(put=delegation.wanted(first).wanted(), complete=True))
    server.start(FIRST)
    log = tmp_path / "kea.log"
    wait_until(lambda: "PD_LEASE" in log.read_text(), delegation.log, seconds=120)
    assert not delegation.events


@pytest.mark.spec("L3-33")
def test_an_expired_prefix_is_withdrawn_and_comes_back(
    delegation: Delegation, server: PrefixServer
) -> None:
    server.start(FIRST, valid=12)
    delegation.bring()
    first = delegation.take()
    delegation.bring(first)
    server.stop()
    assert delegation.take() is None
    delegation.bring()
    server.start(FIRST)
    assert is_from(delegation.take(200), FIRST)


@pytest.mark.nightly
@pytest.mark.spec("L3-33")
@pytest.mark.parametrize("lost", ["gateway", "interface"])
def test_without_gateway_or_interface_the_client_and_its_files_are_gone(
    delegation: Delegation, server: PrefixServer, lost: str
) -> None:
    server.start(FIRST)
    delegation.bring()
    delegation.take()
    assert len(delegation.clients()) == 1
    changes = {"gateway": {"gateway": None}, "interface": {"interfaces": ()}}[lost]
    bring(delegation.driver, delegation.wanted(None).with_full(**changes))
    assert delegation.clients() == []
    assert not delegation.log()
    delegation.bring()
    assert is_from(delegation.take(), FIRST)
    assert delegation.driver.converge(Update(drop=frozenset({delegation.site.key}))).ok
    assert not delegation.log()
