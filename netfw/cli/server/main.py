"""``netfw-server``: the REST API for clients, and RPC for agents, over one database."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from netfw.cli.runtime.arguments import add_file_arguments, file_arguments, make_parser
from netfw.cli.runtime.daemon import DaemonControl, run
from netfw.cli.runtime.memory import freeze_gc, tune_malloc
from netfw.cli.runtime.prefork import InheritedSockets, PreforkSupervisor, inherited
from netfw.cli.runtime.watchdog import Watchdog
from netfw.drivers.support.daemon_thread import start_daemon_thread
from netfw.errors import BackendError, BackendUnavailable, ConfigError, Conflict

if TYPE_CHECKING:
    from oslo_config.cfg import ConfigOpts

    from netfw.cli.server.components import ServerComponents
    from netfw.cli.server.listeners import Listeners, Sockets

LOG = logging.getLogger("netfw.cli.server.main")  # also in workers, where this is __main__
PROGRAM = "netfw-server"
EPILOG = (
    "SIGHUP reads the files again; SIGTERM stops the server when requests in flight have ended.  "
    "Exit status: 0 stopped, 1 cannot serve, 2 wrong configuration."
)
PAUSE, LOG_INTERVAL = 1.0, 60.0
"""Seconds between attempts to reach the database, and between log lines about it."""
SILENCE = 10.0
"""Seconds without an answer of the database after which the health endpoints report that.  Until
then clients wait: other workers may serve them."""


def parser() -> argparse.ArgumentParser:
    """Build the parser of the program's arguments."""
    made = make_parser(PROGRAM, "The server of netfw.", epilog=EPILOG)
    add_file_arguments(made)
    made.add_argument(
        "--workers",
        type=_positive,
        help="number of worker processes; overrides [server] workers",
    )
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until stopped; return 0 stopped, 1 cannot serve, 2 wrong configuration."""
    arguments = parser().parse_args(argv)
    files = file_arguments(arguments)
    inheritance = inherited()

    def serve(conf: ConfigOpts, control: DaemonControl) -> None:
        workers = arguments.workers or conf.server.workers
        if inheritance is None and workers > 1:
            _supervise(conf, control, files, workers)
        else:
            _serve(conf, control, inheritance)

    try:
        from netfw.cli.server.components import server_groups

        if inheritance is not None:
            inheritance.watch()
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


def _serve(conf: ConfigOpts, control: DaemonControl, inheritance: InheritedSockets | None) -> None:
    """Serve in this process.

    Configuration errors are found before the database is touched.
    """
    from netfw.cli.server.components import ServerComponents
    from netfw.cli.server.listeners import Listeners

    tune_malloc()
    with ExitStack() as stack:
        parts = stack.enter_context(ServerComponents(conf))
        if inheritance is None:
            sockets = stack.enter_context(_listening(conf))
        else:
            sockets = inheritance.sockets
            inheritance.on_lost = control.stop.set
            for each in sockets.values():
                stack.callback(each.close)
        over = None if inheritance is None else inheritance.options
        listeners = stack.enter_context(Listeners(parts, sockets, over))
        control.on_reload = listeners.reload
        if _prepared(parts, control, listeners):
            parts.start_tasks()
            listeners.open()
            freeze_gc()
            LOG.info("%s %s serves: %s", PROGRAM, version("netfw"), parts)
            control.manager.set_ready()
            with Watchdog(inheritance or control.manager, listeners.clients.stuck_reason):
                control.stop.wait()
        LOG.info("%s stops, and finishes requests under way", PROGRAM)
    LOG.info("%s has stopped", PROGRAM)


def _prepared(parts: ServerComponents, control: DaemonControl, listeners: Listeners) -> bool:
    """Prepare the database, waiting until it answers; return ``False`` when stopped before.

    :raises BackendBroken: its schema is wrong.
    :raises BackendUnavailable: the machine has no thread left.
    """
    logged, logged_at = "", 0.0
    while not control.stop.is_set():
        silent = logged or f"{parts.database} has not answered yet"
        answered = threading.Event()
        failure = "the database cannot be waited for"
        start_daemon_thread("silence", failure, _report_silence, answered, listeners, silent)
        try:
            parts.prepare()
        except BackendUnavailable as exc:
            listeners.serve_health_only(str(exc))
            if str(exc) != logged or time.monotonic() - logged_at > LOG_INTERVAL:
                LOG.warning("%s: %s; waiting for it", parts.database, exc)
                logged, logged_at = str(exc), time.monotonic()
            control.stop.wait(PAUSE)
        else:
            return True
        finally:
            answered.set()
    return False


def _report_silence(answered: threading.Event, listeners: Listeners, reason: str) -> None:
    """Serve the health endpoints with *reason*, unless the database answers soon."""
    if not answered.wait(SILENCE):
        try:
            listeners.serve_health_only(reason)
        except BackendUnavailable as exc:
            LOG.warning("%s, and the health endpoints do not say so: %s", reason, exc)


def _supervise(conf: ConfigOpts, control: DaemonControl, files: Sequence[str], count: int) -> None:
    """Run *count* worker processes on sockets that this process opens."""
    from netfw.cli.server.listeners import transport_of
    from netfw.cli.server.metrics import SHARED
    from netfw.drivers.registry.local_host_resources import LocalHostResources

    with ExitStack() as stack:
        os.environ[SHARED] = stack.enter_context(
            tempfile.TemporaryDirectory(prefix="netfw-counts-")
        )
        sockets = stack.enter_context(_listening(conf))
        shared = None
        if "messages" in conf.server.serve:
            transport = transport_of(conf, stack.enter_context(LocalHostResources()))
            stack.callback(transport.close)
            shared = transport.share_address()
        _check(conf, sockets)
        command = [sys.executable, "-m", "netfw.cli.server.main", *files]
        workers = PreforkSupervisor(command, count, sockets, shared)
        control.on_reload = workers.reload
        LOG.info("%s %s has %d workers", PROGRAM, version("netfw"), count)
        control.manager.set_ready()
        with Watchdog(control.manager, workers.stuck_reason):
            workers.run(control.stop, grace=conf.server.graceful_shutdown_timeout + 5)
    LOG.info("%s has stopped", PROGRAM)


def _check(conf: ConfigOpts, sockets: Sockets) -> None:
    """Find configuration errors once for all workers, and migrate an SQLite file.

    Workers wait for a database that is away or silent, and serve the health endpoints meanwhile.

    :raises ConfigError: the configuration is not possible.
    :raises BackendBroken: the schema is wrong.
    """
    from netfw.cli.server.components import ServerComponents
    from netfw.cli.server.listeners import ApiBundle

    with ServerComponents(conf) as parts:
        if "api" in conf.server.serve:
            ApiBundle(parts, sockets)
        try:
            _prepare_at_once(parts)
        except BackendUnavailable as exc:
            LOG.warning("%s: %s; workers wait for it", parts.database, exc)


def _prepare_at_once(parts: ServerComponents) -> None:
    """Prepare the database, without waiting for one that is silent; a file never is.

    :raises BackendUnavailable: it does not answer, or has not answered yet.
    :raises BackendBroken: its schema is wrong.
    """
    if parts.database.is_file:
        parts.prepare()
        return
    result: Future[None] = Future()

    def prepare() -> None:
        try:
            parts.prepare()
        except BaseException as exc:  # noqa: BLE001 - it is raised in the thread that waits
            result.set_exception(exc)
        else:
            result.set_result(None)

    start_daemon_thread("prepare-database", "it cannot be prepared", prepare)
    try:
        result.result(SILENCE)
    except TimeoutError as exc:
        raise BackendUnavailable(f"it has not answered within {SILENCE:g} s") from exc


@contextmanager
def _listening(conf: ConfigOpts) -> Iterator[Sockets]:
    """Yield the sockets of the API, or of the health endpoints alone; remove them at the end.

    :raises ConfigError: a socket cannot be opened.
    """
    from netfw.http.listen_sockets import removal
    from netfw.server.api.config import open_sockets

    with ExitStack() as stack:
        sockets = open_sockets(conf, needed="api" in conf.server.serve)
        for each in sockets.values():
            stack.callback(each.close)
        if conf.api.socket in sockets:
            stack.callback(removal(Path(conf.api.socket)))
        yield sockets


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


if __name__ == "__main__":
    sys.exit(main())
