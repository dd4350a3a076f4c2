"""Users and groups by name or number, as this machine knows them."""

from __future__ import annotations

import grp
import pwd

from netfw.errors import ConfigError


def user_id(user: str) -> int:
    """The number of a user.

    :raises ConfigError: there is none of that name.
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
    """The number of a group.

    :raises ConfigError: there is none of that name.
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
    """The number, in words, of the group that *user* has first.

    :raises ConfigError: this machine does not know the user.
    """
    try:
        return str(pwd.getpwuid(user_id(user)).pw_gid)
    except KeyError as error:
        raise ConfigError(
            f"metadata_proxy_user: nobody has the number {user} here, so that its group is not "
            "known: set metadata_proxy_group"
        ) from error
