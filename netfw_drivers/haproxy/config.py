"""Configuration of one haproxy.  Pure.

Identity headers of an instance are not trusted: they are deleted, in every spelling that a server
behind the proxy could accept, before the proxy's own are set.  Ambiguous requests (chunked body,
body of GET or HEAD, another protocol, proxy forms of the target, control characters) are refused.
Each request goes to the agent on a connection of its own, so that no request can become part of
another instance's.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address

from attrs import frozen

from netfw.drivers.dhcp import METADATA_ADDRESSES
from netfw.drivers.metadata import MetadataKey, MetadataProxy
from netfw.drivers.values.keys import NetworkKey
from netfw.errors import InvalidInput
from netfw.model.values.address import IpAddress
from netfw_drivers.haproxy.settings import Settings

EVERYWHERE = IPv4Address("0.0.0.0")

_BODY = 65536
"""Limit of a request body in bytes; instances send short ones."""

_SOURCES = 16384
"""Addresses in each stick table; the oldest entries are evicted first."""

_SHARES = 8
"""One instance gets at most this fraction of all connections."""
_LEAST = 8
"""Connections that an instance gets at least."""

_HEADERS_OF_PROXIES = "|".join(
    (
        "forwarded",
        "x-forwarded.*",
        "x-real-.*",
        "client-ip",
        "true-client-ip",
        "cf-connecting-ip",
        "x-client-.*",
        "x-cluster-client-.*",
        "x-original-.*",
        "x-originating-.*",
        "x-remote-.*",
        "x-rewrite-.*",
        "x-http-method.*",
        "x-method-override",
        "x-neutron-.*",
        "x-instance-id.*",
        "x-tenant-id.*",
        "x-project-id.*",
        "x-metadata-provider.*",
    )
)
"""Headers that only proxies may set, in lower case as haproxy has them."""

_HEADERS_OF_CONNECTIONS = "connection|proxy-.*|keep-alive|te|trailer|upgrade|expect"
"""Headers of the instance's connection, not the agent's: one could request to drop the proxy's own
headers."""

_RULES = (
    "deny deny_status 405 unless { method GET HEAD POST PUT }",
    "deny deny_status 400 unless HTTP_1.0 || HTTP_1.1",
    "deny deny_status 400 unless { path -m beg / }",
    "deny deny_status 400 if { req.hdr(transfer-encoding) -m found }",
    r"deny deny_status 400 if { req.hdrs -m reg '[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]' }",
    "deny deny_status 400 if !{ method POST PUT } { req.body_size gt 0 }",
    f"deny deny_status 413 if {{ req.body_size gt {_BODY} }}",
    "set-uri %[pathq]",
    "del-header _ -m sub",  # some servers treat an underscore as a dash
    f"del-header '^({_HEADERS_OF_PROXIES})$' -m reg",
    f"del-header '^({_HEADERS_OF_CONNECTIONS})$' -m reg",
    "set-header X-Forwarded-For %[src]",
)


_WITHOUT_CERTIFICATES = (
    ".if version_atleast(2.6)",
    ".if feature(OPENSSL)",
    "httpclient.ssl.verify none",
    ".endif",
    ".endif",
)
"""The proxy has no use for haproxy's own HTTP client, which otherwise loads the certificates of all
public authorities at start: four fifths of its CPU time, and a megabyte."""


@frozen
class ListenAddress:
    """Listen address of a proxy, with the device for a link-local address."""

    address: IpAddress
    port: int
    device: str | None = None

    def __str__(self) -> str:
        host = f"[{self.address}]" if self.address.version == 6 else f"{self.address}"
        return f"{host}:{self.port}"


def listen_addresses(proxy: MetadataProxy, settings: Settings) -> tuple[ListenAddress, ...]:
    """Return all addresses on which *proxy* listens.

    :raises InvalidInput: a link-local address, and no device that it could be on.
    """
    link_local = (METADATA_ADDRESSES[6].ip,) if proxy.device is not None and settings.ipv6 else ()
    usable = [each for each in proxy.addresses if each.version == 4 or settings.ipv6]
    addresses = dict.fromkeys((*(usable or (EVERYWHERE,)), *link_local))
    return tuple(_listen_address(address, proxy) for address in addresses)


def _listen_address(address: IpAddress, proxy: MetadataProxy) -> ListenAddress:
    if address.version == 4 or not address.is_link_local:
        return ListenAddress(address, proxy.port)
    if proxy.device is None:
        raise InvalidInput({"device": f"{address} is on every device: say on which to listen"})
    return ListenAddress(address, proxy.port, proxy.device)


def render_config(key: MetadataKey, proxy: MetadataProxy, settings: Settings) -> str:
    """Render the configuration.

    :raises InvalidInput: the proxy is impossible; the message names the field.
    """
    lines = [
        f"# Metadata proxy of {key}, written by netfw: changes are lost.",
        "global",
        *_indented(_global(settings)),
        "defaults",
        *_indented(_defaults(settings)),
        "listen metadata",
        *_indented(_listen(key, proxy, settings)),
        *_tables(settings),
    ]
    return "\n".join(lines) + "\n"


def _indented(lines: Iterator[str]) -> Iterator[str]:
    return (f"    {line}" for line in lines)


def _global(settings: Settings) -> Iterator[str]:
    yield "nbthread 1"
    yield f"maxconn {settings.maxconn}"
    yield "noreuseport"  # else another process could share the address, and requests
    yield from _WITHOUT_CERTIFICATES
    for word, number, value in (("user", "uid", settings.user), ("group", "gid", settings.group)):
        if value is not None:
            yield f"{number} {value}" if value.isdecimal() else f"{word} '{value}'"
    if settings.log_file is not None:
        yield f"log stdout format iso local0 {settings.log_level}"
    elif settings.syslog is not None:
        yield "log-tag netfw-metadata-proxy"
        yield f"log '{settings.syslog}' local0 {settings.log_level}"


def _defaults(settings: Settings) -> Iterator[str]:
    yield "mode http"
    if settings.log_file is not None or settings.syslog is not None:
        yield "log global"
        yield "option httplog"
        yield "option dontlognull"
        yield "option log-separate-errors"
    yield "option http-server-close"
    yield "option http-buffer-request"
    yield "option disable-h2-upgrade"
    yield f"timeout http-request {settings.request_timeout}s"
    yield f"timeout http-keep-alive {settings.request_timeout}s"
    yield f"timeout client {max(30, settings.request_timeout)}s"
    yield "timeout connect 5s"
    yield f"timeout queue {settings.answer_timeout}s"
    yield f"timeout server {settings.answer_timeout}s"


def _listen(key: MetadataKey, proxy: MetadataProxy, settings: Settings) -> Iterator[str]:
    for address in listen_addresses(proxy, settings):
        # Transparent: it may listen before duplicate address detection is done.
        words = ["bind", str(address), "transparent"]
        if address.address.version == 6:
            words.append("v6only")
        if address.device is not None:
            words.append(f"interface '{address.device}'")
        yield " ".join(words)
    most = max(_LEAST, settings.maxconn // _SHARES)
    yield "tcp-request connection track-sc2 src table connections"
    yield f"tcp-request connection reject if {{ sc_conn_cur(2) gt {most} }}"
    for rule in (*_limits(settings), *_RULES):
        yield f"http-request {rule}"
    yield f"http-request set-header {_identity(key)}"
    yield f"server agent 'unix@{settings.socket}'"


def _limits(settings: Settings) -> Iterator[str]:
    """Count each request, then refuse an address over the limit of any window."""
    for number, _ in enumerate(settings.windows):
        yield f"track-sc{number} src table window{number}"
    for number, window in enumerate(settings.windows):
        yield f"deny deny_status 429 if {{ sc_http_req_rate({number}) gt {window.requests} }}"


def _tables(settings: Settings) -> Iterator[str]:
    """Render stick tables of connections and requests; type ipv6 fits both families."""
    yield "backend connections"
    yield f"    stick-table type ipv6 size {_SOURCES} expire 1m store conn_cur"
    for number, window in enumerate(settings.windows):
        yield f"backend window{number}"
        yield (
            f"    stick-table type ipv6 size {_SOURCES} expire {window.seconds}s "
            f"store http_req_rate({window.seconds}s)"
        )


def _identity(key: MetadataKey) -> str:
    if isinstance(key, NetworkKey):
        return f"X-Neutron-Network-ID {key.network}"
    return f"X-Neutron-Router-ID {key.router}"
