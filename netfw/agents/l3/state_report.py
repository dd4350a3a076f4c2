"""Configuration and state report of the L3 agent.  Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import IPv6Address
from uuid import UUID

from attrs import field, frozen

from netfw.agents.common.heartbeat import make_heartbeat
from netfw.agents.common.jobs.job_agent import JobAgentConfig
from netfw.agents.l3.agent_mode import AgentMode
from netfw.drivers.base import Capability, DriverInfo
from netfw.drivers.router import RouterCapability
from netfw.drivers.values.reports import Heartbeat
from netfw.drivers.values.router_values import HA_PRIORITY, METADATA_PORT
from netfw.errors import ConfigError
from netfw.model.values.ids import NetworkId

ROLE_REPORT_INTERVAL = 2.0
"""Seconds in which roles are collected, where the driver has no advertisement interval."""


@frozen(kw_only=True)
class L3AgentConfig(JobAgentConfig):
    """The configuration of the L3 agent of a host."""

    threads: int = 8
    """Number of routers that are converged in parallel."""
    agent_mode: AgentMode = field(default=AgentMode.LEGACY, converter=AgentMode)
    enable_inat_enat: bool = False
    """Floating IPs are translated elsewhere: this host has none."""
    handle_internal_only_routers: bool = True
    gateway_external_network_id: NetworkId | None = None
    ipv6_gateway: IPv6Address | None = None
    enable_metadata_proxy: bool = True
    metadata_port: int = METADATA_PORT
    ha_vrrp_priority: int = HA_PRIORITY
    ha_role_report_interval: float = ROLE_REPORT_INTERVAL
    """Seconds in which changes of HA roles are collected before they are reported."""
    boot: UUID | None = None
    """The boot of this machine, whose monotonic clock orders the reports of roles."""
    interface_driver: str = ""
    """Only reported."""
    binary: str = "netfw-l3-agent"
    agent_type: str = "L3 agent"


def validate_config(
    settings: L3AgentConfig, driver: DriverInfo[Capability], *, has_metadata: bool
) -> None:
    """Validate the settings.

    :raises ConfigError: a sentence that says what to change.
    """
    gateway = settings.ipv6_gateway
    if gateway is not None and not gateway.is_link_local:
        raise ConfigError(
            f"ipv6_gateway: {gateway} is not a link-local address: routers of external networks "
            "are named by their address of fe80::/10"
        )
    mode = settings.agent_mode
    if mode.runs_local_parts and RouterCapability.DISTRIBUTED not in driver.capabilities:
        raise ConfigError(
            f"agent_mode: {mode.value!r} is not possible: the router driver {driver.name!r} has no "
            f"distributed routers; set it to {AgentMode.LEGACY}, or choose another router_driver"
        )
    if settings.enable_metadata_proxy and not has_metadata:
        raise ConfigError(
            "enable_metadata_proxy needs a metadata_driver: name one, or set it to false"
        )


def make_state_report(
    settings: L3AgentConfig,
    driver: DriverInfo[Capability],
    extensions: Sequence[str],
    counts: Mapping[str, int],
    *,
    start: bool,
) -> Heartbeat:
    """Build the state report, with the keys that servers and operators know."""
    only = settings.gateway_external_network_id
    configurations: dict[str, object] = {
        "agent_mode": settings.agent_mode.value,
        "enable_inat_enat": settings.enable_inat_enat,
        "handle_internal_only_routers": settings.handle_internal_only_routers,
        "gateway_external_network_id": "" if only is None else str(only),
        "interface_driver": settings.interface_driver,
        "router_driver": driver.name,
        "enable_metadata_proxy": settings.enable_metadata_proxy,
        "extensions": list(extensions),
        **counts,
    }
    return make_heartbeat(
        settings,
        configurations,
        counts,
        start=start,
        topic="l3_agent",
        availability_zone=settings.availability_zone,
    )
