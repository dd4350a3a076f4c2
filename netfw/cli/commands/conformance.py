"""``netfw conformance``, or ``netfw-conformance``: the promises that a package keeps and breaks."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from attrs import asdict

from netfw.cli.runtime.arguments import add_json_argument, make_parser
from netfw.cli.runtime.progress import ProgressLine
from netfw.cli.runtime.tables import print_table
from netfw.errors import ConfigError

if TYPE_CHECKING:
    from netfw.testing.promise_report.evaluation import PromiseRow

KEPT, BROKEN, INCOMPLETE = 0, 1, 3
_LONGEST_SENTENCE: Final = 72
HINT: Final = "--verbose shows the tests that failed, --json whole sentences"
DESCRIPTION: Final = "Run every conformance suite that fits the drivers of an installed package."
EPILOG: Final = """\
Each driver is examined by the subclasses of its contract's suite in the modules that the package
registers in the entry-point group netfw.conformance, or in the files given by --tests.

exit status:
  0  every promise that was tried is kept; a promise is not tried where the driver does not
     declare the capability that it needs
  1  a promise is broken, or a driver cannot be loaded
  2  wrong usage: PACKAGE is not installed or registers no driver
  3  nothing is broken, but a driver has no suite, a suite no environment, or a hook an error
"""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "conformance",
        help="run the suites of an installed package and show the promises kept and broken",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_arguments(parser)


def script_parser() -> argparse.ArgumentParser:
    """Build the parser of ``netfw-conformance``."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = make_parser("netfw-conformance", DESCRIPTION, epilog=EPILOG, formatter_class=raw)
    _add_arguments(parser)
    return parser


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("package", metavar="PACKAGE", help="name of an installed distribution")
    add_json_argument(parser)
    tests_help = "file or folder with subclasses of suites; can be repeated"
    parser.add_argument(
        "--tests", type=Path, action="append", default=[], metavar="PATH", help=tests_help
    )
    sandbox_help = "run in namespaces of their own, for suites that need a lab"
    parser.add_argument("--sandbox", action="store_true", help=sandbox_help)
    parser.add_argument("--verbose", action="store_true", help="show the output of pytest, too")
    parser.set_defaults(func=report)


def report(arguments: argparse.Namespace) -> int:
    """Print the promises in one table; return the exit status that the help describes.

    :raises ConfigError: the package has nothing to examine, or pytest is not installed.
    """
    if find_spec("pytest") is None:
        raise ConfigError("the suites need pytest: pip install 'netfw[testing]'")
    from netfw.testing.promise_report.evaluation import PromiseState
    from netfw.testing.promise_report.runner import examine

    with ProgressLine() as progress:
        rows = examine(
            arguments.package,
            arguments.tests,
            is_sandboxed=arguments.sandbox,
            quiet=not arguments.verbose,
            on_count=lambda count: progress.show(f"netfw conformance: {count} tests have ended"),
        )
    if arguments.json:
        print(json.dumps([asdict(row) for row in rows], indent=2))
    else:
        headers = ("DRIVER", "PROMISE", "STATE", "SENTENCE", "WHY")
        print_table(headers, [_cells(row) for row in rows])
        if exit_status(rows) != KEPT:
            print(HINT)
        counted = Counter(row.state for row in rows)
        print(", ".join(f"{counted[state]} {state}" for state in PromiseState))
    return exit_status(rows)


def exit_status(rows: Sequence[PromiseRow]) -> int:
    """Return the exit status for *rows*."""
    from netfw.testing.promise_report.evaluation import PromiseState

    if any(row.state is PromiseState.BROKEN for row in rows):
        return BROKEN
    return INCOMPLETE if any(row.is_incomplete for row in rows) else KEPT


def _cells(row: PromiseRow) -> tuple[str, ...]:
    sentence = _shorten(row.sentence, _LONGEST_SENTENCE)
    return row.driver, row.promise, row.state, sentence, row.reason


def _shorten(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 3]}..."
