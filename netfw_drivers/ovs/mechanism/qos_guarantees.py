"""Whether a host keeps the guarantees of a QoS policy.  Pure.

The agent keeps bandwidth of what a port sends to a physical network whose bandwidth it reports.
Nothing in a switch keeps other guarantees; they hold where the compute service has reserved
resources of the host, which it writes into the binding profile.
"""

from __future__ import annotations

from collections.abc import Iterable

from netfw.drivers.values.qos_support import guarantees
from netfw.model.qos import MinimumBandwidth, QosRule, rule_direction, rule_type
from netfw.model.security_group import Direction
from netfw.model.segment import Provider
from netfw.model.values.json_document import JsonDocument
from netfw_drivers.ovs.mechanism.agent_config import AgentReport

ALLOCATION = "allocation"
"""Key of ``binding:profile`` for what the compute service has reserved."""


def guarantee_obstacle(
    rules: Iterable[QosRule], provider: Provider, report: AgentReport, profile: JsonDocument
) -> str:
    """Return which of *rules* the host does not keep on a segment; empty: it keeps all."""
    for rule in guarantees(rules):
        reason = _reason(rule, provider, report, profile)
        if reason:
            return f"rule {rule.id} ({rule_type(rule)}, {rule_direction(rule)}): {reason}"
    return ""


def _reason(rule: QosRule, provider: Provider, report: AgentReport, profile: JsonDocument) -> str:
    if not isinstance(rule, MinimumBandwidth) or rule.direction is not Direction.EGRESS:
        if profile.content().get(ALLOCATION):
            return ""
        return (
            "only a reservation of the compute service keeps it, and binding:profile has no "
            f"{ALLOCATION}"
        )
    name = provider.physical_network
    if name is None:
        return f"it is not kept on networks of type {provider.network_type}"
    most = report.egress_kbps.get(name)
    if most is None:
        return f"the resource_provider_bandwidths of the agent have no egress for {name}"
    if rule.min_kbps > most:
        return f"{rule.min_kbps} kbit/s exceed the {most} of {name}"
    return ""
