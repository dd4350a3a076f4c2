"""What the configuration says of the API, as values and sockets."""

from __future__ import annotations

import re
import socket
from pathlib import Path

from oslo_config.cfg import ConfigOpts, Locations

from netfw.conf.api import GROUP as API_GROUP
from netfw.errors import ConfigError
from netfw.http.listen_sockets import listen_tcp, listen_unix
from netfw.http.server import HttpSettings, TlsFiles
from netfw.server.api.request_body import RequestLimits

_ADDRESS = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<four>[^:\[\]]+)):(?P<port>\d{1,5})")


def bounds(conf: ConfigOpts) -> RequestLimits:
    """How large requests and answers may be."""
    return RequestLimits(body=conf.api.max_body_size, page=conf.api.max_page or None)


def http_settings(conf: ConfigOpts) -> HttpSettings:
    """What one process spends on clients."""
    options = conf.api
    return HttpSettings(
        threads=options.threads,
        queue=options.queue,
        connections=options.connections,
        idle=options.idle_timeout,
        reading=options.read_timeout,
        writing=options.write_timeout,
        body=options.max_body_size,
    )


def tls_files(conf: ConfigOpts) -> TlsFiles | None:
    """What TLS on TCP needs, if it is wanted.

    :raises ConfigError: one of certificate and key is missing.
    """
    options = conf.api
    if not options.tls_certificate and not options.tls_key:
        if options.tls_client_authorities:
            raise ConfigError("[api] tls_client_authorities needs tls_certificate and tls_key")
        return None
    if not (options.tls_certificate and options.tls_key):
        raise ConfigError("[api] tls_certificate and tls_key need each other")
    return TlsFiles(
        certificate=options.tls_certificate,
        key=options.tls_key,
        client_authorities=options.tls_client_authorities or None,
    )


def listening(conf: ConfigOpts, *, needed: bool = True) -> dict[str, socket.socket]:
    """The sockets of the API, by what they are called in the configuration.

    Where it is not *needed*, there may be none, and the socket at its usual place is left to a
    server that has the API.

    :raises ConfigError: one cannot be, or there is none.
    """
    found: dict[str, socket.socket] = {}
    try:
        if conf.api.socket and (needed or _is_said(conf)):
            path = Path(conf.api.socket)
            mode = int(conf.api.socket_mode, 8)
            found[conf.api.socket] = listen_unix(path, mode, option="[api] socket")
        for address in conf.api.bind:
            found[address] = listen_tcp(*_parted(address), option="[api] bind")
    except ConfigError:
        for each in found.values():
            each.close()
        raise
    if needed and not found:
        raise ConfigError("the API listens nowhere: set [api] socket or bind")
    return found


def _is_said(conf: ConfigOpts) -> bool:
    """Whether somebody wrote where the unix socket is to be."""
    found = conf.get_location("socket", API_GROUP)
    return found is not None and found.location is Locations.user


def _parted(address: str) -> tuple[str, int]:
    found = _ADDRESS.fullmatch(address.strip())
    if found is None or int(found["port"]) > 65535:
        raise ConfigError(f"[api] bind: {address!r} is not like 127.0.0.1:9696 or [::1]:9696")
    return found["six"] or found["four"], int(found["port"])
