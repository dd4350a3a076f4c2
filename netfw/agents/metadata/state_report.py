"""Configuration and state report of the metadata agent, and its socket mode.  Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from attrs import frozen

from netfw.agents.common.heartbeat import make_heartbeat
from netfw.drivers.values.reports import Heartbeat
from netfw.errors import ConfigError

DEDUCE = "deduce"
_MODES = {"user": 0o644, "group": 0o664, "all": 0o666}
_OCTAL = re.compile(r"0?[0-7]{3}")


@frozen(kw_only=True)
class MetadataSettings:
    """The configuration of the metadata agent of a host."""

    host: str
    socket: Path
    mode: int = 0o666
    peers: frozenset[int] | None = None
    """User ids whose requests are answered; ``None``: those of all who may connect."""
    service_host: str = ""
    service_port: int = 0
    workers: int = 32
    backlog: int = 4096
    """Maximum number of requests that wait for a worker."""
    binary: str = "netfw-metadata-agent"
    agent_type: str = "Metadata agent"


def make_state_report(
    settings: MetadataSettings, counts: Mapping[str, int], *, start: bool
) -> Heartbeat:
    """Build the state report, with the keys that servers and operators know."""
    configurations: dict[str, object] = {
        "metadata_proxy_socket": str(settings.socket),
        "nova_metadata_host": settings.service_host,
        "nova_metadata_port": settings.service_port,
        "metadata_workers": settings.workers,
    }
    return make_heartbeat(settings, configurations, counts, start=start, topic="N/A")


@frozen(kw_only=True)
class RunAs:
    """The user id and group id of a process."""

    user: int
    group: int


def socket_mode(value: str, agent: RunAs, proxy: RunAs) -> int:
    """Return the mode of an option value: ``user``, ``group``, ``all``, ``deduce`` or octal.

    ``deduce`` is the least permission that a *proxy* needs to connect to the socket of the *agent*.

    :raises ConfigError: the value is none of these.
    """
    if value == DEDUCE:
        if proxy.user in (0, agent.user):
            value = "user"
        else:
            value = "group" if proxy.group == agent.group else "all"
    if value in _MODES:
        return _MODES[value]
    if not _OCTAL.fullmatch(value):
        raise ConfigError(
            f"metadata_proxy_socket_mode cannot be {value!r}: it is deduce, user, group, all, or "
            "an octal number such as 0660"
        )
    return int(value, 8)


def allowed_peers(value: str, agent: RunAs, proxy: RunAs) -> frozenset[int] | None:
    """Return the user ids that may send requests; ``None``: the mode of the socket decides.

    A mode that lets a proxy of another user and group connect lets every user do that.
    """
    return frozenset({0, agent.user, proxy.user}) if value == DEDUCE else None
