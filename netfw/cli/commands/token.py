"""``netfw token``: makes a token for the server's token file."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from netfw.cli.runtime.arguments import add_json_argument
from netfw.errors import nearest

if TYPE_CHECKING:
    from netfw.server.api.identity.headers import ClaimedIdentity

ROLES: Final = frozenset({"admin", "member", "reader", "service"})
"""Roles of the default policy rules."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    command = commands.add_parser(
        "token",
        help="make a token for the server's token file",
        description="Print a new token, and to standard error the line for the file that "
        "[identity] token_file names; with --json both as one object.  The token is kept nowhere: "
        "note it now.",
    )
    command.add_argument("user", help="whose token it is")
    command.add_argument(
        "--project", default="", help="project of the user; administrators need none"
    )
    command.add_argument(
        "--role",
        action="append",
        help="admin, member (the default), reader or service; several: give it again",
    )
    command.add_argument(
        "--until", type=_time, help="when it expires, such as 2027-01-31 or 2027-01-31T12:00Z"
    )
    command.add_argument("--file", help="append the line to this file")
    add_json_argument(command)
    command.set_defaults(func=run)


def run(arguments: argparse.Namespace) -> int:
    """Print a new token, and the line for the token file.

    :raises ConfigError: a name cannot be written into the file.
    """
    from netfw.server.api.identity.headers import ClaimedIdentity
    from netfw.server.api.identity.tokens import append_line, issue

    claim = ClaimedIdentity(
        project_id=arguments.project,
        user=arguments.user,
        roles=frozenset(arguments.role or ("member",)),
    )
    for sentence in _doubts(claim, arguments.until):
        print(f"netfw token: {sentence}", file=sys.stderr)
    token, line = issue(claim, arguments.until)
    if arguments.file:
        append_line(arguments.file, line)
    if arguments.json:
        print(json.dumps({"token": token, "line": line}, indent=2))
        return 0
    if not arguments.file:
        print(line, file=sys.stderr)
    print(token)
    return 0


def _time(text: str) -> datetime:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no time such as 2027-01-31 or 2027-01-31T12:00Z"
        ) from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _doubts(claim: ClaimedIdentity, until: datetime | None) -> Iterator[str]:
    """Yield warnings about arguments that are possible and probably wrong."""
    roles = {role.lower() for role in claim.roles}
    for role in sorted(roles - ROLES):
        yield (
            f"the role {role!r} may do nothing unless a rule of [policy] file names it"
            f"{nearest(role, ROLES)}"
        )
    if not claim.project_id and "admin" not in roles:
        yield "without --project the token is refused: only administrators need none"
    if until is not None and until <= datetime.now(UTC):
        yield f"it has expired already, on {until.isoformat()}"
