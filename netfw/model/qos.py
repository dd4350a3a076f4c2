"""QoS policies and their rules."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from attrs import field, frozen

from netfw.model.security_group import Direction
from netfw.model.values.common_fields import Named
from netfw.model.values.ids import QosPolicyId, QosRuleId
from netfw.model.values.validation import Problem, Validated, outside, repeated

RATES = range(2**31)
DSCP_MARKS = frozenset({0, *range(8, 41, 2), 46, 48, 56})
"""The API's code points: best effort, class selectors, assured and expedited forwarding."""


class QosRuleType(enum.StrEnum):
    """The type of a rule, by its name in the API."""

    BANDWIDTH_LIMIT = "bandwidth_limit"
    DSCP_MARKING = "dscp_marking"
    MINIMUM_BANDWIDTH = "minimum_bandwidth"
    MINIMUM_PACKET_RATE = "minimum_packet_rate"
    PACKET_RATE_LIMIT = "packet_rate_limit"


class AnyDirection(enum.StrEnum):
    """The direction of guarantees that cover both directions together."""

    ANY = "any"
    INGRESS = "ingress"
    EGRESS = "egress"


@frozen(kw_only=True)
class BandwidthLimit(Validated):
    """A maximum in kilobits per second, with bursts of so many kilobits."""

    id: QosRuleId
    max_kbps: int
    max_burst_kbps: int = 0
    direction: Direction = Direction.EGRESS

    def _problems(self) -> Iterator[Problem]:
        yield from _rate_problems(max_kbps=self.max_kbps, max_burst_kbps=self.max_burst_kbps)


@frozen(kw_only=True)
class MinimumBandwidth(Validated):
    """A guaranteed minimum in kilobits per second."""

    id: QosRuleId
    min_kbps: int
    direction: Direction = Direction.EGRESS

    def _problems(self) -> Iterator[Problem]:
        yield from _rate_problems(min_kbps=self.min_kbps)


@frozen(kw_only=True)
class PacketRateLimit(Validated):
    """A maximum in thousands of packets per second."""

    id: QosRuleId
    max_kpps: int
    max_burst_kpps: int = 0
    direction: Direction = Direction.EGRESS

    def _problems(self) -> Iterator[Problem]:
        yield from _rate_problems(max_kpps=self.max_kpps, max_burst_kpps=self.max_burst_kpps)


@frozen(kw_only=True)
class MinimumPacketRate(Validated):
    """A guaranteed minimum in thousands of packets per second."""

    id: QosRuleId
    min_kpps: int
    direction: AnyDirection = AnyDirection.EGRESS

    def _problems(self) -> Iterator[Problem]:
        yield from _rate_problems(min_kpps=self.min_kpps)


@frozen(kw_only=True)
class DscpMarking(Validated):
    """A DSCP mark on every packet that leaves."""

    id: QosRuleId
    dscp_mark: int

    def _problems(self) -> Iterator[Problem]:
        if self.dscp_mark not in DSCP_MARKS:
            yield "dscp_mark", f"{self.dscp_mark} is none of {sorted(DSCP_MARKS)}"


QosRule = BandwidthLimit | MinimumBandwidth | PacketRateLimit | MinimumPacketRate | DscpMarking
RULE_TYPES: Mapping[type[QosRule], QosRuleType] = MappingProxyType(
    {
        BandwidthLimit: QosRuleType.BANDWIDTH_LIMIT,
        DscpMarking: QosRuleType.DSCP_MARKING,
        MinimumBandwidth: QosRuleType.MINIMUM_BANDWIDTH,
        MinimumPacketRate: QosRuleType.MINIMUM_PACKET_RATE,
        PacketRateLimit: QosRuleType.PACKET_RATE_LIMIT,
    }
)


def rule_type(rule: QosRule) -> QosRuleType:
    """Return the type of *rule*."""
    return RULE_TYPES[type(rule)]


def rule_direction(rule: QosRule) -> AnyDirection:
    """Return the direction of *rule*; marks are on packets that leave."""
    if isinstance(rule, DscpMarking):
        return AnyDirection.EGRESS
    return AnyDirection(rule.direction.value)


@frozen(kw_only=True)
class QosPolicy(Named):
    """Rules for the traffic of the ports and networks that name the policy."""

    id: QosPolicyId
    rules: tuple[QosRule, ...] = field(default=(), converter=tuple[QosRule, ...])
    shared: bool = False
    is_default: bool = False

    def _problems(self) -> Iterator[Problem]:
        for at in repeated(tuple(_purpose(rule) for rule in self.rules)):
            yield f"rules[{at}]", "a second rule for the same thing"
        for at in repeated(tuple(rule.id for rule in self.rules)):
            yield f"rules[{at}]", "has the id of another rule"
        limits = {r.direction: r.max_kbps for r in self.rules if isinstance(r, BandwidthLimit)}
        for at, rule in enumerate(self.rules):
            if isinstance(rule, MinimumBandwidth):
                most = limits.get(rule.direction)
                if most is not None and rule.min_kbps > most:
                    yield f"rules[{at}]", f"guarantees {rule.min_kbps} kbit/s of at most {most}"


def _purpose(rule: QosRule) -> tuple[type, str | None]:
    return type(rule), None if isinstance(rule, DscpMarking) else rule.direction.value


def _rate_problems(**rates: int) -> Iterator[Problem]:
    for name, rate in rates.items():
        if rate not in RATES:
            yield name, outside(rate, RATES)
