"""``netfw-server``: the REST API for clients, and messages for agents, over one database."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from importlib.metadata import version
from typing import TYPE_CHECKING

from netfw.cli.config_arguments import add_file_arguments, file_arguments
from netfw.cli.process import Orders, run
from netfw.cli.workers import Inheritance, Workers, inherited
from netfw.errors import BackendError, ConfigError, Conflict

if TYPE_CHECKING:
    from oslo_config.cfg import ConfigOpts

    from netfw.cli.server_doors import Sockets

LOG = logging.getLogger(__name__)
PROGRAM = "netfw-server"


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until told to stop; 0 stopped, 1 it can not serve, 2 wrongly configured."""
    parser = argparse.ArgumentParser(prog=PROGRAM, description="The server of netfw.")
    add_file_arguments(parser)
    parser.add_argument("--workers", type=_positive, help="processes, over what the files say")
    arguments = parser.parse_args(argv)
    files = file_arguments(arguments)

    def serve(conf: ConfigOpts, orders: Orders) -> None:
        heritage = inherited()
        workers = arguments.workers or conf.server.workers
        if heritage is None and workers > 1:
            _supervise(conf, orders, files, workers)
        else:
            _serve(conf, orders, heritage)

    try:
        from netfw.cli.server_parts import server_groups

        return run(PROGRAM, files, serve, server_groups(files))
    except ModuleNotFoundError as exc:
        print(f"{PROGRAM}: {exc.name} is missing: pip install 'netfw[server]'", file=sys.stderr)
        return 2
    except ConfigError as exc:
        print(f"{PROGRAM}: {exc}", file=sys.stderr)
        return 2
    except (BackendError, Conflict) as exc:
        print(f"{PROGRAM}: {exc}", file=sys.stderr)
        return 1


def _serve(conf: ConfigOpts, orders: Orders, heritage: Inheritance | None) -> None:
    """Serve in this process."""
    from netfw.cli.server_doors import Doors
    from netfw.cli.server_parts import ServerParts

    with ExitStack() as stack:
        parts = stack.enter_context(ServerParts(conf))
        parts.start()
        if heritage is None:
            sockets = _sockets(conf)
        else:
            sockets = heritage.sockets
            heritage.watch(orders.stop.set)
        for each in sockets.values():
            stack.callback(each.close)
        over = None if heritage is None else heritage.options
        doors = stack.enter_context(Doors(parts, sockets, over))
        orders.on_reload = doors.reload
        LOG.info("%s %s serves: %s", PROGRAM, version("netfw"), parts)
        orders.stop.wait()
        LOG.info("%s ends, and finishes what it is at", PROGRAM)
    LOG.info("%s has ended", PROGRAM)


def _supervise(conf: ConfigOpts, orders: Orders, files: Sequence[str], count: int) -> None:
    """Have *count* processes serve, on sockets that this one opens."""
    from netfw.cli.server_doors import transport_of
    from netfw.cli.server_metrics import SHARED
    from netfw.cli.server_parts import ServerParts
    from netfw.drivers.host import LocalHost

    with ServerParts(conf) as parts:
        parts.start()
    with ExitStack() as stack:
        os.environ[SHARED] = stack.enter_context(
            tempfile.TemporaryDirectory(prefix="netfw-counts-")
        )
        sockets = _sockets(conf)
        for each in sockets.values():
            stack.callback(each.close)
        shared = None
        if "messages" in conf.server.serve:
            transport = transport_of(conf, stack.enter_context(LocalHost()))
            stack.callback(transport.close)
            shared = transport.share()
        command = [sys.executable, "-m", "netfw.cli.server", *files]
        workers = Workers(command, count, sockets, shared)
        orders.on_reload = workers.reload
        LOG.info("%s %s has %d workers", PROGRAM, version("netfw"), count)
        workers.run(orders.stop, grace=conf.server.graceful_stop + 5)
    LOG.info("%s has ended", PROGRAM)


def _sockets(conf: ConfigOpts) -> Sockets:
    """Those of the API, if it is served.

    :raises ConfigError: one can not be.
    """
    from netfw.server.api.configured import listening

    return listening(conf) if "api" in conf.server.serve else {}


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


if __name__ == "__main__":
    sys.exit(main())
