"""``netfw-dhcp-agent``: builds the DHCP agent from its configuration."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Self

from netfw.agents.common.loop import Intervals
from netfw.agents.dhcp.agent import DhcpAgent, DhcpAgentConfig
from netfw.agents.dhcp.metadata_proxy import MetadataPolicy
from netfw.cli.agents.common import SOURCE_KINDS, source_of, status_path_of, timing_of
from netfw.cli.agents.program import AgentProgram
from netfw.cli.runtime.driver_options import Kinds, driver_options, groups_of, make, values
from netfw.conf import core
from netfw.conf.agent import GROUP
from netfw.conf.dhcp_agent import COMMON, DHCP
from netfw.conf.loader import Groups
from netfw.drivers.dhcp import DhcpDriver
from netfw.drivers.interface import InterfaceCapability, InterfaceDriver
from netfw.drivers.metadata import MetadataDriver
from netfw.drivers.registry.local_host import LocalHostResources
from netfw.errors import ConfigError

if TYPE_CHECKING:
    from oslo_config.cfg import ConfigOpts, Opt

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


class DhcpAgentComponents:
    """State source and drivers of one DHCP agent; closing them leaves all DHCP servers running.

    :raises ConfigError: the configuration is not possible.
    """

    def __init__(self, conf: ConfigOpts) -> None:
        self._conf = conf
        options = conf.agent
        for name in ("interface_driver", "dhcp_driver"):
            if not options[name]:
                raise ConfigError(f"[{GROUP}] {name}: name a driver")
        with ExitStack() as stack:
            self.host = stack.enter_context(LocalHostResources())
            self.source = source_of(conf, self.host, stack)
            self.interface = make(conf, InterfaceDriver, options.interface_driver, self.host)
            stack.callback(self.interface.close)
            self.host.add(self.interface)
            self.dhcp = make(conf, DhcpDriver, options.dhcp_driver, self.host)
            stack.callback(self.dhcp.close)
            self.metadata: MetadataDriver | None = None
            if options.metadata_driver:
                self.metadata = make(conf, MetadataDriver, options.metadata_driver, self.host)
                stack.callback(self.metadata.close)
            self.agent = DhcpAgent(self._settings(), self.source, self.dhcp, metadata=self.metadata)
            stack.callback(self.agent.close)
            self._stack = stack.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def __str__(self) -> str:
        metadata = "none" if self.metadata is None else self.metadata.describe().name
        return (
            f"host {self._conf.host}, source {self.source.describe().name}, "
            f"interface driver {self.interface.describe().name}, "
            f"DHCP driver {self.dhcp.describe().name}, metadata driver {metadata}"
        )

    def timing(self) -> Intervals:
        """Return the intervals that the options state now."""
        return timing_of(self._conf, longest=self._conf.agent.resync_interval)

    def status_path(self) -> Path:
        """Return the path of the status file."""
        return status_path_of(self._conf, PROGRAM)

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


def main(argv: Sequence[str] | None = None) -> int:
    """Run the agent and return its exit status.

    0: stopped or converged; 1: not converged in time, or a process died whose death ends the
    agent; 2: wrong configuration.
    """
    program = AgentProgram(
        name=PROGRAM,
        description="The DHCP agent.",
        groups=dhcp_groups,
        parts=DhcpAgentComponents,
    )
    return program.main(argv)


if __name__ == "__main__":
    sys.exit(main())
