"""GatewayIpQosExtension: limits the bandwidth of gateways' addresses by their QoS policies."""

from __future__ import annotations

import logging
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


class GatewayIpQosExtension(OptionlessExtension):
    """Limits what the gateway's own addresses receive from outside and send there.

    What floating IPs receive and send does not count.  Rules that are no bandwidth limits have no
    effect, and are reported in the log.
    """

    NAME: ClassVar[str] = l3_extensions.GATEWAY_IP_QOS

    def contribute(
        self, key: RouterId, value: ExtendedRouter, grant: Grant
    ) -> RouterContribution | None:
        gateway, external = gateway_here(value), value.router.gateway
        if gateway is None or external is None:
            return None
        policy = find_policy(external.qos_policy_id, value.related)
        if policy is None:
            return None
        limits, others = split_rules(policy.rules)
        for rule in others:
            LOG.warning(
                "router %s: rule %s of QoS policy %s has no effect on gateways: %s",
                key, rule.id, policy.id, type(rule).__name__,
            )  # fmt: skip
        if not limits:
            return None
        own = (AddressQos(address=each.ip, rules=limits) for each in gateway.port.addresses)
        floating = (each for each in value.related if isinstance(each, FloatingIp))
        apart = (AddressQos(address=f.address, fixed_address=f.fixed_address) for f in floating)
        return RouterContribution(owner=grant.owner, qos=(*own, *apart))
