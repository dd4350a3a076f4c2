"""Configuration and state report of the L2 agent.  Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attrs import frozen

from netfw.agents.common.heartbeat import make_heartbeat
from netfw.agents.l2.host_context import L2HostContext
from netfw.drivers.base import Capability, DriverInfo
from netfw.drivers.firewall import FirewallCapability
from netfw.drivers.switch import SwitchCapability
from netfw.drivers.values.reports import Heartbeat
from netfw.errors import ConfigError
from netfw.model.values.address import IpAddress, Mac

RESOURCE_VERSIONS: Mapping[str, int] = {}


@frozen(kw_only=True)
class L2AgentConfig:
    """The configuration of the L2 agent of a host."""

    host: str
    population: bool = False
    arp_responder: bool = False
    distributed: bool = False
    guard: bool = True
    """Have the switch guard ports against spoofing, where the firewall does not."""
    binary: str = "netfw-ovs-agent"
    agent_type: str = "Open vSwitch agent"


def validate_config(
    settings: L2AgentConfig,
    switch: DriverInfo[Capability],
    firewall: DriverInfo[Capability] | None = None,
) -> None:
    """Validate the settings against the drivers.

    :raises ConfigError: a sentence that says what to change.
    """
    if settings.arp_responder and not settings.population:
        raise ConfigError(
            "arp_responder needs l2_population, which has the addresses: "
            "set l2_population = true, or arp_responder = false"
        )
    if settings.population and SwitchCapability.POPULATION not in switch.capabilities:
        raise ConfigError(
            f"the switch driver {switch.name!r} takes no forwarding entries: "
            "set l2_population = false"
        )
    if settings.distributed and SwitchCapability.DISTRIBUTED not in switch.capabilities:
        raise ConfigError(
            f"the switch driver {switch.name!r} has no part in distributed routing: "
            "set enable_distributed_routing = false"
        )
    if (
        firewall is not None
        and FirewallCapability.IN_SWITCH in firewall.capabilities
        and SwitchCapability.IN_SWITCH not in switch.capabilities
    ):
        raise ConfigError(
            f"the firewall driver {firewall.name!r} filters inside the switch, and the switch "
            f"driver {switch.name!r} does not let it: choose another firewall_driver"
        )


def validate_tunnels(settings: L2AgentConfig, view: L2HostContext) -> None:
    """Validate the settings against the tunnels of this host.

    :raises ConfigError: a sentence that says what to change.
    """
    if settings.distributed and view.facts.endpoints and not settings.population:
        raise ConfigError(
            "distributed routing over tunnels needs l2_population: set l2_population = true, "
            "or leave tunnel_types empty"
        )


def validate_addresses(view: L2HostContext, is_local: Callable[[IpAddress], bool]) -> None:
    """Validate that tunnels start at an address of this host.

    :raises ConfigError: a sentence that says what to change.
    """
    for address in {endpoint.address for endpoint in view.facts.endpoints}:
        if not is_local(address):
            raise ConfigError(
                f"local_ip: no interface of this host has {address}: set it to an address of this "
                "host, or start the agent when the interface is up"
            )


def make_state_report(
    settings: L2AgentConfig,
    view: L2HostContext,
    *,
    extensions: tuple[str, ...],
    firewall: DriverInfo[Capability] | None,
    counts: Mapping[str, int],
    routing_mac: Mac | None = None,
    start: bool,
) -> Heartbeat:
    """Build the state report, with the keys that servers and operators know.

    *routing_mac* is the MAC address of this host for distributed routing.
    """
    configurations = {
        **_describe_switch(view),
        **_describe_firewall(firewall),
        "l2_population": settings.population,
        "arp_responder_enabled": settings.arp_responder,
        "enable_distributed_routing": settings.distributed,
        "in_distributed_mode": routing_mac is not None,
        "routing_mac": routing_mac,
        "extensions": list(extensions),
        "resource_versions": dict(RESOURCE_VERSIONS),
        "devices": counts.get("devices", 0),
    }
    return make_heartbeat(settings, configurations, counts, start=start)


def _describe_switch(view: L2HostContext) -> dict[str, object]:
    facts = view.facts
    addresses = sorted({str(endpoint.address) for endpoint in facts.endpoints})
    return {
        "bridge_mappings": {name: facts.mappings.get(name, "") for name in facts.physical_networks},
        "resource_provider_bandwidths": {
            name: {"egress": rates.egress, "ingress": rates.ingress}
            for name, rates in facts.bandwidths.items()
        },
        "tunnel_types": sorted(endpoint.type for endpoint in facts.endpoints),
        **({"network_types": sorted(facts.network_types)} if facts.network_types else {}),
        "tunneling_ip": addresses[0] if addresses else None,
        "datapath_type": facts.datapath_type,
        "integration_bridge": facts.bridge,
        "ovs_capabilities": sorted(facts.features),
        "vhostuser_socket_dir": facts.vhostuser_socket_dir,
    }


def _describe_firewall(firewall: DriverInfo[Capability] | None) -> dict[str, object]:
    declared = frozenset() if firewall is None else firewall.capabilities
    names = [each.value for each in declared if isinstance(each, FirewallCapability)]
    return {
        "ovs_hybrid_plug": FirewallCapability.HYBRID_PLUG in declared,
        "firewall_capabilities": sorted(names),
    }
