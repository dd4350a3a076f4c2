"""Arguments that commands and daemons share: files, ``--version`` and ``--json``."""

from __future__ import annotations

import argparse
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from netfw.errors import nearest

if TYPE_CHECKING:
    from _typeshed import SupportsWrite


class _Parser(argparse.ArgumentParser):
    """Prints its help itself: argparse ignores errors of the output since Python 3.12.

    Parsers of sub-commands refuse unknown arguments themselves, with their own usage.
    """

    def print_help(self, file: SupportsWrite[str] | None = None) -> None:
        print(self.format_help(), end="", file=file)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return found, unknown

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as exc:
            exc.message += nearest(str(value), map(str, action.choices or ()))
            raise


class _PrintVersion(argparse.Action):
    """Prints the version of a program and ends it; errors of the output are raised."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        print(f"{parser.prog} {version('netfw')}")
        parser.exit()


def make_parser(program: str, description: str, **options: Any) -> argparse.ArgumentParser:
    """Make the parser of a console script, with ``--version``."""
    parser = _Parser(prog=program, description=description, **options)
    parser.add_argument("--version", action=_PrintVersion, nargs=0, help="print the version")
    return parser


def add_json_argument(parser: argparse.ArgumentParser) -> None:
    """Add ``--json``."""
    parser.add_argument("--json", action="store_true", help="print JSON for scripts")


def add_file_arguments(parser: argparse.ArgumentParser, prefix: str = "") -> None:
    """Add ``--config-file`` and ``--config-dir``; each may be given several times.

    A *prefix* of the attributes distinguishes those of a sub-command from those before it.
    """
    several: dict[str, Any] = {"action": "append", "default": []}
    parser.add_argument(
        "--config-file",
        dest=f"{prefix}config_file",
        metavar="FILE",
        help="read this file; several: later ones win",
        **several,
    )
    parser.add_argument(
        "--config-dir",
        dest=f"{prefix}config_dir",
        metavar="DIRECTORY",
        help="read all *.conf in it, after the files",
        **several,
    )


def file_arguments(arguments: argparse.Namespace, *prefixes: str) -> list[str]:
    """Return the files and directories as the configuration loader takes them.

    With *prefixes*, those that were added with them, in this order.
    """
    return [
        word
        for option in ("config-file", "config-dir")
        for prefix in prefixes or ("",)
        for name in getattr(arguments, prefix + option.replace("-", "_"))
        for word in (f"--{option}", name)
    ]
