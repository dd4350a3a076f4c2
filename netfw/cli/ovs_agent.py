"""``netfw-ovs-agent``: keeps the switch of this host as its source of state wants it."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING

from netfw.cli.agent_run import run_loop
from netfw.cli.config_arguments import add_file_arguments, file_arguments
from netfw.cli.l2_parts import PROGRAM, L2Parts, l2_groups
from netfw.cli.process import Orders, run
from netfw.errors import ConfigError

if TYPE_CHECKING:
    from oslo_config.cfg import ConfigOpts

LOG = logging.getLogger(__name__)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the agent; 0 stopped or converged, 1 not converged in time, 2 wrongly configured."""
    parser = argparse.ArgumentParser(prog=PROGRAM, description="The L2 agent for Open vSwitch.")
    add_file_arguments(parser)
    parser.add_argument(
        "--once", action="store_true", help="end, with status 0, when everything is as wanted"
    )
    parser.add_argument(
        "--timeout", type=float, default=60.0, help="seconds after which --once ends with status 1"
    )
    arguments = parser.parse_args(argv)
    within = arguments.timeout if arguments.once else None
    files = file_arguments(arguments)
    status = 0

    def serve(conf: ConfigOpts, orders: Orders) -> None:
        nonlocal status
        with L2Parts(conf) as parts:
            LOG.info("%s %s begins: %s", PROGRAM, version("netfw"), parts)
            status = run_loop(
                parts.source,
                parts.agent,
                parts.timing,
                status=parts.status_path(),
                orders=orders,
                within=within,
            )
        LOG.info("%s has ended, and leaves the host as it is", PROGRAM)

    try:
        return run(PROGRAM, files, serve, l2_groups(files)) or status
    except ConfigError as exc:
        print(f"{PROGRAM}: {exc}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
