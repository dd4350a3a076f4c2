"""``netfw``: the command for people who write, embed and run drivers."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version

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
from netfw.cli.runtime.output import print_error
from netfw.errors import ConfigError, NetfwError


def parser() -> argparse.ArgumentParser:
    """Build the parser; each sub-command sets ``func``, which returns the exit status."""
    top = argparse.ArgumentParser(prog="netfw", description="Virtual networking, driver by driver.")
    top.add_argument("--version", action="version", version=f"netfw {version('netfw')}")
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
    arguments = parser().parse_args(argv)
    try:
        status: int = arguments.func(arguments)
    except ConfigError as exc:
        print_error(exc)
        return 2
    except NetfwError as exc:
        print_error(exc)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # whoever read the output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    return status


def conformance_main(argv: Sequence[str] | None = None) -> int:
    """Run ``netfw-conformance``, which is ``netfw conformance``."""
    return main(["conformance", *(sys.argv[1:] if argv is None else argv)])


if __name__ == "__main__":
    sys.exit(main())
