"""``netfw``: the command for people who write, embed and run drivers."""

from __future__ import annotations

import argparse
import errno
import io
import os
import sys
from collections.abc import Sequence

from netfw.cli.commands import (
    clean,
    completion,
    conformance,
    doctor,
    drivers,
    explain,
    lab,
    new_driver,
    plan,
    status,
    token,
    trace,
)
from netfw.cli.demo import command as demo
from netfw.cli.runtime.arguments import make_parser
from netfw.cli.runtime.output import print_error
from netfw.errors import ConfigError, NetfwError


def parser() -> argparse.ArgumentParser:
    """Build the parser; each sub-command sets ``func``, which returns the exit status."""
    top = make_parser("netfw", "Virtual networking, driver by driver.")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    conformance.add_parser(commands)
    demo.add_parser(commands)
    clean.add_parser(commands)
    completion.add_parser(commands, parser)
    doctor.add_parser(commands)
    drivers.add_parser(commands)
    explain.add_parser(commands)
    lab.add_parser(commands)
    new_driver.add_parser(commands)
    plan.add_parser(commands)
    status.add_parser(commands)
    token.add_parser(commands)
    trace.add_parser(commands)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return 0 done, 1 failed, 2 wrong usage."""
    return _run(parser(), argv)


def conformance_parser() -> argparse.ArgumentParser:
    """Build the parser of ``netfw-conformance``."""
    return conformance.script_parser()


def conformance_main(argv: Sequence[str] | None = None) -> int:
    """Run ``netfw-conformance``, which is ``netfw conformance``."""
    return _run(conformance_parser(), argv)


def _run(parser: argparse.ArgumentParser, argv: Sequence[str] | None) -> int:
    _prepare_output()
    try:
        try:
            arguments = parser.parse_args(argv)
            status: int = arguments.func(arguments)
        finally:
            sys.stdout.flush()  # so that no error of it comes after this function
    except ConfigError as exc:
        print_error(exc)
        return 2
    except NetfwError as exc:
        print_error(exc)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader has closed the pipe
        _discard_output()
        return 141
    except OSError as exc:
        if exc.errno != errno.ENOSPC:
            raise
        print_error(f"the output is incomplete: {exc.strerror}")
        _discard_output()
        return 1
    return status


def _prepare_output() -> None:
    """Let commands print any text to any standard output, also to one that is closed."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - it is open until the process ends
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _discard_output() -> None:
    """Send what is still buffered to nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
