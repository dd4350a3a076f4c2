"""SupportedQosRule: the QoS rules of one type that a driver enforces."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import field, frozen

from netfw.model.qos import AnyDirection, QosRule, QosRuleType, rule_direction, rule_type

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
