"""``netfw-metadata-agent``: proxies metadata requests with the id of their instance."""

from __future__ import annotations

import argparse
import logging
import resource
import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING

from netfw.cli.agents.runner import run_loop
from netfw.cli.runtime.arguments import add_file_arguments, file_arguments, make_parser
from netfw.cli.runtime.daemon import DaemonControl, run
from netfw.conf.metadata_agent import PROGRAM
from netfw.drivers.transport import Transport
from netfw.errors import BackendError, ConfigError

if TYPE_CHECKING:
    from oslo_config.cfg import ConfigOpts

LOG = logging.getLogger(__name__)

EPILOG = (
    "SIGHUP reads the files again; SIGTERM stops the agent.  Exit status: 0 stopped, 1 cannot "
    "start, 2 wrong configuration."
)
FILES = 65_536
"""Limit of open files: two for each request in flight."""


def parser() -> argparse.ArgumentParser:
    """Build the parser of the program's arguments."""
    made = make_parser(PROGRAM, "The metadata agent.", epilog=EPILOG)
    add_file_arguments(made)
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Run the agent; return 0 stopped, 1 cannot start, 2 wrong configuration."""
    files = file_arguments(parser().parse_args(argv))

    def serve(conf: ConfigOpts, control: DaemonControl) -> None:
        from netfw.cli.agents.metadata_components import MetadataAgentComponents

        with MetadataAgentComponents(conf) as parts:
            LOG.info("starting %s %s: %s", PROGRAM, version("netfw"), parts)
            control.on_reload = parts.reload
            run_loop(
                parts.source,
                parts.agent,
                parts.timing,
                status=parts.status_path(),
                metrics=parts.metrics_targets(),
                control=control,
                unblock=parts.host.driver(Transport).close,
            )
        LOG.info("%s has ended", PROGRAM)

    try:
        from netfw.cli.agents.metadata_components import metadata_groups

        _allow_files()
        return run(PROGRAM, files, serve, metadata_groups(files))
    except ModuleNotFoundError as exc:
        print(f"{PROGRAM}: {exc.name} is missing: pip install 'netfw[metadata]'", file=sys.stderr)
        return 2
    except (ConfigError, BackendError) as exc:
        print(f"{PROGRAM}: {exc}", file=sys.stderr)
        return 2 if isinstance(exc, ConfigError) else 1


def _allow_files() -> None:
    """Raise the soft limit of open files: 1024 would be reached before any other limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


if __name__ == "__main__":
    sys.exit(main())
