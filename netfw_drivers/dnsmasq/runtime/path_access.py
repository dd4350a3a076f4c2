"""Whether dnsmasq, which gives up root's rights, can read what is written for it.

It says nothing when it cannot look into a directory, and answers nobody.
"""

from __future__ import annotations

import grp
import os
import pwd
from contextlib import suppress
from pathlib import Path

from netfw.linux.fs.permissions import Right, has_permission

USUAL = "nobody"
"""Whom dnsmasq was built to run as, if it is not told."""
_GROUP = "dip"
"""The group it was built to run as, where there is one of that name."""


def access_problem(directory: Path, user: str | None) -> str | None:
    """Why a dnsmasq that root starts, to run as *user*, cannot look into *directory*, or into
    that part of its path which is there; with what to do.  ``None``: it can."""
    if os.geteuid() != 0:
        return None  # it runs as whoever starts it
    try:
        account = pwd.getpwnam(user or USUAL)
    except KeyError:
        return None if user is None else f"dnsmasq_user: there is no user {user!r} here: make it"
    groups = {account.pw_gid}
    with suppress(KeyError):
        groups.add(grp.getgrnam(_GROUP).gr_gid)
    path = directory.resolve()
    for each in (*reversed(path.parents), path):
        if each.is_dir() and not has_permission(
            each, Right.SEARCH, user=account.pw_uid, groups=groups
        ):
            return (
                f"dnsmasq runs as {account.pw_name}, who may not pass {each} on the way to "
                f"{directory}: chmod o+x {each}, or change dhcp_confs or dnsmasq_user"
            )
    return None
