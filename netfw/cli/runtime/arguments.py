"""``--config-file`` and ``--config-dir``, as every command and process takes them."""

from __future__ import annotations

import argparse
from typing import Any


def add_file_arguments(parser: argparse.ArgumentParser) -> None:
    """Let *parser* take them, each several times."""
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
    """The same, as the reader of configurations takes them."""
    files = [word for name in arguments.config_file for word in ("--config-file", name)]
    return files + [word for name in arguments.config_dir for word in ("--config-dir", name)]
