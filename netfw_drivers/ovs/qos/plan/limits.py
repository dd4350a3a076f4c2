"""The limits of a port, as its policy and that of its network set them.  Pure."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import frozen

from netfw.drivers.l2_extension import ExtendedPort
from netfw.drivers.values.qos_support import effective_policy
from netfw.model.qos import (
    BandwidthLimit,
    DscpMarking,
    MinimumBandwidth,
    PacketRateLimit,
    QosPolicy,
    QosRule,
)
from netfw.model.security_group import Direction

DEFAULT_BURST = 0.4
"""Burst of a rule that sets none, in seconds of its rate.  A TCP connection that lost packets waits
0.2 seconds; with a burst of less it does not reach the rate."""
SMALLEST_BURST_KILOBITS = 80
"""A jumbo frame has to fit, or none passes at all."""
SMALLEST_BURST_PACKETS = 10
_LARGEST = (1 << 32) - 1
_THOUSAND = 1000


@frozen
class Rate:
    """A rate and its burst: kilobits, or packets."""

    rate: int
    burst: int


@frozen(kw_only=True)
class PortLimits:
    """What a policy does to the packets of a port."""

    bits: dict[Direction, Rate]
    packets: dict[Direction, Rate]
    dscp: int | None = None
    guaranteed_kbps: int = 0
    """Of what the port sends."""

    def __bool__(self) -> bool:
        return bool(self.bits or self.packets or self.dscp is not None)


def policy_of(view: ExtendedPort) -> QosPolicy | None:
    """Return the policy of a port, if it is known."""
    wanted = effective_policy(view.port, view.network)
    policies = (each for each in view.related if isinstance(each, QosPolicy))
    return next((each for each in policies if each.id == wanted), None)


def make_limits(rules: Iterable[QosRule]) -> PortLimits:
    """Return the limits that *rules* set; a rate of 0 is no limit."""
    bits: dict[Direction, Rate] = {}
    packets: dict[Direction, Rate] = {}
    dscp: int | None = None
    guaranteed = 0
    for rule in rules:
        match rule:
            case BandwidthLimit(max_kbps=rate, max_burst_kbps=burst) if rate:
                bits[rule.direction] = _rate(rate, burst, SMALLEST_BURST_KILOBITS)
            case PacketRateLimit(max_kpps=rate, max_burst_kpps=burst) if rate:
                thousands = rate * _THOUSAND, burst * _THOUSAND
                packets[rule.direction] = _rate(*thousands, SMALLEST_BURST_PACKETS)
            case DscpMarking():
                dscp = rule.dscp_mark
            case MinimumBandwidth(direction=Direction.EGRESS):
                guaranteed = rule.min_kbps
    return PortLimits(bits=bits, packets=packets, dscp=dscp, guaranteed_kbps=guaranteed)


def _rate(rate: int, burst: int, smallest: int) -> Rate:
    wanted = burst or round(rate * DEFAULT_BURST)
    return Rate(min(rate, _LARGEST), min(max(wanted, smallest), _LARGEST))
