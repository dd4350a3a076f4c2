"""oslo.messaging, with a configuration of its own; imported when a transport is first used."""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen
from oslo_config import cfg

from netfw.errors import ConfigError
from netfw_drivers.transports.oslo.no_eventlet import (
    oslo_messaging,
    oslo_messaging_metrics,
    oslo_messaging_tracing,
)
from netfw_drivers.transports.oslo.options import Settings

_DEFAULTS = {
    "kombu_reconnect_delay": "0",
    "kombu_missing_consumer_retry_timeout": "5",
    "rabbit_retry_interval": "1",
    "rabbit_retry_backoff": "1",
    "rabbit_interval_max": "10",
    "rabbit_transient_queues_ttl": "600",
}
"""A reply that nobody waits for must not keep a worker for a minute."""
_TRIES = 1


@frozen(kw_only=True)
class BrokerHost:
    """Where a broker is, and how to log in."""

    host: str
    port: int
    user: str
    password: str
    virtual_host: str
    tls: Mapping[str, object]
    """What py-amqp is told about TLS; nothing: there is none."""


class OsloMessaging:
    """One transport of oslo.messaging.  Making it connects to nobody.

    :raises ConfigError: the URL cannot be used; the text leaves out its password.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._conf = _own_configuration()
        try:
            self._url = oslo_messaging.TransportURL.parse(self._conf, settings.url)
        except oslo_messaging.InvalidTransportURL as exc:
            raise ConfigError("transport_url cannot be parsed") from exc
        if not self._url.hosts:
            raise ConfigError("transport_url names no host")
        defaults = {**_DEFAULTS, "heartbeat_timeout_threshold": str(settings.heartbeat)}
        self._url.query = {**defaults, **self._url.query}
        self._transport = oslo_messaging.get_rpc_transport(self._conf, self._url)

    def hosts(self) -> Sequence[BrokerHost]:
        """Where the brokers are."""
        return [
            BrokerHost(
                host=each.hostname or "localhost",
                port=each.port or 5672,
                user=each.username or "guest",
                password=each.password or "guest",
                virtual_host=self._url.virtual_host or "/",
                tls=self._tls(each.hostname),
            )
            for each in self._url.hosts
        ]

    def route_to(self, topic: str) -> tuple[str, str]:
        """The exchange and the queue of requests to *topic*; the queue's name is its key, too."""
        target = self._target("call", topic)
        return target.exchange, target.topic

    def call(self, topic: str, fields: dict[str, Any], timeout: float) -> object:
        """What a server of *topic* answers."""
        client = self._client(self._target("call", topic))
        return client.prepare(timeout=timeout).call({}, "request", fields=fields, wait=timeout)

    def publish(self, topic: str, fields: dict[str, Any]) -> None:
        """Send a hint."""
        self._client(self._target("hint", topic, fanout=True)).cast({}, "hint", fields=fields)

    def send_probe(self, kind: str, topic: str, name: str, token: str) -> None:
        """Send something to the one server of that *name*, so that it knows to be connected."""
        self._client(self._target(kind, topic, server=name)).cast({}, "wake", token=token)

    def server(self, kind: str, topic: str, name: str, endpoint: object) -> Any:
        """A server of oslo.messaging, which is not started yet."""
        target = self._target(kind, topic, server=name)
        return oslo_messaging.get_rpc_server(self._transport, target, [endpoint])

    def close(self) -> None:
        """Let go of connections that send."""
        self._transport.cleanup()

    def _target(self, kind: str, topic: str, **more: Any) -> Any:
        prefix = self._settings.prefix
        return oslo_messaging.Target(exchange=prefix, topic=f"{prefix}.{kind}.{topic}", **more)

    def _client(self, target: Any) -> Any:
        return oslo_messaging.get_rpc_client(self._transport, target, retry=_TRIES)

    def _tls(self, host: str) -> Mapping[str, object]:
        """What oslo.messaging makes of the URL, too."""
        query = self._url.query
        if query.get("ssl", "").lower() not in ("1", "true", "yes", "on"):
            return {}
        names = {"ssl_cert_file": "certfile", "ssl_key_file": "keyfile", "ssl_ca_file": "ca_certs"}
        words: dict[str, object] = {
            ours: query[name] for name, ours in names.items() if query.get(name)
        }
        if "ca_certs" in words:
            words |= {"cert_reqs": ssl.CERT_REQUIRED, "server_hostname": host}
        return words or {"cert_reqs": ssl.CERT_NONE}


def _own_configuration() -> cfg.ConfigOpts:
    conf = cfg.ConfigOpts()
    conf.register_opts(oslo_messaging_metrics, group="oslo_messaging_metrics")
    conf.register_opts(oslo_messaging_tracing, group="oslo_messaging_tracing")
    conf([], default_config_files=[], default_config_dirs=[])
    return conf
