"""Users and groups of this host, by name or number."""

from __future__ import annotations

import grp
import os
import pwd

from attrs import evolve

from netfw.conf.metadata_agent import PROXY_USERS
from netfw.errors import ConfigError
from netfw.linux.process.users import first_user
from netfw_drivers.haproxy.settings import Settings


def with_account(settings: Settings) -> Settings:
    """Return *settings* with the user and the group of proxies.

    Both stay unset for an agent that cannot change its user: its proxies run as itself.

    :raises ConfigError: there is no such user.
    """
    user = settings.user
    if user is None and os.geteuid() == 0:
        user = first_user(PROXY_USERS)
    if user is None:
        return settings
    return evolve(settings, user=user, group=settings.group or first_group(user))


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
