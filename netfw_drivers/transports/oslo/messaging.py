"""Client of oslo.messaging with a configuration of its own; imported on first use."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from attrs import field, frozen
from oslo_config import cfg

from netfw.drivers.support.daemon_thread import start_daemon_thread
from netfw.drivers.support.thread_pool import InFlight
from netfw.errors import BackendUnavailable, ConfigError
from netfw_drivers.transports.oslo.no_eventlet import (
    oslo_messaging,
    oslo_messaging_metrics,
    oslo_messaging_tracing,
)
from netfw_drivers.transports.oslo.options import Settings

LOG = logging.getLogger(__name__)
_DEFAULTS = {
    "kombu_reconnect_delay": "0",
    "kombu_missing_consumer_retry_timeout": "5",
    "rabbit_retry_interval": "1",
    "rabbit_retry_backoff": "1",
    "rabbit_interval_max": "3",
    "rabbit_transient_queues_ttl": "600",
}
"""A reply whose caller is gone must not block a worker for a minute."""
_TRIES = 1


@frozen(kw_only=True)
class BrokerHost:
    """Address and credentials of a broker."""

    host: str
    port: int
    user: str
    password: str
    virtual_host: str
    tls: Mapping[str, object]
    """TLS arguments of py-amqp; empty: no TLS."""


@frozen(eq=False)
class SendingTransport:
    """Transport of oslo.messaging for requests and notifications, with a queue for answers."""

    transport: Any
    calls: InFlight = field(factory=InFlight)
    """Those that use it."""

    def close(self) -> None:
        """Wait for the calls, and close the connections: one in use would stay open."""
        self.calls.end()
        try:
            self.transport.cleanup()
        except Exception as exc:  # noqa: BLE001 - of kombu, of sockets; they are closed anyway
            LOG.debug("connections to the broker could not be closed: %s", exc)


class OsloMessaging:
    """Two transports of oslo.messaging: one consumes, the other sends and receives answers.

    The constructor makes no connection.

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
        defaults = {**_DEFAULTS, "heartbeat_timeout_threshold": str(settings.heartbeat_timeout)}
        self._url.query = {**defaults, **self._url.query}
        self._consuming = self._make_transport()
        self._sending = SendingTransport(self._make_transport())

    def hosts(self) -> Sequence[BrokerHost]:
        """Return the brokers in the URL."""
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
        """Return exchange and queue of requests to *topic*; the routing key is the queue's name."""
        target = self._target("call", topic)
        return target.exchange, target.topic

    def call(self, topic: str, fields: dict[str, Any], timeout: float) -> object:
        """Send a request to *topic*, and return its answer."""
        with self._client(self._target("call", topic)) as client:
            prepared = client.prepare(timeout=timeout)
            return prepared.call({}, "request", fields=fields, wait=timeout)

    def publish(self, topic: str, fields: dict[str, Any]) -> None:
        """Send a notification to all subscribers of *topic*."""
        with self._client(self._target("notification", topic, fanout=True)) as client:
            client.cast({}, "notify", fields=fields)

    def send_probe(self, kind: str, topic: str, name: str, token: str) -> None:
        """Send a probe to the server called *name*, which confirms that it is connected."""
        with self._client(self._target(kind, topic, server=name)) as client:
            client.cast({}, "wake", token=token)

    def server(self, kind: str, topic: str, name: str, endpoint: object) -> Any:
        """Build a server of oslo.messaging; the caller starts it."""
        target = self._target(kind, topic, server=name)
        return oslo_messaging.get_rpc_server(self._consuming, target, [endpoint])

    def renew(self) -> None:
        """Send over new connections from now on, and receive answers in a new queue.

        A server that could not deliver an answer, since the caller was connected later than itself,
        discards all answers to that queue for a minute.
        """
        former, self._sending = self._sending, SendingTransport(self._make_transport())
        try:
            failure = "the former connections to the broker stay open"
            start_daemon_thread("netfw-broker-close", failure, former.close)
        except BackendUnavailable as exc:
            LOG.warning("%s", exc)

    def close(self) -> None:
        """Close the connections of senders."""
        self._consuming.cleanup()
        self._sending.transport.cleanup()

    def _make_transport(self) -> Any:
        return oslo_messaging.get_rpc_transport(self._conf, self._url)

    def _target(self, kind: str, topic: str, **more: Any) -> Any:
        prefix = self._settings.prefix
        return oslo_messaging.Target(exchange=prefix, topic=f"{prefix}.{kind}.{topic}", **more)

    @contextmanager
    def _client(self, target: Any) -> Iterator[Any]:
        while not (sending := self._sending).calls.enter():
            pass  # it was renewed just now
        try:
            yield oslo_messaging.get_rpc_client(sending.transport, target, retry=_TRIES)
        finally:
            sending.calls.leave()

    def _tls(self, host: str) -> Mapping[str, object]:
        """Return the TLS arguments that oslo.messaging derives from the URL."""
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
