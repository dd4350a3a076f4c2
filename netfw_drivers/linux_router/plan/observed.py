"""Routers as observed on this host.  Pure values."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from functools import cached_property

from attrs import field, frozen

from netfw.drivers.values.router_values import RouterState
from netfw.linux.ip.values import Address
from netfw.linux.iptables.chain import ChainKey
from netfw.linux.iptables.mirror import ChainMirror
from netfw.linux.iptables.rule import Family
from netfw.linux.service_netns.values import ObservedNetns
from netfw.model.router import HaRole
from netfw.model.values.address import IpAddress, IpInterface
from netfw.model.values.ids import FloatingIpId, NetworkId, PortId
from netfw_drivers.linux_router.config.keepalived import VirtualAddress, parse_addresses
from netfw_drivers.linux_router.distributed.gateway_link import GatewayLink
from netfw_drivers.linux_router.distributed.local_routing import is_local
from netfw_drivers.linux_router.plan.contributed_dnat import present_ports
from netfw_drivers.linux_router.plan.ended_connections import TranslatedAddresses, parse_ended
from netfw_drivers.linux_router.plan.floating_ip_rules import Translation
from netfw_drivers.linux_router.plan.ha_role import decide_role
from netfw_drivers.linux_router.plan.marks import Scope, parse_scope_marks
from netfw_drivers.linux_router.plan.names import GATEWAY, HA, PartId
from netfw_drivers.linux_router.plan.router_rules import parse_snat_addresses
from netfw_drivers.linux_router.plan.translation_index import TranslationIndex


@frozen(kw_only=True)
class FoundDaemon:
    """A daemon of a router, and its configuration."""

    text: str | None = field(default=None, repr=False)
    """Text of its configuration; None: there is no file."""
    digest: str | None = None
    """Digest of the running program; None: it does not run in the router's present namespace."""
    remains: bool = False
    """Other files of it exist."""

    @property
    def is_absent(self) -> bool:
        return self.text is None and self.digest is None and not self.remains


@frozen(kw_only=True, slots=False)
class FoundRouter:
    """A router as the host has it."""

    netns: ObservedNetns
    radvd: FoundDaemon = field(factory=FoundDaemon)
    keepalived: FoundDaemon = field(factory=FoundDaemon)
    conntrackd: FoundDaemon = field(factory=FoundDaemon)
    dhclient: FoundDaemon = field(factory=FoundDaemon)
    can_elect: bool = True
    """Whether the switch has admitted the port on the HA network: without the others, every
    instance would become active."""
    ports: frozenset[PortId] = frozenset()
    """Its ports, as far as they are known: another program may have removed the namespace."""
    link: GatewayLink | None = None
    """Of a local part: its link to the agent gateway, if that is on this host."""
    local: RouterState | None = None
    """Of a local part: the state that it was given last, if that is known."""
    prepared: frozenset[FloatingIpId] = frozenset()
    """Of a local part: the floating IPs with rules that have no route in the agent gateway."""
    former: TranslationIndex = field(factory=TranslationIndex, repr=False)
    """The floating IPs of an earlier observation, which saves parsing them again."""

    @property
    def is_ha(self) -> bool:
        """Whether it is an instance of a highly available router."""
        return self.keepalived.text is not None or any(
            name.startswith(HA) for name in self.netns.links
        )

    @property
    def is_local(self) -> bool:
        """Whether it is the local part of a distributed router."""
        return self.link is not None or is_local(self.netns.policy_rules)

    @property
    def is_standby(self) -> bool:
        """Whether another instance of the router is the active one, if any."""
        return self.role not in (None, HaRole.ACTIVE)

    @cached_property
    def virtual_addresses(self) -> tuple[VirtualAddress, ...]:
        """The addresses that keepalived has, or would have if it were active."""
        return parse_addresses(self.keepalived.text or "")

    @property
    def role(self) -> HaRole | None:
        """The role of an instance of a highly available router."""
        addresses = (each.address for each in self.netns.addresses)
        running = self.keepalived.digest is not None
        return decide_role(self.netns.links, addresses, running=running)

    @property
    def mirror(self) -> ChainMirror:
        return self.netns.rules or ChainMirror()

    @cached_property
    def index(self) -> TranslationIndex:
        """The floating IPs whose rules are in force."""
        return self.former.advance(self.mirror.chains)

    @property
    def translations(self) -> dict[FloatingIpId, Translation]:
        """The floating IPs whose rules are in force, in the order of their rules."""
        return self.index.translations

    @cached_property
    def ended(self) -> frozenset[FloatingIpId]:
        """The floating IPs that have connections which are still to be removed."""
        ended = (each.floating_ip for each in parse_ended(self.mirror.chains))
        return frozenset(id for id in ended if id is not None)

    @property
    def floating_ips(self) -> Set[FloatingIpId]:
        """The floating IPs that have rules here, or connections that are still to be removed."""
        return self.translations.keys() | self.ended

    @cached_property
    def translated(self) -> TranslatedAddresses:
        """The addresses on the gateway, and what the rules in force translate them to."""
        addresses = (each.ip for each in self._gateway_addresses())
        return self._translated(frozenset(addresses), self.index.floating)

    def translated_among(self, addresses: Collection[IpAddress]) -> TranslatedAddresses:
        """Return `translated` for those of *addresses* that are on the gateway or translated."""
        numbers = {int(each): each for each in addresses}
        found = (numbers.get(int(each)) for each in self._gateway_addresses())
        present = frozenset(each for each in found if each is not None)
        floating = self.index.floating
        return self._translated(
            present, {each: floating[each] for each in addresses if each in floating}
        )

    def _gateway_addresses(self) -> Iterator[IpInterface]:
        """Yield the addresses of the gateway; a standby instance has them as soon as it is
        active."""
        there: Iterable[Address | VirtualAddress] = self.virtual_addresses
        if not self.is_ha:
            there = (each.address for each in self.netns.addresses)
        device = self.gateway_device
        return (each.interface for each in there if each.device == device)

    def _translated(
        self,
        addresses: frozenset[IpAddress],
        floating: Mapping[IpAddress, tuple[FloatingIpId, IpAddress]],
    ) -> TranslatedAddresses:
        return TranslatedAddresses(
            addresses=addresses,
            floating=floating,
            ports=frozenset(present_ports(self.mirror)),
            snat=parse_snat_addresses(self.mirror.chains),
        )

    @property
    def scope_marks(self) -> dict[Family, dict[Scope, int]]:
        """The marks that address scopes have, by family."""
        return {
            family: parse_scope_marks(self.mirror.chains.get(_marks(family), ()))
            for family in Family
        }

    @property
    def gateway_device(self) -> str | None:
        """Name of the device of the gateway."""
        return next((name for name in self.netns.links if name.startswith(GATEWAY)), None)


@frozen(kw_only=True)
class FoundGateway:
    """An agent gateway as the host has it."""

    netns: ObservedNetns
    ports: frozenset[PortId] = frozenset()
    """Its port, if it is known."""


@frozen(kw_only=True)
class ObservedRouters:
    """The routers and agent gateways that concern an update."""

    routers: Mapping[PartId, FoundRouter] = field(factory=dict)
    gateways: Mapping[NetworkId, FoundGateway] = field(factory=dict)

    def holder(self, router: PartId, address: IpAddress) -> FloatingIpId | None:
        """Return the floating IP that a router has at *address*, if any."""
        found = self.routers.get(router)
        held = None if found is None else found.index.floating.get(address)
        return None if held is None else held[0]


def _marks(family: Family) -> ChainKey:
    return ChainKey(family=family, table="mangle", name="prerouting")
