"""Connections of our own to a broker, beside those of oslo.messaging."""

from __future__ import annotations

from contextlib import suppress

import amqp

from netfw_drivers.transports.oslo.messaging import BrokerHost
from netfw_drivers.transports.oslo.options import Settings


def make_connection(host: BrokerHost, settings: Settings, heartbeat: int = 0) -> amqp.Connection:
    """A connection to *host*, which is not made yet; whoever asks for a *heartbeat* sends it."""
    return amqp.Connection(
        host=f"[{host.host}]:{host.port}" if ":" in host.host else f"{host.host}:{host.port}",
        userid=host.user,
        password=host.password,
        virtual_host=host.virtual_host,
        login_method="AMQPLAIN",
        ssl=host.tls or False,
        connect_timeout=settings.connect,
        read_timeout=settings.connect,
        heartbeat=heartbeat,
        client_properties={"capabilities": {"authentication_failure_close": True}},
    )


def close_quietly(line: amqp.Connection) -> None:
    """Let go of a connection, in whatever state it is."""
    with suppress(OSError, amqp.AMQPError, AttributeError, ValueError):
        line.collect()
