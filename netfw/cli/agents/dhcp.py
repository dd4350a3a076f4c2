"""``netfw-dhcp-agent``: builds the DHCP agent from its configuration."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from typing import TYPE_CHECKING

from netfw.agents.common.loop import Intervals
from netfw.agents.dhcp.agent import DhcpAgent, DhcpAgentConfig
from netfw.agents.dhcp.metadata_proxy import MetadataPolicy
from netfw.cli.agents.agent_main import AgentProgram
from netfw.cli.agents.common import SOURCE_KINDS, timing_of
from netfw.cli.agents.components import ConfiguredComponents, name_of
from netfw.cli.runtime.driver_options import Kinds, driver_options, groups_of, values
from netfw.conf import core
from netfw.conf.agent import GROUP
from netfw.conf.dhcp_agent import COMMON, DHCP
from netfw.conf.loader import Groups
from netfw.drivers.dhcp import DhcpDriver
from netfw.drivers.interface import InterfaceCapability, InterfaceDriver
from netfw.drivers.metadata import MetadataDriver

if TYPE_CHECKING:
    from oslo_config.cfg import Opt

PROGRAM = "netfw-dhcp-agent"
KINDS: Kinds = {
    **SOURCE_KINDS,
    (GROUP, "interface_driver"): InterfaceDriver,
    (GROUP, "dhcp_driver"): DhcpDriver,
    (GROUP, "metadata_driver"): MetadataDriver,
}


def dhcp_groups(argv: Sequence[str]) -> Groups:
    """Return the options of the DHCP agent and of the drivers that the files in *argv* choose.

    :raises ConfigError: a file cannot be read, or a driver does not exist or cannot be used.
    """
    return groups_of(PROGRAM, argv, {GROUP: (*COMMON, *DHCP)}, KINDS)


def list_opts() -> list[tuple[str | None, Sequence[Opt]]]:
    """List the options of the agent and of every driver that it can use, for the sample file."""
    return [*core.list_opts(), (GROUP, (*COMMON, *DHCP)), *driver_options(KINDS)]


class DhcpAgentComponents(ConfiguredComponents):
    """State source and drivers of one DHCP agent; closing them leaves all DHCP servers running.

    :raises ConfigError: the configuration is not possible.
    """

    PROGRAM = PROGRAM
    REQUIRED = ("interface_driver", "dhcp_driver")

    def build(self) -> None:
        self.interface = self.make_driver(InterfaceDriver, "interface_driver", shared=True)
        self.dhcp = self.make_driver(DhcpDriver, "dhcp_driver")
        self.metadata = self.make_optional_driver(MetadataDriver, "metadata_driver")
        self.agent = DhcpAgent(self._settings(), self.source, self.dhcp, metadata=self.metadata)
        self._stack.callback(self.agent.close)

    def __str__(self) -> str:
        return (
            f"{super().__str__()}, interface driver {self.interface.describe().name}, "
            f"DHCP driver {self.dhcp.describe().name}, metadata driver {name_of(self.metadata)}"
        )

    def timing(self) -> Intervals:
        return timing_of(self._conf, longest=self._conf.agent.resync_interval)

    def _settings(self) -> DhcpAgentConfig:
        options = self._conf.agent
        driver = values(self._conf, DhcpDriver, options.dhcp_driver)
        rules = MetadataPolicy(
            force=options.force_metadata,
            isolated=options.enable_isolated_metadata,
            network=options.enable_metadata_network,
        )
        return DhcpAgentConfig(
            host=self._conf.host,
            threads=options.num_sync_threads,
            gateways=InterfaceCapability.GATEWAY_ADDRESSES
            in self.interface.describe().capabilities,
            metadata=rules,
            availability_zone=options.availability_zone or None,
            lease_duration=driver.get("dhcp_lease_duration"),
            binary=PROGRAM,
        )


def parser() -> ArgumentParser:
    """Build the parser of the program's arguments."""
    return _program().parser()


def _program() -> AgentProgram:
    return AgentProgram(
        name=PROGRAM,
        description="The DHCP agent.",
        groups=dhcp_groups,
        parts=DhcpAgentComponents,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the agent and return its exit status.

    0: stopped or converged; 1: not converged in time, or a process died whose death ends the
    agent; 2: wrong configuration.
    """
    return _program().main(argv)


if __name__ == "__main__":
    sys.exit(main())
