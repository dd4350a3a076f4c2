"""A fake DHCP driver that keeps every promise.

Clients receive what the driver writes to its backend; the backend keeps the leases.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from ipaddress import IPv4Address, IPv4Interface, IPv6Address

from attrs import evolve

from netfw.drivers.base import DriverInfo
from netfw.drivers.dhcp import DhcpCapability, DhcpDriver, DhcpLocation, DhcpNetwork, DhcpPort
from netfw.drivers.host_driver import HostCapability
from netfw.drivers.support.unsupported_dhcp import restrict_network, restrict_port
from netfw.drivers.values.events import Sink
from netfw.drivers.values.keys import NetworkKey, PortKey
from netfw.errors import Conflict, InvalidInput, NetfwError
from netfw.model.subnet import Ipv6Mode, Subnet
from netfw.model.values.address import IpAddress, IpInterface
from netfw.model.values.device_names import dhcp_namespace
from netfw.model.values.ids import NetworkId, PortId
from netfw.model.values.route import Route
from netfw.model.values.text_validation import check_dhcp_option_name, check_dns_name, check_text
from netfw.plan import Outcome, Update
from netfw.testing.lab.dhcp_lease import Announcement, ClientLease, Lease6
from tests.conformance.dhcp.fake_dhcp_backend import Entry, FakeDhcpBackend, Serving

METADATA = "169.254.169.254/32"
NAMES = {
    "router": 3,
    "dns-server": 6,
    "mtu": 26,
    "ntp-server": 42,
    "tftp-server": 66,
    "bootfile-name": 67,
}
NAMES6 = {"bootfile-url": 59, "dns-server": 23}


class FakeDhcpDriver(DhcpDriver):
    """Keeps every promise; mutations override single methods."""

    CAPABILITIES = (HostCapability.WATCH, DhcpCapability.DHCPV6)
    boots = "!ipxe"
    """The boot tag of the client whose options are rendered."""

    def __init__(self, backend: FakeDhcpBackend) -> None:
        self.backend = backend
        self.sinks: list[Sink] = []

    @classmethod
    def from_conf(cls, options, host):
        return cls(host.share(FakeDhcpBackend, FakeDhcpBackend))

    def describe(self) -> DriverInfo[HostCapability | DhcpCapability]:
        return DriverInfo("fake", self.CAPABILITIES)

    def watch(self, sink: Sink) -> None:
        self.sinks.append(sink)
        self.backend.sinks.append(sink)

    def close(self) -> None:
        while self.sinks:
            self.backend.sinks.remove(self.sinks.pop())

    def location(self, network, server):
        return DhcpLocation(netns=dhcp_namespace(network), device=f"tap{server.id}"[:14])

    def present(self):
        self.backend.check_online()
        return frozenset({*map(NetworkKey, self.backend.nets), *map(PortKey, self.backend.ports)})

    def converge(self, update: Update) -> Outcome:
        self.backend.check_online()
        with self.backend.lock:
            return self.execute(update)

    def execute(self, update: Update) -> Outcome:
        gone = set(update.drop)
        if update.complete:
            gone |= self.present() - update.put.keys() - update.keep
        for key in sorted(gone, key=lambda key: isinstance(key, NetworkKey)):
            self.drop(key)
        failed: dict[object, NetfwError] = {}
        waiting: dict[object, str] = {}
        for key, value in self.ordered(update.put):
            try:
                if not self.put(key, value):
                    waiting[key] = "its network is not served"
            except NetfwError as error:
                failed[key] = error
        done = frozenset(key for key in update if key not in failed and key not in waiting)
        return Outcome(done=done, failed=failed, waiting=waiting)

    def ordered(self, put: Mapping) -> Iterable:
        return sorted(put.items(), key=lambda item: isinstance(item[0], PortKey))

    def drop(self, key) -> None:
        if isinstance(key, PortKey):
            self.drop_port(key.port)
        else:
            self.drop_network(key.network)

    def put(self, key, value) -> bool:
        """Put what can be served of *value*; return whether it does not wait."""
        served, unsupported = self.restrict(value)
        if isinstance(key, PortKey):
            is_served = self.put_port(key.port, served)
        else:
            self.put_network(key.network, served)
            is_served = True
        if is_served and unsupported.error is not None:
            raise unsupported.error
        return is_served

    def restrict(self, value):
        return restrict_port(value) if isinstance(value, DhcpPort) else restrict_network(value)

    # Networks

    def put_network(self, id: NetworkId, value: DhcpNetwork) -> None:
        self.check_network(value)
        if value.server.id in self.backend.foreign:
            raise Conflict(f"another program has the device of {value.server.id}")
        serving = self.backend.nets.get(id)
        if serving is None or not serving.alive or self.needs_restart(serving.value, value):
            serving = self.start(id, value)
        serving.value = value
        serving.addresses = frozenset(self.addresses(value, serving))
        serving.gateways = frozenset(self.gateways(value))
        serving.announcement = self.announcement(value)
        self.backend.texts[id] = f"{value.dns_domain} {value.options}"
        for port in self.backend.ports:
            self.serve(port)

    def needs_restart(self, before: DhcpNetwork, after: DhcpNetwork) -> bool:
        return before.subnets != after.subnets

    def start(self, id: NetworkId, value: DhcpNetwork) -> Serving:
        """Start a new process, which reads what is on disk."""
        leases = self.backend.stored.setdefault(id, {})
        serving = Serving(
            value=value,
            addresses=frozenset(),
            gateways=frozenset(),
            process=next(self.backend.pids),
            leases=leases,
        )
        self.backend.nets[id] = serving
        return serving

    def drop_network(self, id: NetworkId) -> None:
        serving = self.backend.nets.pop(id, None)
        self.backend.texts.pop(id, None)
        self.backend.stored.pop(id, None)
        gone = [port for port, value in self.backend.ports.items() if value.network == id]
        for port in gone:
            self.backend.ports.pop(port)
            self.backend.texts.pop(port, None)
        if serving is not None:
            self.end(id, serving)

    def end(self, id: NetworkId, serving: Serving) -> None:
        serving.alive = False

    def addresses(self, value: DhcpNetwork, before: Serving) -> Iterator[IpInterface]:
        yield from value.server.addresses
        if value.metadata_for:
            yield IPv4Interface(METADATA)

    def gateways(self, value: DhcpNetwork) -> Iterator[IpAddress]:
        for version in (4, 6):
            known = (s.gateway for s in value.subnets if s.ip_version == version and s.enable_dhcp)
            yield from [gateway for gateway in known if gateway is not None][:1]

    def announcement(self, value: DhcpNetwork) -> Announcement | None:
        announced = [subnet for subnet in value.subnets if subnet.ipv6_ra_mode is not None]
        if not announced:
            return None
        modes = {subnet.ipv6_ra_mode for subnet in announced}
        return Announcement(
            managed=Ipv6Mode.STATEFUL in modes,
            other=modes != {Ipv6Mode.SLAAC},
            lifetime=0,
            mtu=value.mtu,
            prefixes={s.cidr: s.ipv6_ra_mode is not Ipv6Mode.STATEFUL for s in announced},
        )

    # Ports

    def put_port(self, id: PortId, value: DhcpPort) -> bool:
        self.check_port(value)
        former = self.backend.ports.get(id)
        if value.network not in self.backend.nets:
            self.drop_port(id)
            return False
        self.backend.ports[id] = value
        self.backend.texts[id] = f"{value.hostname} {value.domain} {value.options}"
        if former is not None:
            self.release(former, value)
        self.serve(id)
        return True

    def serve(self, id: PortId) -> None:
        value = self.backend.ports[id]
        serving = self.backend.nets.get(value.network)
        if serving is not None:
            serving.entries[id] = self.entry(value, serving.value)

    def drop_port(self, id: PortId) -> None:
        value = self.backend.ports.pop(id, None)
        self.backend.texts.pop(id, None)
        if value is not None and value.network in self.backend.nets:
            self.backend.nets[value.network].entries.pop(id, None)
            self.release(value, None)

    def release(self, before: DhcpPort, after: DhcpPort | None) -> None:
        """Release what *before* had and *after* has not."""
        kept = {fixed.address for fixed in after.fixed_ips} if after else set()
        moved = after is None or after.mac != before.mac
        leases = self.backend.nets[before.network].leases
        for address in (fixed.address for fixed in before.fixed_ips):
            if (moved or address not in kept) and leases.get(address) == before.mac:
                del leases[address]

    def entry(self, port: DhcpPort, network: DhcpNetwork) -> Entry:
        subnets = {subnet.id: subnet for subnet in network.subnets}
        pairs = [
            (subnets[f.subnet_id], f.address) for f in port.fixed_ips if f.subnet_id in subnets
        ]
        return Entry(
            mac=port.mac,
            leases=self.entry_leases(port, network, pairs),
            ipxe=self.booting(port, network, pairs),
            lease6=self.lease6(port, network, pairs),
        )

    def booting(self, port: DhcpPort, network: DhcpNetwork, pairs) -> tuple[ClientLease, ...]:
        """Return the leases of a client that boots by iPXE."""
        self.boots = "ipxe"
        leases = self.entry_leases(port, network, pairs)
        del self.boots
        return leases

    def entry_leases(self, port: DhcpPort, network: DhcpNetwork, pairs) -> tuple[ClientLease, ...]:
        return tuple(
            self.lease(port, network, subnet, address)
            for subnet, address in pairs
            if subnet.enable_dhcp and isinstance(address, IPv4Address)
        )

    def lease(
        self, port: DhcpPort, network: DhcpNetwork, subnet: Subnet, address: IPv4Address
    ) -> ClientLease:
        own = next(each.ip for each in network.server.addresses if each.ip in subnet.cidr)
        servers = [peer.ip for peer in network.peers if peer.ip in subnet.cidr]
        plain = ClientLease(
            address=IPv4Interface((address, subnet.cidr.prefixlen)),
            server=own,
            seconds=86400,
            gateways=(subnet.gateway,) if subnet.gateway is not None else (),
            dns=self.name_servers(subnet, (own, *servers)),
            routes=frozenset(self.routes(network, subnet, own)),
            mtu=network.mtu,
            domain=port.domain or network.dns_domain,
            hostname=port.hostname or f"host-{str(address).replace('.', '-')}",
        )
        return self.with_options(plain, self.options(port, network, 4))

    def name_servers(self, subnet: Subnet, ours: tuple[IpAddress, ...]) -> tuple[IpAddress, ...]:
        servers = subnet.dns_nameservers or ours
        return () if servers == (IPv4Address(0),) else servers

    def routes(self, network: DhcpNetwork, subnet: Subnet, own: IpAddress) -> Iterator[Route]:
        others = (other for other in network.subnets if other.id != subnet.id)
        beside = [other.cidr for other in others if other.ip_version == 4]
        yield from subnet.host_routes
        yield from (Route(destination=block, nexthop="0.0.0.0") for block in beside)
        if network.metadata_for & {subnet.id}:
            yield Route(destination=METADATA, nexthop=own)
        if subnet.gateway is not None:
            yield Route(destination="0.0.0.0/0", nexthop=subnet.gateway)
            if subnet.gateway not in subnet.cidr:
                yield Route(destination=f"{subnet.gateway}/32", nexthop="0.0.0.0")

    def options(self, port: DhcpPort, network: DhcpNetwork, version: int) -> dict[int, str]:
        names = NAMES if version == 4 else NAMES6
        return {
            names.get(option.code, _number(option.code)): option.value
            for option in (*network.options, *port.options)
            if option.ip_version == version and not set(option.tags) - {self.boots}
        }

    def with_options(self, lease: ClientLease, options: Mapping[int, str]) -> ClientLease:
        empty = {number for number, value in options.items() if not value}
        rest = {number: value for number, value in options.items() if value}
        lease = evolve(
            lease,
            mtu=None if 26 in empty else lease.mtu,
            gateways=() if 3 in empty else lease.gateways,
            dns=() if 6 in empty else lease.dns,
        )
        if 26 in rest:
            lease = evolve(lease, mtu=int(rest.pop(26)))
        if 6 in rest:
            lease = evolve(lease, dns=tuple(map(IPv4Address, rest.pop(6).split(","))))
        coded = {n: IPv4Address(v).packed if n == 42 else v.encode() for n, v in rest.items()}
        return evolve(lease, options=coded)

    def lease6(self, port: DhcpPort, network: DhcpNetwork, pairs) -> Lease6 | None:
        pairs = [(s, a) for s, a in pairs if isinstance(a, IPv6Address) and s.enable_dhcp]
        given = [(s, a) for s, a in pairs if s.ipv6_address_mode is Ipv6Mode.STATEFUL]
        if not any(s.ipv6_address_mode is not Ipv6Mode.SLAAC for s, _ in pairs):
            return None
        options = self.options(port, network, 6)
        dns = [IPv6Address(options.pop(23))] if 23 in options else pairs[0][0].dns_nameservers
        return Lease6(
            addresses=tuple(address for _, address in given[:1]),
            dns=tuple(dns),
            search=(port.domain or network.dns_domain,),
            options={number: value.encode() for number, value in options.items()},
        )

    # Checks

    def check_network(self, value: DhcpNetwork) -> None:
        self.check({"dns_domain": (check_dns_name, value.dns_domain), **_of_options(value.options)})

    def check_port(self, value: DhcpPort) -> None:
        names = {
            "hostname": (check_dns_name, value.hostname),
            "domain": (check_dns_name, value.domain),
        }
        self.check({**names, **_of_options(value.options)})

    def check(self, texts) -> None:
        faults = {}
        for path, (check, text) in texts.items():
            try:
                check(text)
            except ValueError as error:
                faults[path] = str(error)
        if faults:
            raise InvalidInput(faults)


def _of_options(options):
    found = {}
    for at, option in enumerate(options):
        found[f"options[{at}].name"] = (check_known, option.name)
        found[f"options[{at}].value"] = (check_text, option.value)
        if option.ip_version == 6 and option.name == "dns-server":
            found[f"options[{at}].value"] = (IPv6Address, option.value)
    return found


def _number(code: str) -> int:
    """Return the number of an option, 0 if it is unknown; earlier checks refuse such options."""
    return int(code) if code.isdigit() else 0


def check_known(name: str) -> None:
    check_dhcp_option_name(name)
    name = name.rpartition(",")[2]
    if name not in {*NAMES, *NAMES6} and not name.isdigit():
        raise ValueError(f"no option is called {name}")
