"""Renderer of the configuration of conntrackd, which has standby instances of a router know its
established connections.

Entries of the active instance go into the kernel tables of the others at once
(``DisableExternalCache``): a failover needs no command to be complete.

conntrackd calls the connections that it sends to others its internal cache.  It is right while
the active instance alone has one: a connection that expires is removed at all instances by the one
that has it there.  So a role that begins is followed by a command, which keepalived runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from attrs import frozen

from netfw.errors import InvalidInput
from netfw.model.values.device_names import check_device_name

GROUPS = IPv4Network("239.192.0.0/24")
"""Network of the multicast groups of routers, one for each virtual router id."""
PORT = 3780
"""UDP port that all instances listen on."""
LOCK, SOCKET = ".lock", ".ctl"
"""Ends of the names of the files that conntrackd makes beside its configuration."""
MAX_PATH = 107
"""Limit of the length of the path of a socket."""

_PATH = re.compile(r"/[A-Za-z0-9_./:@+-]*")
_SEND_BUFFER = _RECEIVE_BUFFER = 1 << 20
_EVENT_BUFFER, _EVENT_BUFFER_LIMIT = 1 << 20, 1 << 23
_RESEND_QUEUE = 1 << 16
_TIMEOUT = 10
"""Seconds until a command to a conntrackd that hangs is given up."""


@frozen(kw_only=True)
class ConntrackdSettings:
    """Settings of conntrackd that all routers of a host share."""

    hash_size: int = 32768
    """Buckets of the table of connections."""
    hash_limit: int = 131072
    """Limit of connections of a router that others know."""


@frozen(kw_only=True)
class ConntrackdInstance:
    """One instance of a highly available router.

    :raises InvalidInput: a name or address that cannot be.
    """

    vrid: int
    device: str
    """Name of the device on the HA network."""
    source: IPv4Address
    """Address of this instance on the HA network."""
    path: Path
    """Path of the configuration."""
    settings: ConntrackdSettings

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.source, IPv4Address):
            raise InvalidInput({"HA network": f"{self.source!s}: conntrackd needs an IPv4 address"})
        if why := path_problem(self.path):
            raise InvalidInput({"conntrackd": why})
        try:
            check_device_name(self.device)
        except ValueError as error:
            raise InvalidInput({"device": str(error)}) from error


def path_problem(path: Path) -> str | None:
    """Return why conntrackd cannot have its configuration at *path*, or ``None``."""
    if not _PATH.fullmatch(str(path)):
        return f"{path} has other characters than letters, digits and _ . / : @ + -"
    length = len(f"{path}{SOCKET}")
    if length > MAX_PATH:
        return f"the path of its socket would have {length} characters: at most {MAX_PATH}"
    return None


def render_conntrackd(instance: ConntrackdInstance) -> str:
    """Render the configuration file; equal values render to equal text."""
    lines = ["Sync {", *_sync_lines(instance), "}", "General {", *_general_lines(instance), "}"]
    return "".join(f"{line}\n" for line in lines)


def _sync_lines(instance: ConntrackdInstance) -> list[str]:
    return [
        "    Mode FTFW {",
        f"        ResendQueueSize {_RESEND_QUEUE}",
        "        DisableExternalCache Yes",
        "        StartupResync Yes",
        "    }",
        "    Multicast {",
        f"        IPv4_address {GROUPS[instance.vrid]}",
        f"        Group {PORT}",
        f"        IPv4_interface {instance.source}",
        f"        Interface {instance.device}",
        f"        SndSocketBuffer {_SEND_BUFFER}",
        f"        RcvSocketBuffer {_RECEIVE_BUFFER}",
        "        Checksum On",
        "    }",
    ]


def _general_lines(instance: ConntrackdInstance) -> list[str]:
    settings, path = instance.settings, instance.path
    return [
        "    Systemd Off",
        f"    HashSize {settings.hash_size}",
        f"    HashLimit {settings.hash_limit}",
        "    LogFile Off",
        "    Syslog Off",
        f"    LockFile {path}{LOCK}",
        "    UNIX {",
        f"        Path {path}{SOCKET}",
        "    }",
        f"    NetlinkBufferSize {_EVENT_BUFFER}",
        f"    NetlinkBufferSizeMaxGrowth {_EVENT_BUFFER_LIMIT}",
        "    NetlinkOverrunResync Off",
        "    Scheduler {",
        "        Type RR",
        "        Priority 1",
        "    }",
        "    Filter From Kernelspace {",
        "        Protocol Accept {",
        "            TCP",
        "            SCTP",
        "            DCCP",
        "        }",
        "    }",
    ]


def role_commands(path: Path, *, active: bool) -> list[tuple[str, ...]]:
    """Return the commands of an instance that became active, or another one.

    The active one sends all connections that its kernel has, from now on.  Another one sends none,
    and requests all of the active one.
    """
    every = (("-R",), ("-B",)) if active else (("-f", "internal"), ("-n",))
    return [("conntrackd", "-C", str(path), *each) for each in every]


def notify_lines(path: Path) -> list[str]:
    """Render what keepalived runs when the role of its instance changes."""
    active, other = (_script(role_commands(path, active=each)) for each in (True, False))
    scripts = {"master": active, "backup": other, "fault": other, "stop": other}
    return [f'    notify_{state} "{script}"' for state, script in scripts.items()]


def _script(commands: Iterable[tuple[str, ...]]) -> str:
    text = " && ".join(map(" ".join, commands))
    return f"/usr/bin/timeout {_TIMEOUT} /bin/sh -c '{text}'"
