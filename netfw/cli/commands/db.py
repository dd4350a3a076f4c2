"""``netfw-db``: creates and migrates the tables of the server's database."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from netfw.cli.runtime.arguments import add_file_arguments, file_arguments
from netfw.cli.runtime.output import print_lines
from netfw.conf import database as options
from netfw.conf.loader import load_config
from netfw.errors import BackendError, ConfigError, InvalidInput

if TYPE_CHECKING:
    from netfw.server.db import Database, Transaction

PROGRAM = "netfw-db"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return 0 done, 1 refused or check failed, 2 wrong usage or options."""
    arguments = _parser().parse_args(argv)
    try:
        conf = load_config(PROGRAM, file_arguments(arguments), dict(options.list_opts())).conf
        try:
            from netfw.server.db.factory import make_database
        except ModuleNotFoundError as exc:
            raise ConfigError(f"{exc.name} is missing: pip install 'netfw[server]'") from exc
        database = make_database(conf)
        try:
            work: Callable[[Database, argparse.Namespace], int] = arguments.work
            return work(database, arguments)
        finally:
            database.close()
    except ConfigError as exc:
        print(f"{PROGRAM}: {exc}", file=sys.stderr)
        return 2
    except (BackendError, InvalidInput) as exc:
        print(f"{PROGRAM}: {exc}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=PROGRAM, description="The tables of netfw's database.")
    add_file_arguments(parser)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    command = commands.add_parser("upgrade", help="make the tables, or bring them forward")
    command.add_argument("version", nargs="?", default="head", help="the newest, unless said")
    command.set_defaults(work=_upgrade)
    command = commands.add_parser("downgrade", help="bring them back; what they held is lost")
    command.add_argument("version", help="to which version; 'base': no tables at all")
    command.set_defaults(work=_downgrade)
    command = commands.add_parser("current", help="say which version they have")
    command.set_defaults(work=_current)
    command = commands.add_parser("check", help="say in what they differ from what is needed")
    command.set_defaults(work=_check)
    command = commands.add_parser(
        "restored", help="after a backup was restored: have all agents read everything anew"
    )
    command.set_defaults(work=_restored)
    command = commands.add_parser(
        "outbox", help="print deliveries that devices and outside parties have not received"
    )
    chosen = command.add_mutually_exclusive_group()
    chosen.add_argument("--retry", action="store_true", help="retry refused and paused deliveries")
    chosen.add_argument("--forget", metavar="DRIVER", help="a driver that is no longer used")
    command.set_defaults(work=_outbox)
    return parser


def _upgrade(database: Database, arguments: argparse.Namespace) -> int:
    from netfw.server.db import migration

    migration.upgrade(database, arguments.version)
    return _current(database, arguments)


def _downgrade(database: Database, arguments: argparse.Namespace) -> int:
    from netfw.server.db import migration

    migration.downgrade(database, arguments.version)
    return _current(database, arguments)


def _current(database: Database, _: argparse.Namespace) -> int:
    from netfw.server.db import migration

    found, newest = migration.current(database), migration.newest()
    text = "no tables" if found is None else f"version {found}"
    print(text if found == newest else f"{text}; the newest is {newest}")
    return 0


def _check(database: Database, _: argparse.Namespace) -> int:
    from netfw.server.db import migration

    migration.require_newest(database)
    found = migration.differences(database)
    for each in found:
        print(each)
    print("the tables are as they should be" if not found else f"{len(found)} differences")
    return 1 if found else 0


def _restored(database: Database, _: argparse.Namespace) -> int:
    database.transaction(lambda transaction: transaction.journal.start_epoch())
    print("agents will read everything anew")
    return 0


def _outbox(database: Database, arguments: argparse.Namespace) -> int:
    """Print pending deliveries; return 1 when a target refused or did not answer."""
    from netfw.server.db import migration

    migration.require_newest(database)
    if arguments.retry:
        count = database.transaction(lambda transaction: transaction.outbox.retry())
        print(f"{count} are tried again")
        return 0
    if arguments.forget is not None:
        return _forget(database, arguments.forget)
    backlogs, failures = database.transaction(
        lambda tx: (tx.outbox.backlogs(), tx.outbox.failures())
    )
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


def _forget(database: Database, driver: str) -> int:
    """Drop the deliveries of a target; return 1 when there are none: the name may be wrong."""

    def forget(transaction: Transaction) -> tuple[set[str], int]:
        known = {*transaction.outbox.backlogs(), *_lanes(transaction)}
        return known, transaction.outbox.delete_driver(driver)

    known, gone = database.transaction(forget)
    if driver in known:
        print(f"{gone} are forgotten")
        return 0
    text = f"; something waits for {', '.join(sorted(known))}" if known else ""
    print(f"nothing waits for {driver!r}{text}")
    return 1


def _lanes(transaction: Transaction) -> Iterator[str]:
    return (failure.lane.driver for failure in transaction.outbox.failures())


if __name__ == "__main__":
    sys.exit(main())
