"""SupportedQosRule: the QoS rules of one type that a driver enforces; the policy of a port."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import field, frozen

from netfw.model.network import Network
from netfw.model.port import Port
from netfw.model.qos import (
    AnyDirection,
    MinimumBandwidth,
    MinimumPacketRate,
    QosRule,
    QosRuleType,
    rule_direction,
    rule_type,
)
from netfw.model.values.device_owner import is_trusted
from netfw.model.values.ids import QosPolicyId

BOTH = frozenset({AnyDirection.INGRESS, AnyDirection.EGRESS})


def _directions(given: Iterable[AnyDirection]) -> frozenset[AnyDirection]:
    return frozenset(given)


@frozen(kw_only=True)
class SupportedQosRule:
    """A type of QoS rules that a driver enforces, and in which directions."""

    type: QosRuleType
    directions: frozenset[AnyDirection] = field(default=BOTH, converter=_directions)

    def covers(self, rule: QosRule) -> bool:
        """Return whether the driver enforces *rule*."""
        return rule_type(rule) is self.type and rule_direction(rule) in self.directions


def guarantees(rules: Iterable[QosRule]) -> tuple[MinimumBandwidth | MinimumPacketRate, ...]:
    """Return the rules that need something of the host of a port."""
    return tuple(rule for rule in rules if isinstance(rule, MinimumBandwidth | MinimumPacketRate))


def effective_policy(port: Port, network: Network) -> QosPolicyId | None:
    """Return the policy of *port*: its own, else that of its network.

    Ports of the network itself, such as those of routers and DHCP servers, have only their own.
    """
    if port.qos_policy_id is not None or is_trusted(port.device_owner):
        return port.qos_policy_id
    return network.qos_policy_id
