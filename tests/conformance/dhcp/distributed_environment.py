"""Distributed DHCP as a DHCP driver, for the parts of the suite that ask what clients receive.

The agent is left out: answers and flows are those of the extension, and so is the responder; the
environment has a table in place of the pipeline.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from netfw import flows as of
from netfw.drivers.base import DriverInfo, HostResources
from netfw.drivers.dhcp import (
    DhcpCapability,
    DhcpDriver,
    DhcpKey,
    DhcpNetwork,
    DhcpPort,
    DhcpValue,
)
from netfw.drivers.host_driver import HostCapability
from netfw.drivers.support.unsupported_dhcp import restrict_network, restrict_port
from netfw.drivers.values.keys import NetworkKey
from netfw.drivers.values.pipeline_grant import Grant, TableGrant
from netfw.errors import InvalidInput, NetfwError
from netfw.model.values.address import Mac
from netfw.model.values.ids import NetworkId
from netfw.ovs.openflow import CookieSpace, OpenFlow, difference, encode_flows
from netfw.plan import Outcome, Update
from netfw.testing.conformance.dhcp.environment import DhcpClientVm
from netfw.testing.conformance.dhcp.lab_client import LabClientVm
from netfw.testing.conformance.dhcp.lab_environment import DhcpLabEnvironment
from netfw.testing.conformance.dhcp.lab_host import BRIDGE
from netfw_drivers.ovs.dhcp.plan.flows import TABLE, port_flows
from netfw_drivers.ovs.dhcp.plan.offers import LeaseTimes, make_answers, option_problem
from netfw_drivers.ovs.dhcp.responder import DhcpResponder

GRANT = Grant(
    owner="dhcp",
    cookie=0xD4C9 << 32,
    cookie_mask=0xFFFFFFFF << 32,
    prefix="",
    tables={TABLE: TableGrant(number=100, then=101)},
    meters=(0,),
)
SPACE = CookieSpace(GRANT.cookie, GRANT.cookie_mask)


class Plugged(dict[tuple[NetworkId, Mac], int]):
    """The number in the switch of each client."""


class DistributedDhcpDriver(DhcpDriver):
    """Writes the flows of plugged clients to the switch behind *target*."""

    def __init__(self, target: str, plugged: Plugged) -> None:
        self._plugged = plugged
        self._values: dict[DhcpKey, DhcpValue] = {}
        self._switch = OpenFlow(target)
        self._switch.wait_connected()
        self._responder = DhcpResponder(target, timeout=10.0)

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        raise NotImplementedError("construct it with a switch")

    def describe(self) -> DriverInfo[HostCapability | DhcpCapability]:
        return DriverInfo("distributed", {DhcpCapability.DHCPV6})

    def close(self) -> None:
        self._responder.close()
        self._switch.close()

    def present(self) -> frozenset[DhcpKey]:
        return frozenset(self._values)

    def converge(self, update: Update[DhcpKey, DhcpValue]) -> Outcome[DhcpKey]:
        kept = update.keep if update.complete else self._values.keys() - update.drop
        self._values = {key: self._values[key] for key in kept if key in self._values}
        failed: dict[DhcpKey, NetfwError] = {}
        waiting: dict[DhcpKey, str] = {}
        for key, value in sorted(update.put.items(), key=lambda each: str(each[0])):
            try:
                problem = self._put(key, value)
            except InvalidInput as exc:
                problem = exc
                self._values.pop(key, None)
            if problem is not None:
                failed[key] = problem
            elif isinstance(value, DhcpPort) and self._network_of(value) is None:
                waiting[key] = "its network is missing"
        self.install()
        done = frozenset(key for key in update if key not in failed and key not in waiting)
        return Outcome(done=done, failed=failed, waiting=waiting)

    def _put(self, key: DhcpKey, value: DhcpValue) -> NetfwError | None:
        """Store a value; return what is left out of it.

        :raises InvalidInput: it is refused.
        """
        self._values[key] = value
        if isinstance(value, DhcpNetwork):
            someone = DhcpPort(network=key.network, mac="fa:16:3e:00:00:01", fixed_ips=())
            tuple(make_answers(someone, value, LeaseTimes()))
            return restrict_network(value, option_problem)[1].error
        network = self._network_of(value)
        if network is not None:
            tuple(make_answers(value, network, LeaseTimes()))
        return restrict_port(value, option_problem)[1].error

    def install(self) -> None:
        """Write the flows of all clients that are plugged."""
        flows = list(self._base())
        for value in self._values.values():
            network = self._network_of(value)
            if isinstance(value, DhcpPort) and network is not None:
                ofport = self._plugged.get((value.network, value.mac))
                if ofport is not None:
                    flows += port_flows(ofport, make_answers(value, network, LeaseTimes()), GRANT)
        wanted = encode_flows(flows)
        self._switch.commit(difference(wanted, self._switch.flows(SPACE), SPACE))

    def _network_of(self, value: DhcpValue) -> DhcpNetwork | None:
        if not isinstance(value, DhcpPort):
            return None
        network = self._values.get(NetworkKey(value.network))
        return network if isinstance(network, DhcpNetwork) else None

    def _base(self) -> Iterator[of.Flow]:
        for number in self._plugged.values():
            yield _flow(0, 9, of.in_port(number), of.goto(100))
        for table in (100, 101):
            yield _flow(table, 0, of.Match(), of.normal())


def _flow(table: int, priority: int, match: of.Match, action: of.Action) -> of.Flow:
    return of.Flow(
        table=table, priority=priority, match=match, actions=(action,), cookie=GRANT.cookie
    )


class DistributedDhcpEnvironment(DhcpLabEnvironment):
    """A host with distributed DHCP."""

    def __init__(self) -> None:
        super().__init__()
        self._plugged = Plugged()
        self._driver: DistributedDhcpDriver | None = None

    def make_dhcp(self, host: HostResources, directory: Path) -> DistributedDhcpDriver:
        target = self._sites[0].ovs.management(BRIDGE)
        self._driver = DistributedDhcpDriver(target, self._plugged)
        return self._driver

    def client(self, network: NetworkId, mac: Mac) -> DhcpClientVm:
        client = super().client(network, mac)
        assert isinstance(client, LabClientVm)
        name = client.instance.name
        number = int(self._sites[0].ovs.vsctl("get", "Interface", name, "ofport"))
        if self._plugged.get((network, mac)) != number and self._driver is not None:
            for other in [key for key, value in self._plugged.items() if value == number]:
                del self._plugged[other]
            self._plugged[network, mac] = number
            self._driver.install()
        return client
