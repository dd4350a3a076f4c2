"""QosExtension: limits and marks the packets of ports by their QoS policies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from netfw.drivers.base import Capability, DriverInfo, HostResources
from netfw.drivers.l2_extension import ExtendedPort, L2Extension
from netfw.drivers.values.pipeline_grant import Grant, GrantRequest
from netfw.drivers.values.switch_contribution import SwitchContribution
from netfw.model.values.ids import PortId
from netfw_drivers.ovs.qos.plan.flows import METERS, TABLES, port_flows
from netfw_drivers.ovs.qos.plan.limits import make_limits, policy_of

NAME = "qos"


class QosExtension(L2Extension):
    """Limits bandwidth and packets of ports in both directions, and marks packets that they send.

    The switch has a meter for each limit, and guarantees bandwidth to what a port sends.  Other
    guarantees are kept by the choice of the host alone.
    """

    VERSION: ClassVar[int] = 2

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        return cls()

    def describe(self) -> DriverInfo[Capability]:
        return DriverInfo(NAME)

    def grant_request(self) -> GrantRequest:
        return GrantRequest(owner=NAME, tables=TABLES, meters=METERS)

    def contribute(
        self, key: PortId, value: ExtendedPort, grant: Grant
    ) -> SwitchContribution | None:
        policy, ofport = policy_of(value), value.device.ofport
        if policy is None or ofport is None:
            return None
        limits = make_limits(policy.rules)
        flows = tuple(port_flows(ofport, value.port.mac, limits, grant)) if limits else ()
        if not flows and not limits.guaranteed_kbps:
            return None
        return SwitchContribution(
            owner=grant.owner, flows=flows, guaranteed_kbps=limits.guaranteed_kbps
        )
