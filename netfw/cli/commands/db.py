"""``netfw-db``: creates and migrates the tables of the server's database."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from netfw.cli.runtime.arguments import (
    add_file_arguments,
    add_json_argument,
    file_arguments,
    make_parser,
)
from netfw.cli.runtime.output import print_lines
from netfw.cli.runtime.progress import ProgressLine
from netfw.conf import database as options
from netfw.conf.loader import load_config
from netfw.errors import BackendError, BackendUnavailable, ConfigError, RequestError

if TYPE_CHECKING:
    from netfw.server.db import Database, Transaction
    from netfw.server.db.outbox import Backlog, OutboxFailure

PROGRAM = "netfw-db"
EPILOG = (
    "Exit status: 0 done, 1 refused, or a difference or a failed delivery was found, 2 wrong usage "
    "or configuration."
)
_AFTER = "after_"
"""Prefix of the attributes of files that are named after the command."""
Work = Callable[["Database", argparse.Namespace], int]


def parser() -> argparse.ArgumentParser:
    """Build the parser of the program's arguments."""
    made = make_parser(PROGRAM, "The tables of netfw's database.", epilog=EPILOG)
    add_file_arguments(made)
    commands = made.add_subparsers(required=True, metavar="COMMAND")
    about = "create the tables, or migrate them to a newer version"
    command = _add_command(commands, "upgrade", _upgrade, about)
    command.add_argument("version", nargs="?", default="head", help="default: the newest")
    about = "migrate the tables to an older version; what it cannot store is deleted"
    command = _add_command(commands, "downgrade", _downgrade, about)
    command.add_argument("version", help="to which version; 'base': no tables at all")
    _add_command(commands, "current", _current, "print the version of the tables")
    about = "compare the tables with the schema of this release"
    _add_command(commands, "check", _check, about)
    about = "after a backup was restored: make all agents read a new snapshot"
    _add_command(commands, "mark-restored", _mark_restored, about)
    about = "print deliveries that devices and outside parties have not received"
    command = _add_command(commands, "outbox", _outbox, about)
    chosen = command.add_mutually_exclusive_group()
    chosen.add_argument("--retry", action="store_true", help="retry refused and paused deliveries")
    chosen.add_argument(
        "--discard",
        metavar="DRIVER",
        help="discard all deliveries to a driver that is no longer used",
    )
    return made


def _add_command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, work: Work, about: str
) -> argparse.ArgumentParser:
    command = commands.add_parser(name, help=about, description=about)
    add_json_argument(command)
    add_file_arguments(command, prefix=_AFTER)
    command.set_defaults(work=work)
    return command


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return 0 done, 1 refused or check failed, 2 wrong usage or options."""
    arguments = parser().parse_args(argv)
    try:
        files = file_arguments(arguments, "", _AFTER)
        conf = load_config(PROGRAM, files, dict(options.list_opts())).conf
        try:
            from netfw.server.db.factory import make_database
        except ModuleNotFoundError as exc:
            raise ConfigError(f"{exc.name} is missing: pip install 'netfw[server]'") from exc
        work: Work = arguments.work
        database = make_database(conf, create=work is _upgrade)
        try:
            return work(database, arguments)
        except BackendUnavailable as exc:
            if database.is_file:
                raise
            raise BackendUnavailable(f"{exc}; [database] connection is {database}") from exc
        finally:
            database.close()
    except ConfigError as exc:
        print(f"{PROGRAM}: {exc}", file=sys.stderr)
        return 2
    except (BackendError, RequestError) as exc:
        print(f"{PROGRAM}: {exc}", file=sys.stderr)
        return 1


def _upgrade(database: Database, arguments: argparse.Namespace) -> int:
    from netfw.server.db import migration

    with ProgressLine() as progress:
        migration.upgrade(database, arguments.version, _step_line(progress))
    return _current(database, arguments)


def _step_line(progress: ProgressLine) -> Callable[[str], None]:
    """Return what shows each version on the way of a migration."""
    from netfw.server.db import migration

    newest = migration.newest()
    return lambda version: progress.show(f"{PROGRAM}: version {version} of {newest} is done")


def _downgrade(database: Database, arguments: argparse.Namespace) -> int:
    from netfw.server.db import migration

    with ProgressLine() as progress:
        migration.downgrade(database, arguments.version, _step_line(progress))
    return _current(database, arguments)


def _current(database: Database, arguments: argparse.Namespace) -> int:
    from netfw.server.db import migration

    found, newest = migration.current(database), migration.newest()
    if arguments.json:
        return _print_json({"version": found, "newest": newest})
    text = "no tables" if found is None else f"version {found}"
    print(text if found == newest else f"{text}; the newest is {newest}")
    return 0


def _print_json(value: object, status: int = 0) -> int:
    print(json.dumps(value, indent=2))
    return status


def _check(database: Database, arguments: argparse.Namespace) -> int:
    from netfw.server.db import migration

    migration.require_newest(database)
    found = migration.differences(database)
    if arguments.json:
        return _print_json({"differences": found}, 1 if found else 0)
    for each in found:
        print(each)
    print("the tables are as they should be" if not found else f"{len(found)} differences")
    return 1 if found else 0


def _mark_restored(database: Database, arguments: argparse.Namespace) -> int:
    database.transaction(lambda transaction: transaction.journal.start_epoch())
    if arguments.json:
        return _print_json({"restored": True})
    print("agents will read everything anew")
    return 0


def _outbox(database: Database, arguments: argparse.Namespace) -> int:
    """Print pending deliveries; return 1 when a target refused or did not answer."""
    from netfw.server.db import migration

    migration.require_newest(database)
    if arguments.retry:
        count = database.transaction(lambda transaction: transaction.outbox.retry())
        if arguments.json:
            return _print_json({"retried": count})
        print(f"{count} are tried again")
        return 0
    if arguments.discard is not None:
        return _discard(database, arguments)
    backlogs, failures = database.transaction(
        lambda tx: (tx.outbox.backlogs(), tx.outbox.failures())
    )
    if arguments.json:
        return _print_json(_outbox_state(backlogs, failures), 1 if failures else 0)
    for driver, backlog in sorted(backlogs.items()):
        print(
            f"{driver}: {backlog.waiting} waiting, {backlog.failed} refused, "
            f"the oldest for {backlog.oldest:.0f} s"
        )
    for failure in failures:
        what = f"network {failure.lane.name}" if failure.lane.name else "all that waits"
        if failure.ref is not None:
            print_lines([f"refused by {failure.lane.driver}: {failure.ref}: {failure.error}"])
        else:
            times = f"attempt {failure.attempts}"
            print_lines([f"later for {failure.lane.driver}: {what}, {times}: {failure.error}"])
    if not backlogs:
        print("nothing waits")
    return 1 if failures else 0


def _outbox_state(
    backlogs: Mapping[str, Backlog], failures: Sequence[OutboxFailure]
) -> dict[str, object]:
    targets = {
        driver: {
            "waiting": backlog.waiting,
            "refused": backlog.failed,
            "oldest_seconds": backlog.oldest,
        }
        for driver, backlog in sorted(backlogs.items())
    }
    described = [
        {
            "driver": failure.lane.driver,
            "network": failure.lane.name or None,
            "resource": None if failure.ref is None else str(failure.ref),
            "attempts": failure.attempts,
            "error": str(failure.error),
        }
        for failure in failures
    ]
    return {"targets": targets, "failures": described}


def _discard(database: Database, arguments: argparse.Namespace) -> int:
    """Drop the deliveries of a target; return 1 when there are none: the name may be wrong."""
    driver: str = arguments.discard

    def discard(transaction: Transaction) -> tuple[set[str], int]:
        known = {*transaction.outbox.backlogs(), *_lanes(transaction)}
        return known, transaction.outbox.delete_driver(driver)

    known, gone = database.transaction(discard)
    if arguments.json:
        return _print_json({"discarded": gone}, 0 if driver in known else 1)
    if driver in known:
        print(f"{gone} discarded")
        return 0
    text = f"; something waits for {', '.join(sorted(known))}" if known else ""
    print(f"nothing waits for {driver!r}{text}")
    return 1


def _lanes(transaction: Transaction) -> Iterator[str]:
    return (failure.lane.driver for failure in transaction.outbox.failures())


if __name__ == "__main__":
    sys.exit(main())
