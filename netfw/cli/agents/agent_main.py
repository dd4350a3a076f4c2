"""The console script of an agent with a loop: arguments, run, exit status."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from attrs import frozen

from netfw.agents.common.agent import HostAgent
from netfw.agents.common.loop import Intervals
from netfw.cli.agents.common import MetricsTargets
from netfw.cli.agents.runner import run_loop
from netfw.cli.runtime.arguments import add_file_arguments, file_arguments, make_parser
from netfw.cli.runtime.daemon import DaemonControl, run
from netfw.cli.runtime.memory import tune_gc
from netfw.conf.loader import Groups
from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw.drivers.state_source import StateSource
from netfw.drivers.transport import Transport
from netfw.errors import AgentMustEnd, BackendError, ConfigError

if TYPE_CHECKING:
    from oslo_config.cfg import ConfigOpts

LOG = logging.getLogger(__name__)
EPILOG = (
    "SIGHUP reads the files again; SIGTERM stops the agent and leaves the host as it is.  Exit "
    "status: 0 stopped, or converged with --once; 1 cannot start, not converged within --timeout, "
    "or ended by the death of a process; 2 wrong configuration."
)


class AgentComponents(Protocol):
    """An agent and its components; `str()` lists them for the log."""

    host: LocalHostResources
    source: StateSource

    @property
    def agent(self) -> HostAgent[Any]:
        """The agent that the loop calls."""

    def timing(self) -> Intervals:
        """Return the intervals that the options state now."""

    def status_path(self) -> Path:
        """Return the path of the status file."""

    def metrics_targets(self) -> MetricsTargets:
        """Return where metrics are published."""


@frozen(kw_only=True)
class AgentProgram:
    """A console script that runs an agent."""

    name: str
    description: str
    groups: Callable[[Sequence[str]], Groups]
    """Returns the options that the files in the arguments choose."""
    parts: Callable[[ConfigOpts], AbstractContextManager[AgentComponents]]

    def main(self, argv: Sequence[str] | None = None) -> int:
        """Run the program and return its exit status.

        0: stopped or converged; 1: cannot start, not converged in time, or ended by an event; 2:
        wrong configuration.
        """
        tune_gc()
        arguments = self.parser().parse_args(argv)
        within = arguments.timeout if arguments.once else None
        files = file_arguments(arguments)
        status = 0

        def serve(conf: ConfigOpts, control: DaemonControl) -> None:
            nonlocal status
            status = self._serve(conf, control, within)

        try:
            return run(self.name, files, serve, self.groups(files)) or status
        except (ConfigError, AgentMustEnd, BackendError) as exc:
            print(f"{self.name}: {exc}", file=sys.stderr)
            return 2 if isinstance(exc, ConfigError) else 1

    def _serve(self, conf: ConfigOpts, control: DaemonControl, within: float | None) -> int:
        with self.parts(conf) as parts:
            LOG.info("starting %s %s: %s", self.name, version("netfw"), parts)
            try:
                status = run_loop(
                    parts.source,
                    parts.agent,
                    parts.timing,
                    status=parts.status_path(),
                    metrics=parts.metrics_targets(),
                    control=control,
                    unblock=parts.host.driver(Transport).close,
                    within=within,
                )
            except AgentMustEnd as exc:
                LOG.error("%s ends, as it is configured to: %s", self.name, exc)
                raise
        LOG.info("%s has ended, and leaves the host as it is", self.name)
        return status

    def parser(self) -> argparse.ArgumentParser:
        """Build the parser of the program's arguments."""
        parser = make_parser(self.name, self.description, epilog=EPILOG)
        add_file_arguments(parser)
        parser.add_argument(
            "--once", action="store_true", help="exit 0 once the host matches the desired state"
        )
        parser.add_argument(
            "--timeout",
            type=float,
            default=60.0,
            help="seconds after which --once exits 1",
        )
        return parser
