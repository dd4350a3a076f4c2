"""DhcpExtension: answers DHCP on the host of the instance, without namespace and dnsmasq."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from oslo_config import cfg

from netfw.drivers.base import Capability, DriverInfo, HostResources
from netfw.drivers.l2_extension import ExtendedPort, L2Extension
from netfw.drivers.support.dhcp_option_text import check_domain
from netfw.drivers.values.events import Sink
from netfw.drivers.values.pipeline_grant import Grant, GrantRequest, PipelineHook, TableRequest
from netfw.drivers.values.switch_contribution import SwitchContribution
from netfw.errors import ConfigError
from netfw.model.values.ids import PortId
from netfw_drivers.ovs.common.options import SHARED_OPTIONS, openflow_directory
from netfw_drivers.ovs.dhcp.plan.flows import TABLE, port_flows
from netfw_drivers.ovs.dhcp.plan.offers import FOR_EVER, LeaseTimes, make_answers
from netfw_drivers.ovs.dhcp.plan.served_ports import served_port
from netfw_drivers.ovs.dhcp.responder import DhcpResponder

NAME = "dhcp"
_SHORTEST_LEASE = 120


class DhcpExtension(L2Extension):
    """Answers DHCP, DHCPv6 and router solicitations of the ports of this host.

    A request reaches the agent by a flow of its port, which carries the answers; the reply goes to
    that port alone.  All hosts answer from the one distributed DHCP port of the network; without
    it the network is not served.
    """

    VERSION: ClassVar[int] = 2
    OPTIONS: ClassVar[tuple[cfg.Opt, ...]] = (
        *SHARED_OPTIONS,
        cfg.IntOpt(
            "dhcp_lease_duration",
            default=86400,
            min=-1,
            help="Seconds that a lease lasts.  -1: for ever.",
        ),
        cfg.IntOpt(
            "dhcp_renewal_time",
            default=0,
            min=0,
            help="Seconds after which clients renew their lease (T1).  0: half of its duration.",
        ),
        cfg.IntOpt(
            "dhcp_rebinding_time",
            default=0,
            min=0,
            help="Seconds after which clients ask any server (T2).  0: 7/8 of the lease's "
            "duration.",
        ),
        cfg.StrOpt(
            "dhcp_domain",
            default="openstacklocal",
            help="Domain of instances on networks that have none of their own.  Empty: none.",
        ),
    )

    def __init__(self, target: str, timeout: float, times: LeaseTimes, domain: str) -> None:
        self._target, self._timeout = target, timeout
        self._times, self._domain = times, domain
        self._responder: DhcpResponder | None = None

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        target = f"unix:{openflow_directory(options)}/{options['integration_bridge']}.mgmt"
        times, domain = _times(options), options["dhcp_domain"]
        try:
            if domain:
                check_domain(domain)
        except ValueError as exc:
            raise ConfigError(f"dhcp_domain: {exc}") from exc
        return cls(target, options["ovsdb_timeout"], times, domain)

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
    if duration == -1:
        duration = FOR_EVER
    elif duration < _SHORTEST_LEASE:
        raise ConfigError(
            f"dhcp_lease_duration: less than {_SHORTEST_LEASE} seconds; -1 is for ever"
        )
    times = LeaseTimes(
        duration=duration,
        renewal=options["dhcp_renewal_time"],
        rebinding=options["dhcp_rebinding_time"],
    )
    if not times.t1 <= times.t2 <= duration:
        raise ConfigError(
            f"dhcp_renewal_time ({times.t1} seconds) has to come before dhcp_rebinding_time "
            f"({times.t2}), and that before the end of the lease ({duration})"
        )
    return times
