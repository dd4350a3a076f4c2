"""What the metadata agent says of itself, and the mode of its socket.  Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from attrs import frozen

from netfw.agents.common.heartbeat import make_heartbeat
from netfw.drivers.reports import Heartbeat
from netfw.errors import ConfigError

_MODES = {"user": 0o644, "group": 0o664, "all": 0o666}
_OCTAL = re.compile(r"0?[0-7]{3}")


@frozen(kw_only=True)
class MetadataSettings:
    """What the operator decides about the metadata agent of a host."""

    host: str
    socket: Path
    mode: int = 0o666
    service_host: str = ""
    service_port: int = 0
    workers: int = 32
    backlog: int = 4096
    """Requests that wait for a worker."""
    binary: str = "netfw-metadata-agent"
    agent_type: str = "Metadata agent"


def announce(settings: MetadataSettings, counts: Mapping[str, int], *, start: bool) -> Heartbeat:
    """The agent's state report, with the keys that servers and operators know."""
    configurations: dict[str, object] = {
        "metadata_proxy_socket": str(settings.socket),
        "nova_metadata_host": settings.service_host,
        "nova_metadata_port": settings.service_port,
        "metadata_workers": settings.workers,
    }
    return make_heartbeat(settings, configurations, counts, start=start, topic="N/A")


@frozen(kw_only=True)
class RunAs:
    """A user and a group, by their numbers."""

    user: int
    group: int


def socket_mode(word: str, agent: RunAs, proxy: RunAs) -> int:
    """The mode that *word* says: ``user``, ``group``, ``all``, ``deduce``, or an octal number.

    ``deduce`` gives as little as a *proxy* needs to connect to the socket of the *agent*.

    :raises ConfigError: it is none of these.
    """
    if word == "deduce":
        if proxy.user in (0, agent.user):
            word = "user"
        else:
            word = "group" if proxy.group == agent.group else "all"
    if word in _MODES:
        return _MODES[word]
    if not _OCTAL.fullmatch(word):
        raise ConfigError(
            f"metadata_proxy_socket_mode cannot be {word!r}: it is deduce, user, group, all, or "
            "an octal number such as 0660"
        )
    return int(word, 8)
