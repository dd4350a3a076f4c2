"""A host with Linux bridges, instances that really speak, and the firewall under test."""

from __future__ import annotations

import contextlib
import socket
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from ipaddress import ip_network
from pathlib import Path
from uuid import UUID, uuid4

from netfw.drivers.firewall import FilteredPort, FirewallKey, FirewallValue, Member, Rules
from netfw.drivers.values.allowed_source import AllowedSource
from netfw.drivers.values.keys import GroupKey, PortKey
from netfw.linux.bridge_firewall.bridge_driver import BridgeFirewallDriver
from netfw.linux.conntrack import Conntrack, Filter, TrackedConnection
from netfw.model.security_group import Direction, Ethertype, SecurityGroupRule
from netfw.model.values.ids import NetworkId, PortId, SecurityGroupId, SecurityGroupRuleId
from netfw.plan import Outcome, Update
from netfw.testing.lab.host import Host
from netfw.testing.lab.instance import Instance
from netfw.testing.lab.wait import TIMEOUT, wait_until

IN, OUT = Direction.INGRESS, Direction.EGRESS
State = dict[FirewallKey, FirewallValue]


class Guest:
    """An instance on a bridge of the host."""

    def __init__(self, host: Host, number: int, bridge: str, network: NetworkId) -> None:
        self.number, self.network, self.bridge = number, network, bridge
        self.port = PortId(UUID(int=(0xE0 << 120) + number))
        self.device = f"tap{number}"
        self.mac = f"fa:16:3e:00:00:{number:02x}"
        self.address = f"10.0.0.{number % 50}"
        self.address6 = f"fd00::{number % 50:x}"
        self.instance: Instance = host.instance(f"guest{number}")
        host.namespaces.ip(
            f"link add {self.device} type veth peer name eth0 address {self.mac}"
            f" netns guest{number}",
            f"link set {self.device} master {bridge} up",
        )
        self.instance.device = "eth0"
        self.instance.configure([f"{self.address}/24", f"{self.address6}/64"])
        # Until the kernel has handled the carrier, the bridge drops what it is to send there.
        link = ["ip", "-o", "link", "show", "dev", self.device]
        wait_until(lambda: "state UP" in host.run(link), f"{self.device} is up")

    def value(self, *groups: SecurityGroupId, trusted: bool = False) -> State:
        octets = bytes.fromhex(self.mac.replace(":", ""))
        tail = bytes([octets[0] ^ 2, *octets[1:3], 0xFF, 0xFE, *octets[3:]]).hex(":", 2)
        addresses = (self.address, self.address6, f"fe80::{tail}")
        return {
            PortKey(self.port): FilteredPort(
                network=self.network,
                device=self.device,
                mac=self.mac,
                sources=frozenset(AllowedSource(self.mac, ip_network(each)) for each in addresses),
                groups=frozenset(groups),
                trusted=trusted,
            )
        }

    def reaches(self, other: Guest, *, version: int = 4) -> bool:
        address = other.address if version == 4 else other.address6
        times = self.instance.ping(address, count=2, timeout=1).times
        return any(time is not None for time in times)

    def sends(self, other: Guest, port: int, other_port: int, *, timeout: float = 10) -> bool:
        """Return whether a datagram from *port* arrives at *other_port* of *other*."""
        kind = (socket.AF_INET, socket.SOCK_DGRAM)
        with (
            self.instance.call(socket.socket, *kind) as sender,
            other.instance.call(socket.socket, *kind) as receiver,
        ):
            sender.bind((self.address, port))
            receiver.bind((other.address, other_port))
            receiver.settimeout(timeout)
            sender.sendto(b"hello", (other.address, other_port))
            try:
                return receiver.recv(100) == b"hello"
            except TimeoutError:
                return False


class FirewallHost(ABC):
    """The host, and a driver on it."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.namespace = Path(host.namespaces.space("net"))
        self.networks: dict[str, NetworkId] = {}
        self.driver = self.another_driver()

    @abstractmethod
    def another_driver(self) -> BridgeFirewallDriver:
        """Make a driver as a new process would."""

    @abstractmethod
    def saved(self) -> dict[str, list[str]]:
        """Return what the commands of an operator show, without counters."""

    @abstractmethod
    def lose_rules(self) -> None:
        """Remove all rules of the host, as the restart of its firewall service does."""

    @abstractmethod
    def run_as_operator(self, command: str, **ids: UUID) -> None:
        """Change rules beside the driver; words in braces are names of *ids*."""

    def guest(self, number: int, bridge: str = "br1") -> Guest:
        if bridge not in self.networks:
            self.networks[bridge] = NetworkId(uuid4())
            self.host.namespaces.ip(
                f"link add {bridge} type bridge forward_delay 0 mcast_snooping 0",
                f"link set {bridge} addrgenmode none up",
            )
        return Guest(self.host, number, bridge, self.networks[bridge])

    def put(self, *states: State) -> Outcome[FirewallKey]:
        return self.converge(Update(put={k: v for state in states for k, v in state.items()}))

    def drop(self, *states: State) -> Outcome[FirewallKey]:
        return self.converge(Update(drop=frozenset(key for state in states for key in state)))

    def converge(self, update: Update[FirewallKey, FirewallValue]) -> Outcome[FirewallKey]:
        outcome = self.driver.converge(update)
        assert outcome.ok, str(outcome)
        return outcome

    def connections(self, **wanted: object) -> tuple[TrackedConnection, ...]:
        with Conntrack(self.namespace) as conntrack:
            return conntrack.connections(Filter(**wanted))  # type: ignore[arg-type]


def a_group_id() -> SecurityGroupId:
    return SecurityGroupId(uuid4())


def group(id: SecurityGroupId, *rules: SecurityGroupRule, stateful: bool = True) -> State:
    return {GroupKey(id): Rules(frozenset(rules), stateful)}


def rule(id: SecurityGroupId, direction: Direction, version: int = 4, **more) -> SecurityGroupRule:
    return SecurityGroupRule(
        id=SecurityGroupRuleId(uuid4()),
        security_group_id=id,
        direction=direction,
        ethertype=Ethertype.IPV4 if version == 4 else Ethertype.IPV6,
        **more,
    )


def everything(id: SecurityGroupId, *directions: Direction) -> State:
    return group(id, *(rule(id, d, v) for d in directions or Direction for v in (4, 6)))


def member(id: SecurityGroupId, prefix: str) -> State:
    made = Member(GroupKey(id), ip_network(prefix))
    return {made: made}


@contextlib.contextmanager
def echoing(guest: Guest, port: int) -> Iterator[None]:
    """Run a server in *guest* that echoes its input."""
    server = guest.instance.call(socket.create_server, (guest.address, port))
    ended = threading.Event()

    def serve() -> None:
        while not ended.is_set():
            with contextlib.suppress(OSError):
                connection, _ = server.accept()
                threading.Thread(target=_echo, args=(connection,), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield
    finally:
        ended.set()
        server.shutdown(socket.SHUT_RDWR)
        server.close()


def _echo(connection: socket.socket) -> None:
    with connection, contextlib.suppress(OSError):
        while data := connection.recv(100):
            connection.sendall(data)


def connect(guest: Guest, other: Guest, port: int) -> socket.socket:
    return guest.instance.call(socket.create_connection, (other.address, port), TIMEOUT)


def talks(connection: socket.socket, timeout: float = TIMEOUT) -> bool:
    """Return whether the other end of *connection* echoes its input."""
    connection.settimeout(timeout)
    try:
        connection.sendall(b"hello")
        return bool(connection.recv(100))
    except TimeoutError:
        return False
