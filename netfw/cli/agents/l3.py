"""``netfw-l3-agent``: builds the L3 agent from its configuration."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from ipaddress import IPv6Address
from typing import TYPE_CHECKING
from uuid import UUID

from netfw.agents.l3.agent import L3Agent, L3AgentConfig
from netfw.agents.l3.state_report import ROLE_REPORT_INTERVAL
from netfw.cli.agents.agent_main import AgentProgram
from netfw.cli.agents.common import SOURCE_KINDS
from netfw.cli.agents.components import ConfiguredComponents, name_of
from netfw.cli.runtime.driver_options import Kinds, driver_options, groups_of, values
from netfw.conf import core
from netfw.conf.agent import COMMON, GROUP
from netfw.conf.l3_agent import DRIVER_DEFAULTS, L3
from netfw.conf.loader import Groups
from netfw.drivers.interface import InterfaceDriver
from netfw.drivers.l3_extension import L3Extension
from netfw.drivers.metadata import MetadataDriver
from netfw.drivers.router import RouterDriver
from netfw.drivers.support.router_directory import router_directory
from netfw.errors import ConfigError
from netfw.linux.process.identity import boot
from netfw.model.values.ids import NetworkId

if TYPE_CHECKING:
    from oslo_config.cfg import Opt

PROGRAM = "netfw-l3-agent"
ADVERT_INTERVAL = "ha_vrrp_advert_int"
"""The option of router drivers with the seconds between two advertisements of VRRP."""
KINDS: Kinds = {
    **SOURCE_KINDS,
    (GROUP, "interface_driver"): InterfaceDriver,
    (GROUP, "router_driver"): RouterDriver,
    (GROUP, "metadata_driver"): MetadataDriver,
    (GROUP, "extensions"): L3Extension,
}


def l3_groups(argv: Sequence[str]) -> Groups:
    """Return the options of the L3 agent and of the drivers that the files in *argv* choose.

    :raises ConfigError: a file cannot be read, or a driver does not exist or cannot be used.
    """
    return groups_of(PROGRAM, argv, {GROUP: (*COMMON, *L3)}, KINDS, DRIVER_DEFAULTS)


def list_opts() -> list[tuple[str | None, Sequence[Opt]]]:
    """List the options of the agent and of every driver that it can use, for the sample file."""
    own = [*core.list_opts(), (GROUP, (*COMMON, *L3))]
    return [*own, *driver_options(KINDS, DRIVER_DEFAULTS)]


class L3AgentComponents(ConfiguredComponents):
    """State source, drivers and extensions of one L3 agent; closing them leaves routers running.

    :raises ConfigError: the configuration is not possible.
    """

    PROGRAM = PROGRAM
    REQUIRED = ("interface_driver", "router_driver")

    def build(self) -> None:
        self.interface = self.make_driver(InterfaceDriver, "interface_driver", shared=True)
        self.router = self.make_driver(RouterDriver, "router_driver")
        self.metadata = self.make_optional_driver(MetadataDriver, "metadata_driver")
        self.extensions = self.make_drivers(L3Extension, "extensions")
        self.agent = L3Agent(
            self._settings(),
            self.source,
            self.router,
            interface=self.interface,
            metadata=self.metadata,
            extensions=self.extensions,
            directory=router_directory(self.host),
        )
        self._stack.callback(self.agent.close)

    def __str__(self) -> str:
        extensions = ", ".join(each.describe().name for each in self.extensions) or "none"
        return (
            f"{super().__str__()}, interface driver {self.interface.describe().name}, "
            f"router driver {self.router.describe().name}, "
            f"metadata driver {name_of(self.metadata)}, extensions {extensions}"
        )

    def _settings(self) -> L3AgentConfig:
        options = self._conf.agent
        if options.external_network_bridge:
            raise ConfigError(
                f"external_network_bridge: {options.external_network_bridge!r} is not possible: "
                "make the external network a flat or VLAN provider network, map its physical "
                "network to the bridge (bridge_mappings of the L2 agent), and leave this empty"
            )
        return L3AgentConfig(
            host=self._conf.host,
            threads=options.num_sync_threads,
            agent_mode=options.agent_mode,
            enable_inat_enat=options.enable_inat_enat,
            handle_internal_only_routers=options.handle_internal_only_routers,
            gateway_external_network_id=_network(options.gateway_external_network_id),
            ipv6_gateway=_ipv6_address(options.ipv6_gateway),
            enable_metadata_proxy=options.enable_metadata_proxy,
            metadata_port=options.metadata_port,
            ha_vrrp_priority=options.ha_vrrp_priority,
            ha_role_report_interval=self._role_report_interval(),
            boot=UUID(boot()),
            availability_zone=options.availability_zone or None,
            interface_driver=self.interface.describe().name,
            binary=PROGRAM,
        )

    def _role_report_interval(self) -> float:
        """Return the configured interval, or one advertisement interval of the router driver."""
        options = self._conf.agent
        if options.ha_role_report_interval is not None:
            return float(options.ha_role_report_interval)
        of_driver = values(self._conf, RouterDriver, options.router_driver)
        return float(of_driver.get(ADVERT_INTERVAL, ROLE_REPORT_INTERVAL))


def _network(text: str) -> NetworkId | None:
    try:
        return NetworkId(UUID(text)) if text else None
    except ValueError:
        raise ConfigError(
            f"gateway_external_network_id: {text!r} is not the id of a network (a UUID)"
        ) from None


def _ipv6_address(text: str) -> IPv6Address | None:
    try:
        return IPv6Address(text) if text else None
    except ValueError:
        raise ConfigError(f"ipv6_gateway: {text!r} is not an IPv6 address") from None


def parser() -> ArgumentParser:
    """Build the parser of the program's arguments."""
    return _program().parser()


def _program() -> AgentProgram:
    return AgentProgram(
        name=PROGRAM,
        description="The L3 agent.",
        groups=l3_groups,
        parts=L3AgentComponents,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the agent and return its exit status.

    0: stopped or converged; 1: not converged in time, or a process died whose death ends the
    agent; 2: wrong configuration.
    """
    return _program().main(argv)


if __name__ == "__main__":
    sys.exit(main())
