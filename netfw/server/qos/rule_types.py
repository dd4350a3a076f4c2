"""RuleTypeHandler: the types of QoS rules, and the drivers that enforce them."""

from __future__ import annotations

from typing import Any, ClassVar

from attrs import evolve

from netfw.drivers.server.query import Body, Query, RequestContext
from netfw.drivers.values.qos_support import SupportedQosRule
from netfw.errors import Forbidden, NotFound
from netfw.model.qos import DSCP_MARKS, RATES, QosRuleType
from netfw.server.core.qos_support import QosSupport
from netfw.server.core.resource_handler import Reader, ResourceHandler, apply_query

ALL_SUPPORTED, ALL_RULES = "all_supported", "all_rules"
PARAMETERS = {
    QosRuleType.BANDWIDTH_LIMIT: ("max_kbps", "max_burst_kbps"),
    QosRuleType.DSCP_MARKING: (),
    QosRuleType.MINIMUM_BANDWIDTH: ("min_kbps",),
    QosRuleType.MINIMUM_PACKET_RATE: ("min_kpps",),
    QosRuleType.PACKET_RATE_LIMIT: ("max_kpps", "max_burst_kpps"),
}
"""The rates of the rules of each type."""


class RuleTypeHandler(ResourceHandler):
    """The types of rules that the loaded drivers enforce, read-only."""

    name: ClassVar[str] = "rule_type"

    def __init__(self, support: QosSupport) -> None:
        self._support = support

    def find(self, reader: Reader, requester: RequestContext, query: Query) -> tuple[Body, ...]:
        """Return the types that all drivers enforce; by a filter those that any does, or all."""
        filters = dict(query.filters)
        if True in filters.pop(ALL_RULES, ()):
            filters.pop(ALL_SUPPORTED, None)
            types = frozenset(QosRuleType)
        else:
            types = self._support.types(by_any=True in filters.pop(ALL_SUPPORTED, ()))
        bodies = [{"type": each.value} for each in sorted(types)]
        return apply_query(bodies, evolve(query, filters=filters), identity="type")

    def show(self, reader: Reader, requester: RequestContext, id: str) -> Body:
        if not requester.admin:
            raise Forbidden("only administrators see the drivers of a type of QoS rules")
        if id not in self._support.types(by_any=True):
            raise NotFound(f"no driver enforces QoS rules of a type {id[:80]!r}")
        drivers = [
            {"name": driver, "supported_parameters": _parameters(each)}
            for driver, rules in self._support.drivers.items()
            for each in rules
            if each.type == id
        ]
        return {"type": id, "drivers": drivers}


def _parameters(supported: SupportedQosRule) -> list[dict[str, Any]]:
    if supported.type is QosRuleType.DSCP_MARKING:
        return [_choices("dscp_mark", sorted(DSCP_MARKS))]
    rates = [
        {
            "parameter_name": name,
            "parameter_type": "range",
            "parameter_values": {"start": RATES.start, "end": RATES.stop - 1},
        }
        for name in PARAMETERS[supported.type]
    ]
    return [*rates, _choices("direction", sorted(supported.directions))]


def _choices(name: str, values: list[Any]) -> dict[str, Any]:
    return {
        "parameter_name": name,
        "parameter_type": "choices",
        "parameter_values": values,
    }
