"""Rules that limit the bandwidth of addresses at the device that leads outside.  Pure.

The mangle table sees packets from outside before they are translated, by the outside address, and
packets to the outside before that as well, by the inside one.  What exceeds a limit is dropped.

``hashlimit`` counts the octets of IP packets.  It lets one second of the rate pass at once.  Rules
with the same name have one limit, the first one that was made: the name includes the rate.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator

from attrs import field, frozen

from netfw.drivers.values.router_contribution import AddressQos, RouterContribution
from netfw.linux.iptables.rule import DROP, RETURN, Family, IptablesMatch, IptablesRule, match
from netfw.model.qos import BandwidthLimit, QosRule
from netfw.model.security_group import Direction
from netfw.model.values.address import IpAddress

LIMIT_IN, LIMIT_OUT = "limit-in", "limit-out"
_OCTETS_OF_KILOBIT = 125
_FASTEST = 1 << 35
"""Octets a second: hashlimit cannot count faster."""
_WAYS = {Direction.INGRESS: "in", Direction.EGRESS: "out"}


@frozen(kw_only=True)
class LimitedAddress:
    """An address and its limits, in kilobits a second."""

    address: IpAddress
    fixed: IpAddress | None = None
    rates: dict[Direction, int] = field(factory=dict)

    def limit(self, direction: Direction) -> IptablesMatch | None:
        """Return the match of packets beyond the limit; ``None``: there is no limit."""
        kilobits = self.rates.get(direction, 0)
        if not kilobits:
            return None
        name = f"{_WAYS[direction]}-{self.address.packed.hex()}-{kilobits}"
        octets = min(kilobits * _OCTETS_OF_KILOBIT, _FASTEST)
        return match("hashlimit", hashlimit_above=f"{octets}b/s", hashlimit_name=name)


@frozen(kw_only=True)
class AddressLimits:
    """The limits of the addresses of one family."""

    addresses: tuple[LimitedAddress, ...] = ()
    gateway: IpAddress | None = None
    """The gateway's address."""
    snat: bool = False
    """What has no floating IP leaves with the gateway's address."""
    owner: Hashable = None

    def __bool__(self) -> bool:
        return any(each.rates for each in self.addresses)

    def incoming(self) -> Iterator[IptablesRule]:
        """Yield the rules for packets from outside."""
        for each in self.addresses:
            if limit := each.limit(Direction.INGRESS):
                yield self._rule(destination=each.address, matches=(limit,), target=DROP)

    def outgoing(self) -> Iterator[IptablesRule]:
        """Yield the rules for packets to the outside; those of the gateway's address are last."""
        own = next((each for each in self.addresses if each.address == self.gateway), None)
        rest = None if own is None else own.limit(Direction.EGRESS)
        for each in self.addresses:
            if each is own:
                continue
            of_address, known = _outgoing_match(each)
            if limit := each.limit(Direction.EGRESS):
                yield self._rule(**of_address, matches=(*known, limit), target=DROP)
            if rest is not None:
                yield self._rule(**of_address, matches=known, target=RETURN)
        if rest is not None and own is not None:
            source = {} if self.snat else {"source": own.address}
            yield self._rule(**source, matches=(rest,), target=DROP)

    def _rule(self, **fields: object) -> IptablesRule:
        return IptablesRule(**fields, owner=self.owner)  # type: ignore[arg-type]


def limited_addresses(
    contributions: Iterable[RouterContribution], family: Family
) -> tuple[LimitedAddress, ...]:
    """Return the addresses of one family with the limits that *contributions* set together."""
    found: dict[IpAddress, LimitedAddress] = {}
    for qos in (each for contribution in contributions for each in contribution.qos):
        if qos.address.version == family:
            known = found.get(qos.address)
            found[qos.address] = LimitedAddress(
                address=qos.address,
                fixed=qos.fixed_address or (known.fixed if known else None),
                rates={**(known.rates if known else {}), **_rates(qos)},
            )
    return tuple(found.values())


def unsupported_rules(contributions: Iterable[RouterContribution]) -> Iterator[QosRule]:
    """Yield the QoS rules of addresses that are no bandwidth limits."""
    for contribution in contributions:
        for qos in contribution.qos:
            yield from (rule for rule in qos.rules if not isinstance(rule, BandwidthLimit))


def _rates(qos: AddressQos) -> dict[Direction, int]:
    return {
        rule.direction: rule.max_kbps
        for rule in qos.rules
        if isinstance(rule, BandwidthLimit) and rule.max_kbps
    }


def _outgoing_match(each: LimitedAddress) -> tuple[dict[str, IpAddress], tuple[IptablesMatch, ...]]:
    """Return source and matches of what a floating IP sends.

    One that stands for no port as a whole has forwarded ports, and sends replies.
    """
    if each.fixed is not None:
        return {"source": each.fixed}, ()
    return {}, (match("conntrack", ctorigdst=str(each.address), ctdir="REPLY"),)
