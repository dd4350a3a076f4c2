"""``netfw token``: make a token for the server's file of tokens."""

from __future__ import annotations

import argparse
import sys
from datetime import datetime


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    command = commands.add_parser(
        "token",
        help="make a token for the server's token file",
        description="Print a new token, and to standard error the line for the file that "
        "[identity] token_file names.  The token is kept nowhere: note it now.",
    )
    command.add_argument("user", help="whose token it is")
    command.add_argument("--project", default="", help="his project; administrators need none")
    command.add_argument(
        "--role", action="append", help="admin, member or reader; several: give it again"
    )
    command.add_argument(
        "--until", type=datetime.fromisoformat, help="when it expires, such as 2027-01-31"
    )
    command.add_argument("--file", help="append the line to this file")
    command.set_defaults(func=run)


def run(arguments: argparse.Namespace) -> int:
    """Make it.

    :raises ConfigError: a name can not be written into the file.
    """
    from netfw.server.api.identity.claim import Claim
    from netfw.server.api.identity.tokens import append_line, issue

    claim = Claim(
        project_id=arguments.project,
        user=arguments.user,
        roles=frozenset(arguments.role or ("member",)),
    )
    token, line = issue(claim, arguments.until)
    if arguments.file:
        append_line(arguments.file, line)
    else:
        print(line, file=sys.stderr)
    print(token)
    return 0
