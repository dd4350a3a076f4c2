"""A host whose ports are filtered in the switch, and instances that talk to each other."""

import socket
from ipaddress import ip_network
from typing import Any
from uuid import UUID, uuid4

from netfw.drivers.firewall import FilteredPort, Member, Rules
from netfw.drivers.registry.loader import check_options
from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw.drivers.values.allowed_source import AllowedSource
from netfw.drivers.values.keys import GroupKey, NetworkKey, PortKey
from netfw.drivers.values.switch_values import Admission, LocalNetwork, Wiring
from netfw.model.security_group import Direction, Ethertype, SecurityGroupRule
from netfw.model.segment import NetworkType, Provider, Segment
from netfw.model.values.ids import (
    NetworkId,
    PortId,
    SecurityGroupId,
    SecurityGroupRuleId,
    SegmentId,
)
from netfw.plan import Update
from netfw.testing.lab.host import Host
from netfw.testing.lab.instance import Instance, Plug
from netfw_drivers.ovs.firewall.driver import OvsFirewallDriver
from netfw_drivers.ovs.switch.driver import OvsSwitchDriver

IN, OUT = Direction.INGRESS, Direction.EGRESS
V4, V6 = Ethertype.IPV4, Ethertype.IPV6
TCP, UDP, ICMP = 6, 17, 1
TIMEOUT, QUIET = 20.0, 0.5
"""Seconds to wait for what has to arrive, and for what must not arrive."""


def network_id(number: int) -> NetworkId:
    return NetworkId(UUID(int=number << 64))


def port_id(number: int) -> PortId:
    return PortId(UUID(int=number))


def group_id(number: int) -> SecurityGroupId:
    return SecurityGroupId(UUID(int=number << 32))


def mac(number: int) -> str:
    return f"fa:16:3e:00:00:{number:02x}"


def local(number: int) -> str:
    return f"fe80::f816:3eff:fe00:{number:x}"


def own(number: int) -> frozenset[AllowedSource]:
    """Return the sources that instance *number* may send from."""
    prefixes = (f"10.0.0.{number}", f"fd00:1::{number:x}", local(number))
    return frozenset(AllowedSource(mac(number), ip_network(prefix)) for prefix in prefixes)


def network(number: int) -> dict[NetworkKey, LocalNetwork]:
    segment = Segment(
        id=SegmentId(UUID(int=number << 64 | 1)),
        network_id=network_id(number),
        provider=Provider(network_type=NetworkType.LOCAL),
    )
    return {NetworkKey(network_id(number)): LocalNetwork(segments=(segment,), mtu=1450)}


def wired(number: int, net: int = 1, *, filtered: bool = True) -> dict[PortKey, Wiring]:
    wiring = Wiring(
        network=network_id(net), mac=mac(number), admission=Admission.LIVE, filtered=filtered
    )
    return {PortKey(port_id(number)): wiring}


def port(number: int, *groups: int, net: int = 1, **more: Any) -> dict[PortKey, FilteredPort]:
    value = FilteredPort(
        network=network_id(net),
        device=f"tap{number}",
        mac=mac(number),
        groups=frozenset(map(group_id, groups)),
        **{"sources": own(number), **more},
    )
    return {PortKey(port_id(number)): value}


def rule(direction: Direction, family: Ethertype = V4, **more: Any) -> SecurityGroupRule:
    return SecurityGroupRule(
        id=SecurityGroupRuleId(uuid4()),
        security_group_id=group_id(0),
        direction=direction,
        ethertype=family,
        **more,
    )


def group(number: int, *rules: SecurityGroupRule, stateful: bool = True) -> dict[GroupKey, Rules]:
    return {GroupKey(group_id(number)): Rules(frozenset(rules), stateful)}


def everything(*directions: Direction) -> tuple[SecurityGroupRule, ...]:
    return tuple(rule(way, family) for way in directions for family in Ethertype)


def members(number: int, *prefixes: str, mac: str | None = None) -> dict[Member, Member]:
    key = GroupKey(group_id(number))
    found = (Member(key, ip_network(prefix), mac) for prefix in prefixes)
    return {member: member for member in found}


class FilteredHost:
    """A host of the lab, with a switch driver and a firewall driver in it."""

    def __init__(self, host: Host) -> None:
        self.host, self.ovs = host, host.ovs
        self.vms: dict[int, Instance] = {}
        self._sockets: list[socket.socket] = []
        self._local: LocalHostResources | None = None
        self.switch: OvsSwitchDriver
        self.firewall: OvsFirewallDriver
        self.start()

    def start(self) -> None:
        """Start new drivers, as after a restart of the agent."""
        self.close()
        self._local = LocalHostResources()
        options = {"ovsdb_connection": self.host.ovs.remote, "ovsdb_timeout": 5.0}
        self.switch = OvsSwitchDriver.from_conf(
            check_options("openvswitch", OvsSwitchDriver, {**options, "datapath_type": "netdev"}),
            self._local,
        )
        self.firewall = OvsFirewallDriver.from_conf(
            check_options("openflow", OvsFirewallDriver, options), self._local
        )

    def close(self) -> None:
        while self._sockets:
            self._sockets.pop().close()
        if self._local is not None:
            self._local.close()

    def udp(self, number: int, address: str, port: int) -> socket.socket:
        """Open a UDP socket of instance *number*."""
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        found = self.vms[number].call(socket.socket, family, socket.SOCK_DGRAM)
        self._sockets.append(found)
        found.bind((address, port))
        return found

    def keep(self, found: socket.socket) -> socket.socket:
        """Close it in the end."""
        self._sockets.append(found)
        return found

    def sources(self, number: int, address: int) -> frozenset[AllowedSource]:
        """Return the sources of instance *number* with the addresses of another number."""
        prefixes = (f"10.0.0.{address}", f"fd00:1::{address:x}", local(number))
        return frozenset(AllowedSource(mac(number), ip_network(prefix)) for prefix in prefixes)

    def listen(self, number: int, address: str, port: int) -> socket.socket:
        """Open a socket of instance *number* that others can connect to."""
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        return self.keep(
            self.vms[number].call(socket.create_server, (address, port), family=family)
        )

    def connect(
        self, number: int, address: str, port: int, timeout: float = TIMEOUT
    ) -> socket.socket | None:
        """Open a connection of instance *number*, if that is possible."""
        try:
            found = self.vms[number].call(socket.create_connection, (address, port), timeout)
        except OSError:
            return None
        self._sockets.append(found)
        return found

    def instance(self, number: int, address: int | None = None) -> Instance:
        """Make instance *number*, 10.0.0.<address>."""
        last = number if address is None else address
        self.vms[number] = self.host.instance(
            f"vm{number}",
            Plug(
                bridge="br-int",
                device=f"tap{number}",
                mac=mac(number),
                addresses=(f"10.0.0.{last}/24", f"fd00:1::{last:x}/64"),
                tag=4095,
                mtu=1400,
                external_ids={"iface-id": str(port_id(number)), "attached-mac": mac(number)},
            ),
        )
        return self.vms[number]

    def filter(self, put: dict[Any, Any], drop: Any = (), *, complete: bool = False) -> None:
        """Converge the firewall, and purge the cached flows of the datapath."""
        outcome = self.firewall.converge(Update(put=put, drop=frozenset(drop), complete=complete))
        assert outcome.ok, outcome
        self.ovs.appctl("revalidator/purge")

    def flows(self) -> list[str]:
        """Return the flows of the firewall."""
        output = self.ovs.ofctl(
            "-OOpenFlow14", "--no-stats", "dump-flows", self.ovs.management("br-int")
        )
        return [line.strip() for line in output.splitlines() if "cookie=0x6e6602" in line]

    def connections(self) -> list[str]:
        """Return the entries of connection tracking."""
        return self.ovs.appctl("dpctl/dump-conntrack").splitlines()


def arrives(sender: socket.socket, receiver: socket.socket, payload: bytes = b"x") -> bool:
    """Return whether a datagram arrives."""
    return _received(sender, receiver, payload, TIMEOUT) == payload


def is_dropped(sender: socket.socket, receiver: socket.socket, payload: bytes = b"x") -> bool:
    """Return whether a datagram does not arrive."""
    return _received(sender, receiver, payload, QUIET) is None


def _received(
    sender: socket.socket, receiver: socket.socket, payload: bytes, seconds: float
) -> bytes | None:
    """Send a datagram, and return what is received within so many *seconds*."""
    receiver.setblocking(False)
    try:
        while True:
            receiver.recv(65535)
    except BlockingIOError:
        pass
    receiver.settimeout(seconds)
    sender.sendto(payload, receiver.getsockname())
    try:
        return receiver.recv(65535)
    except TimeoutError:
        return None
