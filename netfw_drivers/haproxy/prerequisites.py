"""Prerequisites of metadata proxies on this host."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from netfw.errors import ConfigError, NetfwError
from netfw.linux.fs.permissions import Right, exposure_problem, has_permission
from netfw.linux.process import run_command, why_missing
from netfw_drivers.haproxy.settings import Settings
from netfw_drivers.haproxy.users import group_id, user_id, with_account

OLDEST = (2, 4)
"""Oldest haproxy that supports the configuration."""

_VERSION = re.compile(r"[Vv]ersion (\d+)\.(\d+)")


def find_problems(settings: Settings) -> Iterator[str]:
    """Yield missing prerequisites, each with what to do.  Changes nothing."""
    yield from _haproxy()
    try:
        user, group = _account(settings)
    except ConfigError as error:
        yield str(error)
    else:
        yield from _socket(Path(settings.socket), user, group)
    if exposed := exposure_problem(settings.directory):
        yield f"metadata_proxy_confs: {exposed}"
    if settings.log_file is not None and not settings.log_file.parent.is_dir():
        yield f"metadata_proxy_log_file: there is no directory {settings.log_file.parent}: make it"


def _haproxy() -> Iterator[str]:
    if missing := why_missing("haproxy"):
        yield missing
        return
    try:
        output = run_command(["haproxy", "-v"]).output
    except NetfwError as error:
        yield str(error)
        return
    found = _VERSION.search(output)
    if found is not None and (int(found[1]), int(found[2])) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        yield f"haproxy {found[1]}.{found[2]} is too old: install {oldest} or later"


def _account(settings: Settings) -> tuple[int, int]:
    chosen = with_account(settings)
    user = os.geteuid() if chosen.user is None else user_id(chosen.user)
    return user, os.getegid() if chosen.group is None else group_id(chosen.group)


def _socket(socket: Path, user: int, group: int) -> Iterator[str]:
    """Yield why proxies cannot reach the socket, as far as its path exists."""
    for directory in reversed(socket.parents):
        if directory.exists() and not has_permission(
            directory, Right.SEARCH, user=user, groups={group}
        ):
            yield (
                f"proxies run as user {user} and group {group}, and cannot pass {directory} on "
                f"their way to {socket}: change its mode or owner, or metadata_proxy_group"
            )
            return
    if socket.exists() and not has_permission(socket, Right.WRITE, user=user, groups={group}):
        yield (
            f"proxies run as user {user} and group {group}, and may not write to {socket}: change "
            "the mode that the metadata agent gives it, or metadata_proxy_group"
        )
