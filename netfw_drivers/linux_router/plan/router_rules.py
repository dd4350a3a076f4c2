"""Rules of one router: translation, address scopes, metadata, contributions of extensions.  Pure.

Marks, and all that is decided by them, are in the mangle table: tables change one by one.

=============================  ==================================================================
chain                          contents
=============================  ==================================================================
mangle ``router-prerouting``   marks: from the gateway, metadata request, address scope; limits of
                               what comes from outside
mangle ``router-postrouting``  limits of what goes outside
mangle ``router-input``        protects the ports of the metadata proxy and of conntrackd, and the
                               addresses on the HA network
mangle ``router-output``       of a highly available router: drops what has no source address
mangle ``router-forward``      drops what would leave where it came from outside, and what the HA
                               network would carry
mangle ``router-scope``        drops what would get into another address scope untranslated
nat ``router-prerouting``      metadata redirect, then floating IPs
nat ``router-output``          floating IPs, for the router's own packets
nat ``router-postrouting``     of what leaves by the gateway, or came back from it without leaving
                               (hairpin): floating IPs, then ``router-snat``
=============================  ==================================================================

A local part of a distributed router has no gateway: floating IPs are translated on its link to the
agent gateway, and nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping
from ipaddress import ip_address

from attrs import field, frozen

from netfw.drivers.values.keys import FloatingIpKey, RouterKey
from netfw.drivers.values.router_contribution import (
    RouterContribution,
    RouterRule,
    RuleChain,
    RuleTable,
)
from netfw.linux.iptables.chain import Chain, ChainKey
from netfw.linux.iptables.quoting import Not
from netfw.linux.iptables.rule import (
    DROP,
    RETURN,
    Family,
    IptablesMatch,
    IptablesRule,
    Jump,
    Target,
    match,
    target,
)
from netfw.model.values.address import IpAddress, as_network, parse_ip
from netfw_drivers.linux_router.plan import floating_ip_rules as floating
from netfw_drivers.linux_router.plan.bandwidth_limits import (
    LIMIT_IN,
    LIMIT_OUT,
    AddressLimits,
    limited_addresses,
)
from netfw_drivers.linux_router.plan.contributed_rules import (
    PortDevices,
    chain_of,
    entered_chain,
    render_contributed,
)
from netfw_drivers.linux_router.plan.marks import (
    EXTERNAL,
    METADATA,
    Scope,
    ScopeMarks,
    mark_text,
    scope_comment,
    scope_text,
)
from netfw_drivers.linux_router.plan.names import HA, INTERFACE, OptionalRuleKey

METADATA_ADDRESSES: Mapping[Family, IpAddress] = {
    Family.IPV4: ip_address("169.254.169.254"),
    Family.IPV6: ip_address("fe80::a9fe:a9fe"),
}
_SCOPE, _SNAT = "scope", "snat"
_HTTP = 80
_DNATED = match("conntrack", ctstate="DNAT")
_SNAT_LINE = re.compile(r"-j SNAT --to-source (?P<address>\S+)(?: --random-fully)?")


@frozen(kw_only=True)
class RoutedDevice:
    """A device of a router, and the address scope of its network in one family."""

    name: str
    scope: Scope = None


@frozen(kw_only=True)
class GatewayDevice(RoutedDevice):
    """The device of a router's gateway."""

    address: IpAddress | None
    """Source address of translated packets; None: the gateway has none of this family."""
    snat: bool


@frozen(kw_only=True)
class RouterRules:
    """What the rules of a router in one family follow from."""

    key: RouterKey
    family: Family
    interfaces: tuple[RoutedDevice, ...] = ()
    gateway: GatewayDevice | None = None
    metadata_port: int | None = None
    random_fully: bool = False
    contributions: tuple[RouterContribution, ...] = ()
    is_ha: bool = False
    ha_addresses: tuple[IpAddress, ...] = ()
    """Addresses of this family on the HA network, also those of the active instance alone."""
    sync_port: int | None = None
    """Port of conntrackd, which listens at all addresses: for the HA network only."""
    scope_marks: ScopeMarks = field(factory=dict)
    devices: PortDevices = field(factory=dict)
    """Devices that rules of extensions can name by their ports."""
    link_device: str | None = None
    """Of a local part: the device of its link to an agent gateway, by which alone floating IPs are
    translated."""

    @property
    def float_chains(self) -> tuple[str, ...]:
        """Chains of floating IPs that the router has in this family."""
        if self.link_device is not None:
            return (floating.DNAT, floating.SNAT)
        if self.gateway is None or self.gateway.address is None:
            return ()
        both = (floating.DNAT, floating.SNAT)
        return (*both, floating.SCOPE) if self._guards_gateway else both

    @property
    def _has_scopes(self) -> bool:
        devices = (*self.interfaces, *([self.gateway] if self.gateway else []))
        return any(device.scope is not None for device in devices)

    @property
    def _guards_gateway(self) -> bool:
        """Whether packets of another scope leave by the gateway only if they are translated."""
        return self._has_scopes and self.gateway is not None and not self.gateway.snat

    @property
    def _outer(self) -> str | None:
        """The device that leads outside."""
        return self.link_device if self.gateway is None else self.gateway.name

    def chains(self) -> dict[ChainKey, Chain]:
        """Render the chains, without those of floating IPs."""
        hooked = {
            (RuleTable.MANGLE, RuleChain.PREROUTING): [*self._marks()],
            (RuleTable.MANGLE, RuleChain.INPUT): [*self._guard_input()],
            (RuleTable.MANGLE, RuleChain.FORWARD): [*self._guard_forwarding()],
            (RuleTable.MANGLE, RuleChain.OUTPUT): [*self._silence()],
            (RuleTable.NAT, RuleChain.PREROUTING): [*self._redirect()],
        }
        chains: dict[tuple[RuleTable, str], list[IptablesRule]] = {}
        for (table, name, entry), rules in self._extensions().items():
            chains[table, name] = rules
            if entry is not None:
                hooked.setdefault((table, entry), []).append(self._rule(target=Jump(name)))
        for chain, jump, limited in self._limits():
            chains[RuleTable.MANGLE, jump.chain] = limited
            is_in = chain is RuleChain.PREROUTING
            enter = self._rule(
                in_device=self._outer if is_in else None,
                out_device=None if is_in else self._outer,
                target=jump,
            )
            hooked.setdefault((RuleTable.MANGLE, chain), []).append(enter)
        for hook, rules in self._translation():
            hooked.setdefault(hook, []).extend(rules)
        if self._has_scopes:
            chains[RuleTable.MANGLE, _SCOPE] = [*self._scopes()]
        if self.float_chains and self.gateway is not None:
            chains[RuleTable.NAT, _SNAT] = [*self._snat()]
        rendered = {self._key(*name): Chain(tuple(rules)) for name, rules in chains.items()}
        for (table, chain), rules in hooked.items():
            if rules:
                key = self._key(table, chain.lower())
                rendered[key] = Chain(tuple(rules), hooks=frozenset({chain}))
        return rendered

    def _key(self, table: RuleTable, name: str) -> ChainKey:
        return ChainKey(family=self.family, table=table.value, name=name)

    def _rule(
        self,
        *,
        target: Target | Jump,
        matches: tuple[IptablesMatch, ...] = (),
        in_device: str | None = None,
        out_device: str | Not[str] | None = None,
        comment: str = "",
    ) -> IptablesRule:
        return IptablesRule(
            target=target,
            matches=matches,
            in_device=in_device,
            out_device=out_device,
            comment=comment,
            owner=self.key,
        )

    def _guard_forwarding(self) -> Iterator[IptablesRule]:
        """Drop what came from outside and would leave again, such as packets to former floating
        IPs, what would get into another address scope, and what would get into the HA network."""
        if self.is_ha:
            yield self._rule(out_device=f"{HA}+", target=DROP)
            yield self._rule(in_device=f"{HA}+", target=DROP)
        outer = self._outer
        if outer is not None:
            untranslated = match("conntrack", ctstate=Not("DNAT"))
            yield self._rule(
                in_device=outer, out_device=outer, matches=(untranslated,), target=DROP
            )
        if self._has_scopes:
            yield self._rule(target=Jump(_SCOPE))

    def _guard_election(self) -> Iterator[IptablesRule]:
        """Drop what does not come from the HA network and is for an address there."""
        for address in self.ha_addresses:
            yield IptablesRule(
                destination=address, in_device=Not(f"{HA}+"), target=DROP, owner=self.key
            )

    def _silence(self) -> Iterator[IptablesRule]:
        """Drop what the kernel sends without an address, or with that of the loopback: multicast
        listener reports of a standby instance would have switches send frames for the shared MAC
        address to it, and answers for proxied addresses would have neighbours do so."""
        if self.is_ha and self.family is Family.IPV6:
            yield IptablesRule(source=as_network("::/128"), target=DROP, owner=self.key)
            if any(each.proxied for each in self.contributions):
                loopback, elsewhere = as_network("::1/128"), Not("lo")
                yield IptablesRule(
                    source=loopback, out_device=elsewhere, target=DROP, owner=self.key
                )

    def _marks(self) -> Iterator[IptablesRule]:
        if self.gateway is not None:
            mark = target("MARK", set_xmark=mark_text(EXTERNAL))
            yield self._rule(in_device=self.gateway.name, target=mark)
        if self.metadata_port is not None:
            yield self._to_metadata(target("MARK", set_xmark=mark_text(METADATA)))
        if self._has_scopes:
            for device in self._devices():
                mark = target("MARK", set_xmark=scope_text(self.scope_marks[device.scope]))
                comment = scope_comment(device.scope)
                yield self._rule(in_device=device.name, comment=comment, target=mark)

    def _devices(self) -> Iterator[RoutedDevice]:
        yield from self.interfaces
        if self.gateway is not None:
            yield self.gateway

    def _to_metadata(self, target: Target) -> IptablesRule:
        return IptablesRule(
            destination=METADATA_ADDRESSES[self.family],
            in_device=f"{INTERFACE}+",
            protocol="tcp",
            matches=(match("tcp", dport=_HTTP),),
            target=target,
            owner=self.key,
        )

    def _redirect(self) -> Iterator[IptablesRule]:
        if self.metadata_port is not None:
            yield self._to_metadata(target("REDIRECT", to_ports=self.metadata_port))

    def _guard_proxy(self) -> Iterator[IptablesRule]:
        if self.metadata_port is not None:
            yield IptablesRule(
                protocol="tcp",
                matches=(
                    match("tcp", dport=self.metadata_port),
                    match("mark", mark=Not(mark_text(METADATA))),
                ),
                target=DROP,
                owner=self.key,
            )

    def _guard_input(self) -> Iterator[IptablesRule]:
        yield from self._guard_election()
        yield from self._guard_proxy()
        yield from self._guard_sync()

    def _guard_sync(self) -> Iterator[IptablesRule]:
        if self.sync_port is not None and self.family is Family.IPV4:
            yield IptablesRule(
                in_device=Not(f"{HA}+"),
                protocol="udp",
                matches=(match("udp", dport=self.sync_port),),
                target=DROP,
                owner=self.key,
            )

    def _scopes(self) -> Iterator[IptablesRule]:
        yield self._rule(matches=(match("conntrack", ctstate="SNAT,DNAT"),), target=RETURN)
        guarded: list[RoutedDevice] = [*self.interfaces]
        if self._guards_gateway and self.gateway is not None:
            guarded.append(self.gateway)
            if floating.SCOPE in self.float_chains:
                jump = Jump(floating.SCOPE)
                yield self._rule(out_device=self.gateway.name, target=jump)
        for device in guarded:
            other = match("mark", mark=Not(scope_text(self.scope_marks[device.scope])))
            yield self._rule(out_device=device.name, matches=(other,), target=DROP)

    def _translation(self) -> Iterator[tuple[tuple[RuleTable, RuleChain], list[IptablesRule]]]:
        if self.link_device is not None:
            to_port = self._rule(in_device=self.link_device, target=Jump(floating.DNAT))
            from_port = self._rule(out_device=self.link_device, target=Jump(floating.SNAT))
            yield (RuleTable.NAT, RuleChain.PREROUTING), [to_port]
            yield (RuleTable.NAT, RuleChain.POSTROUTING), [from_port]
        if not self.float_chains or self.gateway is None:
            return
        for chain in (RuleChain.PREROUTING, RuleChain.OUTPUT):
            yield (RuleTable.NAT, chain), [self._rule(target=Jump(floating.DNAT))]
        from_outside = match("mark", mark=mark_text(EXTERNAL))
        stays = match("conntrack", ctstate=Not("DNAT"))
        yield (
            (RuleTable.NAT, RuleChain.POSTROUTING),
            [
                self._rule(matches=(from_outside,), target=RETURN),
                self._rule(out_device=Not(self.gateway.name), matches=(stays,), target=RETURN),
                self._rule(target=Jump(floating.SNAT)),
                self._rule(target=Jump(_SNAT)),
            ],
        )

    def _snat(self) -> Iterator[IptablesRule]:
        """Translate to the gateway's address; without SNAT, only what came back (hairpin)."""
        gateway = self.gateway
        assert gateway is not None, "it has chains of floating IPs"
        if gateway.snat and gateway.scope is not None:
            same = match("mark", mark=scope_text(self.scope_marks[gateway.scope]))
            yield self._rule(out_device=gateway.name, matches=(same,), target=RETURN)
        random = {"random_fully": True} if self.random_fully else {}
        to_source = target("SNAT", to_source=str(gateway.address), **random)
        yield self._rule(matches=() if gateway.snat else (_DNATED,), target=to_source)

    def _limits(self) -> Iterator[tuple[RuleChain, Jump, list[IptablesRule]]]:
        """Yield built-in chains, and the chains of limits that they enter."""
        if self._outer is None:
            return
        gateway = self.gateway
        limits = AddressLimits(
            addresses=limited_addresses(self.contributions, self.family),
            gateway=None if gateway is None else gateway.address,
            snat=gateway is not None and gateway.snat,
            owner=self.key,
        )
        if limits:
            yield RuleChain.PREROUTING, Jump(LIMIT_IN), [*limits.incoming()]
            yield RuleChain.POSTROUTING, Jump(LIMIT_OUT), [*limits.outgoing()]

    def _extensions(self) -> dict[tuple[RuleTable, str, RuleChain | None], list[IptablesRule]]:
        """Return the rules of extensions by table, chain, and what the chain is entered from."""
        found: dict[tuple[RuleTable, str, RuleChain | None], list[IptablesRule]] = {}
        for contribution in self.contributions:
            for rule in contribution.rules:
                text = render_contributed(rule, self.devices)
                if rule.ip_version == self.family and text is not None:
                    entry = None if rule.subchain else rule.chain
                    key = rule.table, chain_of(rule, contribution.owner), entry
                    entered = entered_chain(rule, contribution.owner)
                    if entered is not None:
                        found.setdefault((rule.table, entered, None), [])
                    found.setdefault(key, []).append(self._contributed(rule, text, entered))
        return found

    def _contributed(self, rule: RouterRule, text: str, entered: str | None) -> IptablesRule:
        own = rule.floating_ip
        owner: Hashable = self.key if own is None else FloatingIpKey(own)
        if rule.subject:
            owner = OptionalRuleKey(self.key.router, rule.subject)
        if entered is None:
            return IptablesRule(target=Target("extension", text), owner=owner)
        matches = (IptablesMatch("extension", text),) if text else ()
        return IptablesRule(matches=matches, target=Jump(entered), owner=owner)


def parse_snat_addresses(chains: Mapping[ChainKey, tuple[str, ...]]) -> frozenset[IpAddress]:
    """Return the addresses with which rules in force have instances leave.

    Rules of another program with a range, say, have none.
    """
    keys = (ChainKey(family=family, table=RuleTable.NAT.value, name=_SNAT) for family in Family)
    lines = (line for key in keys for line in chains.get(key, ()))
    found = (each for line in lines if (each := _SNAT_LINE.fullmatch(line)) is not None)
    parsed = (parse_ip(each["address"]) for each in found)
    return frozenset(each for each in parsed if each is not None)
