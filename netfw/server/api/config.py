"""Settings and sockets of the API from the configuration."""

from __future__ import annotations

import socket
from pathlib import Path

from oslo_config.cfg import ConfigOpts, Locations

from netfw.conf.api import GROUP as API_GROUP
from netfw.errors import ConfigError
from netfw.http.event_streams import StreamSettings
from netfw.http.listen_sockets import listen_tcp, listen_unix, parse_address
from netfw.http.server import HttpSettings, TlsFiles
from netfw.server.api.request_body import RequestLimits


def request_limits(conf: ConfigOpts) -> RequestLimits:
    """Return the limits on requests and pages."""
    return RequestLimits(body=conf.api.max_body_size, page=conf.api.pagination_max_limit or None)


def http_settings(conf: ConfigOpts) -> HttpSettings:
    """Return the settings of the HTTP server of one process."""
    options = conf.api
    return HttpSettings(
        threads=options.threads,
        queue=options.max_queued_requests,
        connections=options.max_connections,
        idle=options.idle_timeout,
        reading=options.read_timeout,
        writing=options.write_timeout,
        body=options.max_body_size,
    )


def stream_settings(conf: ConfigOpts) -> StreamSettings:
    """Return the limits of the event streams of one process."""
    most = conf.api.live_streams
    return StreamSettings(most=most, most_per_owner=-(-most // 4))


def tls_files(conf: ConfigOpts) -> TlsFiles | None:
    """Return the files for TLS on TCP, or ``None`` without TLS.

    :raises ConfigError: the certificate or the key is missing.
    """
    options = conf.api
    if not options.tls_certificate and not options.tls_key:
        if options.tls_client_ca:
            raise ConfigError("[api] tls_client_ca needs tls_certificate and tls_key")
        return None
    if not (options.tls_certificate and options.tls_key):
        raise ConfigError("[api] tls_certificate and tls_key need each other")
    return TlsFiles(
        certificate=options.tls_certificate,
        key=options.tls_key,
        client_authorities=options.tls_client_ca or None,
    )


def open_sockets(conf: ConfigOpts, *, needed: bool = True) -> dict[str, socket.socket]:
    """Open the sockets of the API; return them by their names in the configuration.

    Unless *needed*, the result may be empty, and the default unix socket is left to a server that
    has the API.

    :raises ConfigError: a socket cannot be opened, or none is configured.
    """
    sockets: dict[str, socket.socket] = {}
    try:
        if conf.api.socket and (needed or _is_configured(conf)):
            path = Path(conf.api.socket)
            mode = int(conf.api.socket_mode, 8)
            sockets[conf.api.socket] = listen_unix(path, mode, option="[api] socket")
        for address in conf.api.bind:
            sockets[address] = listen_tcp(
                *parse_address(address, option="[api] bind"), option="[api] bind"
            )
    except ConfigError:
        for opened in sockets.values():
            opened.close()
        raise
    if needed and not sockets:
        raise ConfigError("the API listens nowhere: set [api] socket or bind")
    return sockets


def _is_configured(conf: ConfigOpts) -> bool:
    """Return whether a configuration file sets the path of the unix socket."""
    source = conf.get_location("socket", API_GROUP)
    return source is not None and source.location is Locations.user
