"""The namespace that a router should have: ports, addresses, routes, sysctls, rules.  Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from ipaddress import ip_interface
from types import MappingProxyType

from attrs import evolve, frozen

from netfw.drivers.values.keys import FloatingIpKey
from netfw.drivers.values.router_values import (
    FullRouter,
    HighAvailability,
    LocalRouter,
    RouterPort,
    RouterState,
)
from netfw.linux.iptables.chain import Chain, ChainKey
from netfw.linux.iptables.rule import Family
from netfw.linux.router_netns.values import NetnsPort, RouterNetns
from netfw.model.values.address import IpAddress, IpInterface, IpNetwork, link_local
from netfw.model.values.ids import FloatingIpId, PortId
from netfw_drivers.linux_router.config.keepalived import marker
from netfw_drivers.linux_router.distributed.gateway_link import GatewayLink
from netfw_drivers.linux_router.distributed.local_routing import (
    NEIGHBOUR_SETTINGS,
    route_to_central,
    route_to_gateway,
)
from netfw_drivers.linux_router.plan.contributed_dnat import contributed_ports
from netfw_drivers.linux_router.plan.ended_connections import TranslatedAddresses
from netfw_drivers.linux_router.plan.floating_ip_rules import (
    Translation,
    Translations,
    by_address,
    floating_interface,
    of_family,
    render_float_chains,
)
from netfw_drivers.linux_router.plan.marks import Scope, ScopeMarks, allocate_scope_marks
from netfw_drivers.linux_router.plan.names import (
    GATEWAY,
    HA,
    PartId,
    interface_prefix,
    link_devices,
    part_key,
    router_namespace,
)
from netfw_drivers.linux_router.plan.router_routes import UNREACHABLE, RouterRoutes, make_routes
from netfw_drivers.linux_router.plan.router_rules import (
    METADATA_ADDRESSES,
    GatewayDevice,
    RoutedDevice,
    RouterRules,
)

DeviceName = Callable[[PortId, str], str]
"""See :meth:`netfw.drivers.interface.InterfaceDriver.device_name`."""

DEVICE_SYSCTLS = {
    "ipv4/rp_filter": "0",
    "ipv4/send_redirects": "0",
    "ipv6/disable_ipv6": "0",
    "ipv6/accept_ra": "0",
    "ipv6/accept_dad": "0",
    "ipv6/addr_gen_mode": "0",
}
"""Parameters of each device: no reverse path filter, link-local addresses from MAC addresses,
nothing taken from router advertisements, no wait for duplicate detection."""
_NO_LINK_LOCAL = {"ipv6/addr_gen_mode": "1"}
"""Parameter of the devices of a highly available router: only the active instance has addresses."""
_FROM_RA = {"ipv6/accept_ra": "2", "ipv6/autoconf": "0"}
"""Parameters of a gateway that takes its default route, and no address, from advertisements."""
_PROXY = {"ipv6/proxy_ndp": "1", "ipv6/neigh/proxy_delay": "0"}
"""Parameters of a gateway that answers for addresses behind the router, at once."""
SYSCTLS: Mapping[str, str] = MappingProxyType(
    {
        "net.ipv4.ip_forward": "1",
        "net.ipv6.conf.all.forwarding": "1",
        "net.ipv4.conf.all.rp_filter": "0",
        "net.ipv4.conf.all.send_redirects": "0",
        "net.ipv4.conf.all.arp_ignore": "1",
        "net.ipv4.conf.all.arp_announce": "2",
        "net.ipv4.fib_multipath_hash_policy": "1",
        "net.ipv6.fib_multipath_hash_policy": "1",
        **{
            f"net.{name.replace('/', '.conf.default.')}": value
            for name, value in DEVICE_SYSCTLS.items()
        },
    }
)
"""Parameters of the namespace: it forwards, answers ARP for the addresses of the asked device only,
and balances multipath routes by ports."""
_HA_SYSCTLS = {**SYSCTLS, "net.ipv6.conf.default.addr_gen_mode": "1"}
_LINK_LOCAL_LENGTH = 64


@frozen(kw_only=True)
class NetnsContext:
    """What a namespace depends on, beside the state of its router."""

    device_name: DeviceName
    random_fully: bool = False
    sync_port: int | None = None
    """Port on which highly available routers share connections; None: they do not."""


@frozen(kw_only=True)
class DesiredRouter:
    """A router in terms of the kernel."""

    id: PartId
    state: RouterState
    full: FullRouter
    context: NetnsContext

    @property
    def ha(self) -> HighAvailability | None:
        """Settings of a highly available router."""
        return self.full.ha

    def ha_device(self, ha: HighAvailability) -> str:
        """Return the name of the device on the HA network."""
        return self._device(ha.port.id, HA)

    def interface_device(self, port: PortId) -> str:
        """Return the name of the device of an interface."""
        return self._device(port, interface_prefix(self.id))

    @property
    def gateway_device(self) -> str | None:
        """Name of the gateway's device."""
        gateway = self.full.gateway
        return None if gateway is None else self._device(gateway.port.id, GATEWAY)

    def devices(self) -> Iterator[tuple[RouterPort, str]]:
        """Yield the ports with their devices."""
        for port in self.full.interfaces:
            yield port, self.interface_device(port.id)
        if self.full.gateway is not None:
            yield self.full.gateway.port, self._device(self.full.gateway.port.id, GATEWAY)

    def port_devices(self) -> dict[PortId, str]:
        """Return the devices that rules of extensions can name, by their ports."""
        devices = {port.id: device for port, device in self.devices()}
        local = self.state.local
        link = self._link_device(Family.IPV4)
        if local is not None and local.gateway_port is not None and link is not None:
            devices[local.gateway_port] = link
        return devices

    def gateway_addresses(self) -> tuple[IpInterface, ...]:
        """Return the addresses of the gateway and of contributions, without floating IPs."""
        if self.full.gateway is None:
            return ()
        contributed = (each for part in self.state.contributions for each in part.addresses)
        return tuple(dict.fromkeys((*self.full.gateway.port.addresses, *contributed)))

    def own_gateway_addresses(self) -> frozenset[IpAddress]:
        """Return the addresses of the gateway's port."""
        gateway = self.full.gateway
        return frozenset(() if gateway is None else (each.ip for each in gateway.port.addresses))

    def translated(self, translations: Translations) -> TranslatedAddresses:
        """Return the addresses on the gateway, and what they are translated to."""
        gateways = (self._gateway_device(family) for family in Family)
        addresses = (each.ip for each in self.gateway_addresses())
        floating = by_address(translations)
        return TranslatedAddresses(
            addresses=frozenset({*addresses, *floating}),
            floating=floating,
            ports=frozenset(contributed_ports(self.state.contributions)),
            snat=frozenset(
                each.address for each in gateways if each and each.snat and each.address
            ),
        )

    def gateway_families(self) -> frozenset[Family]:
        """Return the families that can have floating IPs."""
        gateway = self.full.gateway
        addresses = () if gateway is None else gateway.port.addresses
        return frozenset(Family(each.version) for each in addresses)

    def rules(self, family: Family, present: ScopeMarks) -> RouterRules:
        """Return what the rules of one family follow from.

        :raises Exhausted: more address scopes than marks.
        """
        interfaces = tuple(
            RoutedDevice(name=self.interface_device(port.id), scope=port.scopes.get(family))
            for port in self.full.interfaces
        )
        gateway = self._gateway_device(family)
        scopes: list[Scope] = [device.scope for device in interfaces]
        scopes += [gateway.scope] if gateway is not None else []
        return RouterRules(
            key=part_key(self.id),
            family=family,
            interfaces=interfaces,
            gateway=gateway,
            metadata_port=self.state.metadata_port,
            random_fully=self.context.random_fully,
            contributions=self.state.contributions,
            is_ha=self.ha is not None,
            ha_addresses=tuple(each for each in self._ha_addresses() if each.version == family),
            sync_port=None if self.ha is None else self.context.sync_port,
            scope_marks=allocate_scope_marks(scopes, present),
            devices=self.port_devices(),
            link_device=self._link_device(family),
        )

    def _link_device(self, family: Family) -> str | None:
        """Return the device by which a local part translates floating IPs, if it has any."""
        local = self.state.local
        if local is None or local.external_network is None or family is not Family.IPV4:
            return None
        return link_devices(part_key(self.id).router)[0]

    def netns(
        self,
        marks: Mapping[Family, ScopeMarks],
        translations: Translations,
        tables: Mapping[IpNetwork, int] | None = None,
        link: GatewayLink | None = None,
    ) -> RouterNetns:
        """Return the namespace; *marks* are those that address scopes have already.

        :param tables: those that the subnets of a local part have already.
        :param link: the link of a local part to the agent gateway, if there can be one.
        :raises Exhausted: more address scopes than marks.
        """
        chains: dict[ChainKey, Chain] = {}
        served: dict[FloatingIpId, Translation] = {}
        for family in Family:
            rules = self.rules(family, marks.get(family, {}))
            chains |= rules.chains()
            chains |= render_float_chains(rules.float_chains, family, translations)
            if rules.float_chains:
                served |= of_family(translations, family)
        netns = RouterNetns(
            netns=router_namespace(self.id),
            ports=tuple(self.ports(served)),
            routes=() if self.ha else tuple(self.routes().routes.values()),
            sysctls=_HA_SYSCTLS if self.ha else SYSCTLS,
            chains=chains,
        )
        local = self.state.local
        return netns if local is None else self._distribute(netns, local, served, tables, link)

    def _distribute(
        self,
        netns: RouterNetns,
        local: LocalRouter,
        served: Translations,
        tables: Mapping[IpNetwork, int] | None,
        link: GatewayLink | None,
    ) -> RouterNetns:
        """Add the ways of a local part to the central part and to the agent gateway."""
        routings = [route_to_central(local, self.interface_device, tables or {})]
        links = [link.netns_link()] if link is not None and served else []
        if link is not None and links:
            fixed = (each.fixed for each in served.values())
            routings.append(route_to_gateway(fixed, link.pair.gateway_end.ip, links[0].device))
        return evolve(
            netns,
            links=tuple(links),
            routes=(*netns.routes, *(each for routing in routings for each in routing.routes)),
            policy_rules=tuple(each for routing in routings for each in routing.rules),
        )

    def ports(self, translations: Translations) -> Iterator[NetnsPort]:
        """Yield the ports; the gateway has the addresses of *translations*.

        Of a highly available router, all addresses but that on the HA network are virtual.
        """
        if self.ha is None:
            yield from self._routed_ports(translations)
            return
        for port in self._routed_ports(translations):
            virtual = frozenset({*port.addresses, _link_local(port)})
            settings = {**port.settings, **_NO_LINK_LOCAL}
            yield evolve(port, addresses=(), virtual_addresses=virtual, settings=settings)
        settings = {**DEVICE_SYSCTLS, **_NO_LINK_LOCAL}
        own = self.ha.port
        bare = _netns_port(own, self.ha_device(self.ha), own.addresses, settings)
        yield evolve(bare, virtual_addresses=frozenset({marker(self.ha.vrid)}))

    def virtual_addresses(self, translations: Translations) -> Iterator[tuple[str, IpInterface]]:
        """Yield the addresses of an active instance with their devices, in a fixed order."""
        for port in self._routed_ports(translations):
            for interface in (*port.addresses, _link_local(port)):
                yield port.device, interface

    def _routed_ports(self, translations: Translations) -> Iterator[NetnsPort]:
        metadata = METADATA_ADDRESSES[Family.IPV6]
        own = [ip_interface(metadata)] if self.state.metadata_port is not None else []
        for port in self.full.interfaces:
            name = self.interface_device(port.id)
            more = {} if self.state.local is None else NEIGHBOUR_SETTINGS
            settings = {**DEVICE_SYSCTLS, **more}
            yield _netns_port(port, name, (*port.addresses, *own), settings)
        gateway, device = self.full.gateway, self.gateway_device
        if gateway is not None and device is not None:
            proxied = self._proxied()
            settings = {
                **DEVICE_SYSCTLS,
                **(_FROM_RA if gateway.ipv6_from_ra else {}),
                **(_PROXY if proxied else {}),
            }
            bare = _netns_port(gateway.port, device, self.gateway_addresses(), settings)
            yield add_floating_ips(evolve(bare, proxied=proxied), translations)

    def _proxied(self) -> frozenset[IpAddress]:
        """Return the addresses for which the gateway answers."""
        return frozenset(each for part in self.state.contributions for each in part.proxied)

    def routes(self) -> RouterRoutes:
        """Return the routes, and those that are left out."""
        addresses = [(each, device) for port, device in self.devices() for each in port.addresses]
        made = make_routes(self.state.routes, self.full.gateway, self.gateway_device, addresses)
        if self.state.local is None:
            return made
        left_out = {text: why for text, why in made.left_out.items() if why != UNREACHABLE}
        return evolve(made, left_out=left_out)  # the central part has those to the outside

    def _device(self, port: PortId, prefix: str) -> str:
        return self.context.device_name(port, prefix)

    def _ha_addresses(self) -> Iterator[IpAddress]:
        if self.ha is not None:
            yield marker(self.ha.vrid).ip
            yield from (each.ip for each in self.ha.port.addresses)

    def _gateway_device(self, family: Family) -> GatewayDevice | None:
        gateway = self.full.gateway
        if gateway is None:
            return None
        own = (each.ip for each in gateway.port.addresses if each.version == family)
        return GatewayDevice(
            name=self._device(gateway.port.id, GATEWAY),
            scope=gateway.port.scopes.get(family),
            address=next(own, None),
            snat=gateway.snat and family is Family.IPV4,
        )


def add_floating_ips(port: NetnsPort, translations: Translations) -> NetnsPort:
    """Add the addresses of floating IPs, each owned by its floating IP, to the gateway's port."""
    owners = {
        floating_interface(each.floating): FloatingIpKey(id) for id, each in translations.items()
    }
    own = frozenset(port.addresses)
    more = {interface: key for interface, key in owners.items() if interface not in own}
    return evolve(port, addresses=(*port.addresses, *more), owners=more)


def _link_local(port: NetnsPort) -> IpInterface:
    return ip_interface((link_local(port.mac), _LINK_LOCAL_LENGTH))


def _netns_port(
    port: RouterPort,
    device: str,
    addresses: tuple[IpInterface, ...],
    settings: Mapping[str, str],
) -> NetnsPort:
    return NetnsPort(
        port=port.id,
        device=device,
        mac=port.mac,
        mtu=port.mtu,
        addresses=addresses,
        settings=settings,
    )
