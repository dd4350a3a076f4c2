"""Hosts with a distributed router: hand-made namespaces with the same MAC addresses on each.

Network <n> has the prefixes 10.0.<n>.0/24 and fd00:<n>::/64 and a router interface with the first
address of each.  An instance <number> has the address <number> of its network.
"""

import socket
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from ipaddress import ip_interface
from typing import Any

from attrs import evolve, field, frozen

from netfw.drivers.values.keys import HostKey, NetworkKey, PortKey
from netfw.drivers.values.switch_values import (
    Endpoint,
    Flood,
    FloodKey,
    Forwarding,
    ForwardingKey,
    HostMac,
    LocalNetwork,
    RouterInterface,
    SwitchKey,
    SwitchValue,
    Tunnel,
)
from netfw.model.segment import NetworkType
from netfw.model.values.address import Mac
from netfw.plan import Outcome, Update
from netfw.testing.conformance.common.raw_socket import open_wire
from netfw.testing.lab.host import NIC
from netfw.testing.lab.instance import Instance, InstanceDevice, Plug
from netfw.testing.lab.lab import Lab
from netfw.testing.lab.wait import wait_until
from tests.lab.backends.ovs.switch.environment import (
    SwitchHost,
    mac,
    network,
    network_id,
    port,
    port_id,
)

TUNNELS = ("vxlan", "geneve")
_SYSCTLS = {
    "net/ipv4/ip_forward": "1",
    "net/ipv6/conf/all/forwarding": "1",
    **{
        f"net/ipv4/conf/{scope}/{name}": value
        for scope in ("all", "default")
        for name, value in (
            ("rp_filter", "0"),
            ("send_redirects", "0"),
            ("arp_ignore", "1"),
            ("arp_announce", "2"),
        )
    },
    "net/ipv6/conf/default/accept_ra": "0",
}
_DEVICE_SYSCTLS = {
    "net/ipv6/neigh/{}/ucast_solicit": "0",
    "net/ipv6/neigh/{}/mcast_resolicit": "3",
}
ROUTER_PORTS = 200
"""First number of the ports of routers."""


def host_mac(number: int) -> Mac:
    return Mac(f"fa:16:3f:00:00:{number:02x}")


@frozen
class Router:
    """A router with an interface on each of some networks; *prefix* tells its subnets apart."""

    number: int
    networks: tuple[int, ...]
    prefix: int = 0
    last: int = 1
    """The last part of its addresses."""

    def interface(self, net: int) -> RouterInterface:
        number = ROUTER_PORTS + 10 * self.number + net
        addresses = frozenset(map(ip_interface, subnet_addresses(net, self.last, self.prefix)))
        return RouterInterface(port_id(number), mac(number), addresses)


ONE_ROUTER = (Router(0, (1, 2)),)


def subnet_addresses(net: int, number: int, prefix: int = 0) -> tuple[str, str]:
    """Return the addresses of host *number* on network *net*, in its subnets number *prefix*."""
    return f"10.{prefix}.{net}.{number}/24", f"fd00:{net:x}:{prefix:x}::{number:x}/64"


def address(net: int, number: int, version: int, prefix: int = 0) -> str:
    found = subnet_addresses(net, number, prefix)[version != 4]
    return str(ip_interface(found).ip)


@frozen(kw_only=True)
class Placed:
    """An instance, and the wiring of its port."""

    instance: Instance
    number: int
    net: int
    host: int
    wiring: Mapping[str, object] = field(factory=dict)


class RoutedSite:
    """Hosts, networks of one type, and routers that are on every host."""

    def __init__(
        self,
        lab: Lab,
        make_host: Callable[..., SwitchHost],
        kind: str,
        routers: Iterable[Router],
        *,
        ipv6_underlay: bool = False,
        population: bool = False,
        distributed: Iterable[int] | None = None,
        **options: Any,
    ) -> None:
        self.lab, self.kind, self.routers = lab, kind, tuple(routers)
        self._options = options
        self.population, self.ipv6_underlay = population, ipv6_underlay
        self.machines = tuple(lab.hosts.values())
        self.hosts = [self._start(make_host, index) for index in range(len(self.machines))]
        everywhere = range(len(self.hosts))
        self.distributed = set(everywhere if distributed is None else distributed)
        """Hosts with distributed routing."""
        self.placed: dict[int, Placed] = {}
        self.namespaces: dict[tuple[int, int], Instance] = {}
        self.stack = ExitStack()

    def _start(self, make_host: Callable[..., SwitchHost], index: int) -> SwitchHost:
        host = self.machines[index]
        if self.kind in TUNNELS:
            local_ip = str(self._local_ip(index))
            return make_host(host, tunnel_types=[self.kind], local_ip=local_ip, **self._options)
        for physical in self.physical_networks:
            bridge = f"br-{physical}"
            host.ovs.vsctl(
                *("add-br", bridge, "--", "set", "Bridge", bridge, "datapath_type=netdev"),
                *("--", "add-port", bridge, physical),
            )
            host.namespaces.ip(f"link set {physical} up")
        mappings = {physical: f"br-{physical}" for physical in self.physical_networks}
        return make_host(host, bridge_mappings=mappings, **self._options)

    @property
    def physical_networks(self) -> tuple[str, ...]:
        return tuple(self.lab.provider)

    @property
    def bridges(self) -> tuple[str, ...]:
        """Bridges with flows."""
        physical = (f"br-{name}" for name in self.physical_networks)
        return ("br-int", *(["br-tun"] if self.kind in TUNNELS else physical))

    def instance(self, number: int) -> Instance:
        return self.placed[number].instance

    @property
    def networks(self) -> tuple[int, ...]:
        return tuple(sorted({net for router in self.routers for net in router.networks}))

    def _local_ip(self, index: int) -> object:
        host = self.machines[index]
        return (host.address6 if self.ipv6_underlay else host.address).ip

    def endpoint(self, index: int) -> Endpoint:
        return Endpoint(NetworkType(self.kind), self._local_ip(index))  # type: ignore[arg-type]

    def prepare(self) -> None:
        """Make the bridges, then the routers' namespaces."""
        for index in range(len(self.hosts)):
            self.converge(index)
            for router in self.routers:
                if index in self.distributed:
                    self.namespaces[index, router.number] = self._route(index, router)

    def _route(self, index: int, router: Router) -> Instance:
        instance = self.machines[index].instance(f"qrouter-{router.number}")
        set_sysctls(instance, _SYSCTLS)
        for net in router.networks:
            interface = router.interface(net)
            device = f"qr-{router.number}-{net}"
            ids = {"iface-id": str(interface.port), "attached-mac": interface.mac}
            instance.plug(
                Plug(
                    bridge="br-int",
                    device=device,
                    kind=InstanceDevice.INTERNAL,
                    mac=interface.mac,
                    mtu=1400,
                    external_ids=ids,
                )
            )
            self._address(instance, router, net)
        return instance

    def _address(self, instance: Instance, router: Router, net: int) -> None:
        device = instance.device = f"qr-{router.number}-{net}"
        set_sysctls(instance, {k.format(device): v for k, v in _DEVICE_SYSCTLS.items()})
        instance.configure([str(each) for each in router.interface(net).addresses])

    def revive_routers(self, index: int) -> None:
        """Take the devices that a new switch made for the routers, in place of the former ones."""
        for router in self.routers:
            instance = self.namespaces[index, router.number]
            for net in router.networks:
                device = f"qr-{router.number}-{net}"
                instance.attempt(["ip", "link", "del", device])
                instance.take(device)
                self._address(instance, router, net)

    def place(
        self,
        index: int,
        net: int,
        number: int,
        *,
        addresses: Iterable[str] | None = None,
        gateways: Iterable[str] | None = None,
        **wiring: object,
    ) -> Instance:
        """Make an instance on host *index*, with default routes by the first router."""
        if addresses is None:
            addresses = subnet_addresses(net, number)
        if gateways is None:
            gateways = (address(net, 1, 4), address(net, 1, 6))
        instance = self.machines[index].instance(
            f"vm{number}",
            Plug(
                bridge="br-int",
                device=f"tap{number}",
                mac=mac(number),
                addresses=tuple(addresses),
                gateways=tuple(gateways),
                mtu=1400,
                external_ids={"iface-id": str(port_id(number)), "attached-mac": mac(number)},
            ),
        )
        own = frozenset(ip_interface(each).ip for each in addresses)
        self.placed[number] = Placed(
            instance=instance,
            number=number,
            net=net,
            host=index,
            wiring={"addresses": own, **wiring},
        )
        return instance

    def place_behind(self, router: Router, index: int, net: int, number: int) -> Instance:
        """Make an instance of the subnets of *router* on network *net*."""
        gateways = [address(net, router.last, version, router.prefix) for version in (4, 6)]
        own = subnet_addresses(net, number, router.prefix)
        return self.place(index, net, number, addresses=own, gateways=gateways)

    def state(self, index: int) -> dict[SwitchKey, SwitchValue]:
        """Return all that host *index* is to have."""
        state: dict[SwitchKey, SwitchValue] = {}
        for net in self.networks:
            state |= self._network(index, net)
        for placed in self.placed.values():
            if placed.host == index:
                state |= port(placed.number, placed.net, **placed.wiring)
        if index in self.distributed:
            state |= self._routing(index)
        if self.kind in TUNNELS:
            state |= self._overlay(index)
        return state

    def _network(self, index: int, net: int) -> dict[NetworkKey, LocalNetwork]:
        provider: dict[str, object] = {"network_type": self.kind}
        if self.kind in ("flat", "vlan"):
            provider["physical_network"] = self._physical_network(net)
        if self.kind not in ("flat", "local"):
            provider["segmentation_id"] = 100 + net
        found = network(net, **provider)
        if index not in self.distributed:
            return found
        interfaces = frozenset(self.interfaces(net))
        return {key: evolve(value, router_interfaces=interfaces) for key, value in found.items()}

    def _physical_network(self, net: int) -> str:
        return self.physical_networks[net - 1 if self.kind == "flat" else 0]

    def interfaces(self, net: int) -> list[RouterInterface]:
        return [router.interface(net) for router in self.routers if net in router.networks]

    def _routing(self, index: int) -> dict[SwitchKey, SwitchValue]:
        state: dict[SwitchKey, SwitchValue] = {}
        for net in self.networks:
            for interface in self.interfaces(net):
                wiring = port(0, net, addresses=frozenset(one.ip for one in interface.addresses))
                (value,) = wiring.values()
                state[PortKey(interface.port)] = evolve(value, mac=interface.mac)
        for other in self.distributed:
            ends = {self.endpoint(other)} if self.kind in TUNNELS and other != index else set()
            key = HostKey(self.machines[other].name)
            state[key] = HostMac(host_mac(other), other == index, frozenset(ends))
        return state

    def _overlay(self, index: int) -> dict[SwitchKey, SwitchValue]:
        state: dict[SwitchKey, SwitchValue] = {}
        others = [other for other in range(len(self.hosts)) if other != index]
        for other in others:
            state[self.endpoint(other)] = Tunnel(f"host{other}", mesh=not self.population)
            if self.population:
                for net in self.networks:
                    state[FloodKey(network_id(net), self.endpoint(other))] = Flood()
        for placed in self.placed.values():
            if self.population and placed.host != index:
                key = ForwardingKey(network_id(placed.net), Mac(mac(placed.number)))
                ends = frozenset({self.endpoint(placed.host)})
                state[key] = Forwarding(ends, placed.wiring["addresses"])  # type: ignore[arg-type]
        return state

    def converge(self, index: int) -> Outcome[SwitchKey]:
        driver = self.hosts[index].driver
        driver.observe(None)  # what was plugged is known
        return driver.converge(Update(put=self.state(index), complete=True))

    def bring(self) -> None:
        """Converge all hosts."""
        for index in range(len(self.hosts)):
            outcome = self.converge(index)
            assert outcome.ok, outcome

    def wire(self, index: int, net: int) -> socket.socket:
        """Open a socket that receives all frames of a network between host *index* and others."""
        device = NIC if self.kind in TUNNELS else self._physical_network(net)
        opened = self.machines[index].call(open_wire, device, 8 << 20)
        return self.stack.enter_context(opened)

    def close(self) -> None:
        self.stack.close()


def set_sysctls(instance: Instance, values: Mapping[str, str]) -> None:
    for name, value in values.items():
        instance.call(write, f"/proc/sys/{name}", value)


def write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def neighbour(instance: Instance, of: str) -> str | None:
    """Return the MAC address in the neighbour entry of an address."""
    words = instance.run(["ip", "neigh", "show", of]).split()
    return words[words.index("lladdr") + 1] if "lladdr" in words else None


def reaches(instance: Instance, target: str) -> None:
    wait_until(lambda: instance.ping(target, count=1).received, f"an answer of {target}")


def gateway(site: RoutedSite, net: int, router: int = 0) -> str:
    return site.routers[router].interface(net).mac


def listen(site: RoutedSite, instance: Instance, device: str = "eth0") -> socket.socket:
    return site.stack.enter_context(instance.call(open_wire, device, 1 << 20))
