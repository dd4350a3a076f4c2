"""Routers as observed on this host.  Pure values."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from attrs import field, frozen

from netfw.linux.iptables.chain import ChainKey
from netfw.linux.iptables.mirror import Mirror
from netfw.linux.iptables.rule import Family
from netfw.linux.service_netns.values import ObservedNetns
from netfw.model.address import IpAddress
from netfw.model.ids import FloatingIpId, PortId, RouterId
from netfw_drivers.linux_router.plan.contributed_ports import present_ports
from netfw_drivers.linux_router.plan.ended_connections import TranslatedAddresses, parse_ended
from netfw_drivers.linux_router.plan.floating_ip_rules import (
    Translation,
    by_address,
    parse_translations,
)
from netfw_drivers.linux_router.plan.marks import Scope, parse_scope_marks
from netfw_drivers.linux_router.plan.names import GATEWAY
from netfw_drivers.linux_router.plan.router_rules import parse_snat_addresses


@frozen(kw_only=True)
class FoundRadvd:
    """The radvd of a router, and its configuration."""

    text: str | None = None
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
    radvd: FoundRadvd = field(factory=FoundRadvd)
    ports: frozenset[PortId] = frozenset()
    """Its ports, as far as they are known: another program may have removed the namespace."""

    @property
    def is_absent(self) -> bool:
        return not self.netns.exists and self.radvd.is_absent

    @property
    def mirror(self) -> Mirror:
        return self.netns.rules or Mirror()

    @cached_property
    def translations(self) -> dict[FloatingIpId, Translation]:
        """The floating IPs whose rules are in force."""
        return parse_translations(self.mirror.chains)

    @cached_property
    def floating_ips(self) -> frozenset[FloatingIpId]:
        """The floating IPs that have rules here, or connections that are still to be removed."""
        return parse_floating_ips(self.mirror.chains)

    @cached_property
    def gateway_addresses(self) -> frozenset[IpAddress]:
        """The addresses on the device of the gateway."""
        device = self.gateway_device
        return frozenset(
            entry.address.interface.ip
            for entry in self.netns.addresses
            if entry.address.device == device
        )

    @cached_property
    def translated(self) -> TranslatedAddresses:
        """The addresses on the gateway, and what the rules in force translate them to."""
        return TranslatedAddresses(
            addresses=self.gateway_addresses,
            floating=by_address(self.translations),
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
class ObservedRouters:
    """The routers that concern an update."""

    routers: Mapping[RouterId, FoundRouter] = field(factory=dict)


def parse_floating_ips(chains: Mapping[ChainKey, tuple[str, ...]]) -> frozenset[FloatingIpId]:
    """Return the floating IPs that rules in force name."""
    ended = (each.floating_ip for each in parse_ended(chains))
    return frozenset({*parse_translations(chains), *(id for id in ended if id is not None)})


def _marks(family: Family) -> ChainKey:
    return ChainKey(family=family, table="mangle", name="prerouting")
