"""Connections whose translation changes: which ones end, and the record of them.  Pure.

A connection keeps the translation of its first packet, also if there was none, so the connections
of a changed translation are removed after the rules have changed.  A driver that is killed in
between leaves a record of them:

- The connections of an address that a whole plain router loses are removed with it, after its
  rules.  The record is the address itself.
- Others, such as those of an address that keepalived removes, are named in the chain ``ended``,
  which no packet enters, with the floating IP that they belong to.  The restore that changes the
  rules adds it, and it is removed after the connections.

Whatever a plan finds in that chain, it removes again.  Without such a change, there is no chain.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from ipaddress import ip_network
from itertools import pairwise
from uuid import UUID

from attrs import field, frozen

from netfw.drivers.values.keys import FloatingIpKey
from netfw.drivers.values.router_values import RouterDriverKey
from netfw.errors import InvalidInput
from netfw.linux.iptables.chain import Chain, ChainKey
from netfw.linux.iptables.operations import DropChain, TableChange
from netfw.linux.iptables.rule import RETURN, Family, IptablesRule, match
from netfw.linux.service_netns.steps import RemoveConnections, RestoreTables, Step
from netfw.model.values.address import IpAddress
from netfw.model.values.ids import FloatingIpId
from netfw.model.values.port_range import PortRange
from netfw.plan import Operation, Stage
from netfw_drivers.linux_router.plan.contributed_dnat import TranslatedPorts, parse_ports
from netfw_drivers.linux_router.plan.floating_ip_rules import COMMENT, Translations
from netfw_drivers.linux_router.plan.names import CHAIN_OWNER, PartId, part_key

_CHAINS = {family: ChainKey(family=family, table="nat", name="ended") for family in Family}


@frozen
class EndedConnections:
    """The connections of an address that end; with *ports*, only those to these ports of it."""

    address: IpAddress
    protocol: str | None = None
    ports: PortRange | None = None
    floating_ip: FloatingIpId | None = field(default=None, eq=False)
    """The floating IP that has the address, or had it."""

    @property
    def family(self) -> Family:
        return Family(self.address.version)

    def owner(self, router: PartId) -> RouterDriverKey:
        """Return the key that fails if the removal is refused."""
        return part_key(router) if self.floating_ip is None else FloatingIpKey(self.floating_ip)


@frozen(kw_only=True)
class TranslatedAddresses:
    """The addresses on the gateway of a router, and what its rules translate them to."""

    addresses: Collection[IpAddress] = frozenset()
    """All addresses on the gateway."""
    floating: Mapping[IpAddress, tuple[FloatingIpId, IpAddress]] = field(factory=dict)
    """By floating address: the floating IP, and the address of its port."""
    ports: frozenset[TranslatedPorts] = frozenset()
    snat: frozenset[IpAddress] = frozenset()
    """Source addresses of connections of instances without a floating IP."""

    @property
    def translated(self) -> frozenset[IpAddress]:
        """Addresses that a rule translates."""
        return frozenset({*self.floating, *(each.address for each in self.ports)})

    def fixed(self, address: IpAddress) -> IpAddress | None:
        """Return the address of the port of a floating address."""
        found = self.floating.get(address)
        return None if found is None else found[1]


def find_ended(
    before: TranslatedAddresses, after: TranslatedAddresses, own: Collection[IpAddress] = ()
) -> Iterator[EndedConnections]:
    """Find the connections that end when the translations change, except those that end with their
    address.

    An address on the gateway without rules may have connections of a former translation, unless it
    is one of the router's *own*.
    """
    known = before.translated
    ports = after.ports ^ before.ports
    whole = {
        address
        for address in {*before.floating, *after.floating}
        if before.fixed(address) != after.fixed(address)
    }
    whole |= {each.address for each in ports} - known - {*own}
    if not after.snat:
        whole |= before.snat & {*after.addresses}
    for address in whole:
        if _stays(address, known, before, after):
            id, _ = after.floating.get(address) or before.floating.get(address) or (None, None)
            yield EndedConnections(address, floating_ip=id)
    for each in ports:
        if each.address not in whole and _stays(each.address, known, before, after):
            yield EndedConnections(each.address, each.protocol, each.ports)


def find_lost(
    before: TranslatedAddresses, after: TranslatedAddresses
) -> Iterator[EndedConnections]:
    """Find the connections that end when keepalived removes addresses from the gateway."""
    for address in {*before.addresses} - {*after.addresses}:
        if not address.is_link_local:
            id, _ = before.floating.get(address) or (None, None)
            yield EndedConnections(address, floating_ip=id)


def find_gained(before: Translations, after: Translations) -> Iterator[EndedConnections]:
    """Find the connections of ports of a local part that get a floating IP.

    They leave by another way from now on, where their source address would not be translated.
    """
    for id, each in after.items():
        if before.get(id) != each:
            yield EndedConnections(each.fixed, floating_ip=id)


def _stays(
    address: IpAddress,
    known: Collection[IpAddress],
    before: TranslatedAddresses,
    after: TranslatedAddresses,
) -> bool:
    """Return whether the address may have connections, and is not removed with them."""
    if address in before.addresses:
        return address in after.addresses
    return address in known or address in before.snat


def render_ended(router: PartId, ended: Iterable[EndedConnections]) -> dict[ChainKey, Chain]:
    """Render the record of *ended*."""
    rules: dict[Family, list[IptablesRule]] = {}
    for each in sorted(set(ended), key=str):
        ports = () if each.ports is None else (match(str(each.protocol), dport=_text(each.ports)),)
        rule = IptablesRule(
            destination=each.address,
            protocol=each.protocol,
            matches=ports,
            comment="" if each.floating_ip is None else f"{COMMENT}{each.floating_ip}",
            target=RETURN,
            owner=each.owner(router),
        )
        rules.setdefault(each.family, []).append(rule)
    return {_CHAINS[family]: Chain(tuple(several)) for family, several in rules.items()}


def parse_ended(chains: Mapping[ChainKey, tuple[str, ...]]) -> Iterator[EndedConnections]:
    """Yield the connections that a driver was about to remove when it was killed."""
    for key in _CHAINS.values():
        for line in chains.get(key, ()):
            options = dict(pairwise(line.split()))
            comment = options.get("--comment", "").strip('"').removeprefix(COMMENT)
            try:
                address = ip_network(options["-d"]).network_address
                ports = parse_ports(options["--dport"]) if "--dport" in options else None
                id = FloatingIpId(UUID(comment)) if comment else None
            except (KeyError, ValueError, InvalidInput):
                continue
            yield EndedConnections(address, options.get("-p"), ports, id)


def plan_removals(router: PartId, netns: str, ended: Iterable[EndedConnections]) -> Iterator[Stage]:
    """Plan the removal of connections, then of the record of them."""
    every = sorted(set(ended), key=str)
    removals = [
        _operation(
            RemoveConnections(netns, each.address, each.protocol, each.ports), [each.owner(router)]
        )
        for each in every
    ]
    if removals:
        yield Stage(removals)
    changes = tuple(
        TableChange(family, "nat", (DropChain(_CHAINS[family]),))
        for family in sorted({each.family for each in every})
    )
    if changes:
        owners = {each.owner(router) for each in every}
        yield Stage([_operation(RestoreTables(netns, CHAIN_OWNER, changes), owners)])


def _text(ports: PortRange) -> str:
    return str(ports) if len(ports) > 1 else str(ports.first)


def _operation(step: Step, owners: Iterable[RouterDriverKey]) -> Operation:
    return Operation(step.backend, step.text, frozenset(owners), step)
