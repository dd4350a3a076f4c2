"""``netfw-ovs-agent``: builds the L2 agent from its configuration."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from netfw.agents.common.loop import Intervals
from netfw.agents.l2.agent import L2Agent, L2AgentConfig
from netfw.cli.agents.agent_main import AgentProgram
from netfw.cli.agents.common import SOURCE_KINDS, timing_of
from netfw.cli.agents.components import ConfiguredComponents, name_of
from netfw.cli.runtime.driver_options import Kinds, driver_options, groups_of, names, values
from netfw.conf import core, l2_agent
from netfw.conf.agent import COMMON, GROUP
from netfw.conf.l2_agent import L2
from netfw.conf.loader import Groups
from netfw.drivers.base import Driver
from netfw.drivers.firewall import FirewallDriver
from netfw.drivers.host_driver import HostCapability
from netfw.drivers.l2_extension import L2Extension
from netfw.drivers.switch import SwitchDriver
from netfw.errors import ConfigError
from netfw.linux.sockets.local_address import is_local

if TYPE_CHECKING:
    from oslo_config.cfg import ConfigOpts, Opt

D = TypeVar("D", bound=Driver)

PROGRAM = "netfw-ovs-agent"
KINDS: Kinds = {
    **SOURCE_KINDS,
    (GROUP, "switch_driver"): SwitchDriver,
    (GROUP, "firewall_driver"): FirewallDriver,
    (GROUP, "hybrid_firewall_driver"): FirewallDriver,
    (GROUP, "retired_firewall_drivers"): FirewallDriver,
    (GROUP, "extensions"): L2Extension,
}


def l2_groups(argv: Sequence[str]) -> Groups:
    """Return the options of the L2 agent and of the drivers that the files in *argv* choose.

    :raises ConfigError: a file cannot be read, or a driver does not exist or cannot be used.
    """
    return groups_of(PROGRAM, argv, {GROUP: (*COMMON, *L2)}, KINDS)


def list_opts() -> list[tuple[str | None, Sequence[Opt]]]:
    """List the options of the agent and of every driver that it can use, for the sample file."""
    return [*core.list_opts(), *l2_agent.list_opts(), *driver_options(KINDS)]


class L2AgentComponents(ConfiguredComponents):
    """State source, drivers and extensions of one L2 agent; closing them changes no host state.

    :raises ConfigError: the configuration is not possible.
    """

    PROGRAM = PROGRAM

    def __init__(self, conf: ConfigOpts) -> None:
        _check_retired(conf)
        super().__init__(conf)

    def build(self) -> None:
        self.switch = self.make_driver(SwitchDriver, "switch_driver", shared=True)
        options = self.switch_options()
        self.firewall = self.make_optional_driver(FirewallDriver, "firewall_driver", options)
        if self.firewall is not None:
            self.host.add(self.firewall)
        self.hybrid = self.make_optional_driver(FirewallDriver, "hybrid_firewall_driver", options)
        self.retired = self.make_drivers(FirewallDriver, "retired_firewall_drivers", options)
        self.extensions = self.make_drivers(L2Extension, "extensions", options)
        self.agent = L2Agent(
            self._settings(),
            self.switch,
            firewall=self.firewall,
            hybrid_firewall=self.hybrid,
            retired=self.retired,
            extensions=self.extensions,
            is_local=is_local,
            source=self.source,
        )

    def switch_options(self) -> Mapping[str, Any]:
        """Return the options of the switch driver."""
        return values(self._conf, SwitchDriver, self._conf.agent.switch_driver)

    def __str__(self) -> str:
        extensions = ", ".join(each.describe().name for each in self.extensions) or "none"
        return (
            f"{super().__str__()}, switch driver {self.switch.describe().name}, "
            f"firewall driver {name_of(self.firewall)}, extensions {extensions}"
        )

    def timing(self) -> Intervals:
        options = self._conf.agent
        watches = HostCapability.WATCH in self.switch.describe().capabilities
        poll = 0.0 if watches and options.minimize_polling else options.polling_interval
        return timing_of(self._conf, poll)

    def _settings(self) -> L2AgentConfig:
        options = self._conf.agent
        switch = self.switch_options()
        return L2AgentConfig(
            host=self._conf.host,
            population=options.l2_population,
            arp_responder=bool(switch.get("arp_responder")),
            distributed=options.enable_distributed_routing,
            guard=options.prevent_arp_spoofing,
            binary=PROGRAM,
        )


def _check_retired(conf: ConfigOpts) -> None:
    for option in ("firewall_driver", "hybrid_firewall_driver"):
        for name in names(conf, GROUP, option):
            if name in names(conf, GROUP, "retired_firewall_drivers"):
                raise ConfigError(
                    f"{name!r} cannot be {option} and retired at once: take it out of "
                    "retired_firewall_drivers"
                )


def parser() -> ArgumentParser:
    """Build the parser of the program's arguments."""
    return _program().parser()


def _program() -> AgentProgram:
    return AgentProgram(
        name=PROGRAM,
        description="The L2 agent for Open vSwitch.",
        groups=l2_groups,
        parts=L2AgentComponents,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the agent; return 0 stopped or converged, 1 not converged in time, 2 wrong options."""
    return _program().main(argv)


if __name__ == "__main__":
    sys.exit(main())
