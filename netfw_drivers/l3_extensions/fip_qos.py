"""FloatingIpQosExtension: limits the bandwidth of floating IPs by their QoS policies."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import ClassVar

from netfw.drivers.l3_extension import ExtendedRouter
from netfw.drivers.values.pipeline_grant import Grant
from netfw.drivers.values.router_contribution import AddressQos, RouterContribution
from netfw.model import l3_extensions
from netfw.model.floating_ip import FloatingIp
from netfw.model.values.ids import RouterId
from netfw_drivers.l3_extensions.address_qos import find_policy, gateway_here, split_rules
from netfw_drivers.l3_extensions.optionless import OptionlessExtension

LOG = logging.getLogger(__name__)


class FloatingIpQosExtension(OptionlessExtension):
    """Limits what floating IPs receive from outside and send there, each by its own policy.

    Rules that are no bandwidth limits have no effect, and are reported in the log.
    """

    NAME: ClassVar[str] = l3_extensions.FIP_QOS

    def contribute(
        self, key: RouterId, value: ExtendedRouter, grant: Grant
    ) -> RouterContribution | None:
        qos = tuple(_limits(value))
        return RouterContribution(owner=grant.owner, qos=qos) if qos else None


def _limits(value: ExtendedRouter) -> Iterator[AddressQos]:
    """Yield the limits of the floating IPs that this host has.

    One without a fixed address has forwarded ports, and is at the gateway.
    """
    has_gateway = gateway_here(value) is not None
    for floating in value.related:
        if not isinstance(floating, FloatingIp):
            continue
        policy = find_policy(floating.qos_policy_id, value.related)
        fixed = floating.fixed_address
        is_here = has_gateway or (fixed is not None and value.state.local is not None)
        if policy is None or not is_here:
            continue
        limits, others = split_rules(policy.rules)
        for rule in others:
            LOG.warning(
                "floating IP %s: rule %s of QoS policy %s has no effect on floating IPs: %s",
                floating.id, rule.id, policy.id, type(rule).__name__,
            )  # fmt: skip
        if limits:
            yield AddressQos(address=floating.address, fixed_address=fixed, rules=limits)
