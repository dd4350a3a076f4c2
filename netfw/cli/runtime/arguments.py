"""The arguments ``--config-file`` and ``--config-dir`` of commands and daemons."""

from __future__ import annotations

import argparse
from typing import Any


def add_file_arguments(parser: argparse.ArgumentParser) -> None:
    """Add both arguments to *parser*; each may be given several times."""
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
    """Return both arguments as the configuration loader takes them."""
    files = [word for name in arguments.config_file for word in ("--config-file", name)]
    return files + [word for name in arguments.config_dir for word in ("--config-dir", name)]
