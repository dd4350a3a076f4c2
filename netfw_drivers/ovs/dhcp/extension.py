"""DhcpExtension: answers DHCP on the host of the instance, without namespace and dnsmasq."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from oslo_config import cfg

from netfw.drivers.base import Capability, DriverInfo, HostResources
from netfw.drivers.l2_extension import ExtendedPort, L2Extension
from netfw.drivers.support.lease_options import (
    INFINITE,
    LEASE_OPTIONS,
    check_lease_times,
    parse_domain,
)
from netfw.drivers.values.events import Sink
from netfw.drivers.values.pipeline_grant import Grant, GrantRequest, PipelineHook, TableRequest
from netfw.drivers.values.switch_contribution import SwitchContribution
from netfw.model.values.ids import PortId
from netfw_drivers.ovs.common.options import SHARED_OPTIONS, openflow_directory
from netfw_drivers.ovs.dhcp.plan.flows import TABLE, port_flows
from netfw_drivers.ovs.dhcp.plan.offers import FOR_EVER, LeaseTimes, make_answers
from netfw_drivers.ovs.dhcp.plan.served_ports import served_port
from netfw_drivers.ovs.dhcp.responder import DhcpResponder

NAME = "dhcp"


class DhcpExtension(L2Extension):
    """Answers DHCP, DHCPv6 and router solicitations of the ports of this host.

    A request reaches the agent by a flow of its port, which carries the answers; the reply goes to
    that port alone.  All hosts answer from the one distributed DHCP port of the network; without
    it the network is not served.
    """

    VERSION: ClassVar[int] = 2
    OPTIONS: ClassVar[tuple[cfg.Opt, ...]] = (
        *SHARED_OPTIONS,
        *LEASE_OPTIONS,
    )

    def __init__(self, target: str, timeout: float, times: LeaseTimes, domain: str) -> None:
        self._target, self._timeout = target, timeout
        self._times, self._domain = times, domain
        self._responder: DhcpResponder | None = None

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        target = f"unix:{openflow_directory(options)}/{options['integration_bridge']}.mgmt"
        check_lease_times(options)
        return cls(target, options["ovsdb_timeout"], _times(options), parse_domain(options))

    def describe(self) -> DriverInfo[Capability]:
        return DriverInfo(NAME)

    def grant_request(self) -> GrantRequest:
        return GrantRequest(
            owner=NAME,
            tables=(TableRequest(name=TABLE, hook=PipelineHook.FROM_PORT),),
            meters=1,
        )

    def contribute(
        self, key: PortId, value: ExtendedPort, grant: Grant
    ) -> SwitchContribution | None:
        served, ofport = served_port(value, self._domain), value.device.ofport
        if served is None or ofport is None:
            return None
        answers = make_answers(*served, self._times)
        flows = tuple(port_flows(ofport, answers, grant))
        return SwitchContribution(owner=grant.owner, flows=flows) if flows else None

    def watch(self, sink: Sink) -> None:
        """Start to answer; nothing is announced, since answers follow from the views alone."""
        if self._responder is None:
            self._responder = DhcpResponder(self._target, timeout=self._timeout)

    def close(self) -> None:
        if self._responder is not None:
            self._responder.close()
            self._responder = None


def _times(options: Mapping[str, Any]) -> LeaseTimes:
    duration = options["dhcp_lease_duration"]
    return LeaseTimes(
        duration=FOR_EVER if duration == INFINITE else duration,
        renewal=options["dhcp_renewal_time"],
        rebinding=options["dhcp_rebinding_time"],
    )
