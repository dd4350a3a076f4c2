"""LocalIpExtension: leads local IPs to ports of this host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from netfw.drivers.base import Capability, DriverInfo, HostResources
from netfw.drivers.l2_extension import ExtendedPort, L2Extension
from netfw.drivers.values.pipeline_grant import Grant, GrantRequest
from netfw.drivers.values.switch_contribution import SwitchContribution
from netfw.model.local_ip import EXTENSION
from netfw.model.values.ids import PortId
from netfw_drivers.ovs.local_ip.plan.flows import (
    REGISTERS,
    TABLES,
    LocalIpReceiver,
    base_flows,
    network_flows,
    port_flows,
)


class LocalIpExtension(L2Extension):
    """Leads packets for local IPs to ports of this host, whichever firewall filters them.

    Without a port on this host a local IP is an ordinary address of the network.
    """

    VERSION: ClassVar[int] = 2

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        return cls()

    def describe(self) -> DriverInfo[Capability]:
        return DriverInfo(EXTENSION)

    def grant_request(self) -> GrantRequest:
        return GrantRequest(owner=EXTENSION, tables=TABLES, registers=REGISTERS)

    def contribute_base(self, grant: Grant) -> SwitchContribution | None:
        return SwitchContribution(owner=grant.owner, flows=tuple(base_flows(grant)))

    def contribute(
        self, key: PortId, value: ExtendedPort, grant: Grant
    ) -> SwitchContribution | None:
        ofport = value.device.ofport
        if not value.local_ips or ofport is None:
            return None
        port = LocalIpReceiver(id=key, ofport=ofport, mac=value.port.mac)
        return SwitchContribution(
            owner=grant.owner,
            flows=tuple(port_flows(port, value.local_ips, grant)),
            network_flows=tuple(network_flows(port, value.local_ips, grant)),
        )
