"""Users and groups of this host, by name or number."""

from __future__ import annotations

import grp
import pwd

from netfw.errors import ConfigError


def user_id(user: str) -> int:
    """Return the id of a user.

    :raises ConfigError: there is no such user.
    """
    if user.isdecimal():
        return int(user)
    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError as error:
        raise ConfigError(
            f"metadata_proxy_user: there is no user {user!r} here; make it, or name another one"
        ) from error


def group_id(group: str) -> int:
    """Return the id of a group.

    :raises ConfigError: there is no such group.
    """
    if group.isdecimal():
        return int(group)
    try:
        return grp.getgrnam(group).gr_gid
    except KeyError as error:
        raise ConfigError(
            f"metadata_proxy_group: there is no group {group!r} here; make it, or name another one"
        ) from error


def first_group(user: str) -> str:
    """Return the id of the primary group of *user*, as text.

    :raises ConfigError: there is no such user.
    """
    try:
        return str(pwd.getpwuid(user_id(user)).pw_gid)
    except KeyError as error:
        raise ConfigError(
            f"metadata_proxy_user: there is no user with the id {user} here, so that its group "
            "is not known: set metadata_proxy_group"
        ) from error
