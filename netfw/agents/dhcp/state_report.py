"""Configuration and state report of the DHCP agent.  Pure."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field, frozen

from netfw.agents.common.heartbeat import make_heartbeat
from netfw.agents.common.jobs.job_agent import JobAgentConfig
from netfw.agents.dhcp.metadata_proxy import MetadataPolicy
from netfw.drivers.base import Capability, DriverInfo
from netfw.drivers.values.reports import Heartbeat
from netfw.errors import ConfigError


@frozen(kw_only=True)
class DhcpAgentConfig(JobAgentConfig):
    """The configuration of the DHCP agent of a host."""

    gateways: bool = False
    """The host's fabric routes: serve from the gateways' addresses."""
    metadata: MetadataPolicy = field(factory=MetadataPolicy)
    lease_duration: int | None = None
    """Seconds, as the driver gives them; only reported."""
    binary: str = "netfw-dhcp-agent"
    agent_type: str = "DHCP agent"


def validate_config(settings: DhcpAgentConfig, metadata: DriverInfo[Capability] | None) -> None:
    """Validate the settings against the metadata driver.

    :raises ConfigError: a sentence that says what to change.
    """
    if metadata is None and settings.metadata != MetadataPolicy():
        raise ConfigError(
            "force_metadata, enable_isolated_metadata and enable_metadata_network need a "
            "metadata_driver: name one, or set them all to false"
        )


def make_state_report(
    settings: DhcpAgentConfig,
    driver: DriverInfo[Capability],
    counts: Mapping[str, int],
    *,
    start: bool,
) -> Heartbeat:
    """Build the state report, with the keys that servers and operators know."""
    configurations: dict[str, object] = {
        "dhcp_driver": driver.name,
        "dhcp_lease_duration": settings.lease_duration,
        "notifies_port_ready": True,
        "force_metadata": settings.metadata.force,
        "enable_isolated_metadata": settings.metadata.isolated,
        "enable_metadata_network": settings.metadata.network,
        **counts,
    }
    return make_heartbeat(
        settings,
        configurations,
        counts,
        start=start,
        topic="dhcp_agent",
        availability_zone=settings.availability_zone,
    )
