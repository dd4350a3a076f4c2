"""Arguments that commands and daemons share: files, ``--version`` and ``--json``."""

from __future__ import annotations

import argparse
from importlib.metadata import version
from typing import Any


def make_parser(program: str, description: str, **options: Any) -> argparse.ArgumentParser:
    """Make the parser of a console script, with ``--version``."""
    parser = argparse.ArgumentParser(prog=program, description=description, **options)
    text = f"{program} {version('netfw')}"
    parser.add_argument("--version", action="version", version=text, help="print the version")
    return parser


def add_json_argument(parser: argparse.ArgumentParser) -> None:
    """Add ``--json``."""
    parser.add_argument("--json", action="store_true", help="print JSON for scripts")


def add_file_arguments(parser: argparse.ArgumentParser) -> None:
    """Add ``--config-file`` and ``--config-dir``; each may be given several times."""
    several: dict[str, Any] = {"action": "append", "default": []}
    parser.add_argument(
        "--config-file", metavar="FILE", help="read this file; several: later ones win", **several
    )
    parser.add_argument(
        "--config-dir",
        metavar="DIRECTORY",
        help="read all *.conf in it, after the files",
        **several,
    )


def file_arguments(arguments: argparse.Namespace) -> list[str]:
    """Return the files and directories as the configuration loader takes them."""
    files = [word for name in arguments.config_file for word in ("--config-file", name)]
    return files + [word for name in arguments.config_dir for word in ("--config-dir", name)]
