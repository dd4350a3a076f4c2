"""``netfw completion``: prints the completion script of a shell."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from netfw.errors import ConfigError

SHELLS = ("bash", "zsh", "tcsh")


def add_parser(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    parser: Callable[[], argparse.ArgumentParser],
) -> None:
    found = commands.add_parser(
        "completion",
        help="print the completion script of a shell",
        description="Print the completion script of a shell, to be read by it: for bash, "
        'eval "$(netfw completion bash)" in ~/.bashrc.',
    )
    found.add_argument("shell", choices=SHELLS)
    found.set_defaults(func=lambda arguments: _print_script(parser(), arguments.shell))


def _print_script(parser: argparse.ArgumentParser, shell: str) -> int:
    try:
        import shtab
    except ModuleNotFoundError as exc:
        raise ConfigError("shtab is missing: pip install 'netfw[completion]'") from exc
    print(shtab.complete(parser, shell))
    return 0
