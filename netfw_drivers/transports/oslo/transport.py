"""OsloTransport: messages over a broker."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar, Self

from oslo_config import cfg

from netfw.drivers.base import Capability, DriverInfo, HostResources
from netfw.drivers.transport import Handler, Listener, Message, Stop, Transport
from netfw.errors import BackendUnavailable, ConfigError
from netfw_drivers.transports.oslo.options import OPTIONS, Settings, settings_from

if TYPE_CHECKING:
    from netfw_drivers.transports.oslo.session import OsloSession

_MISSING = "oslo.messaging is not installed: pip install netfw[oslo]"


class OsloTransport(Transport):
    """Transport over RabbitMQ, by oslo.messaging.

    All clients of the broker are trusted alike: the sender of a request is unknown.
    """

    VERSION: ClassVar[int] = 2
    OPTIONS: ClassVar[tuple[cfg.Opt, ...]] = OPTIONS

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._opened: OsloSession | None = None
        self._closed = False

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        return cls(settings_from(options))

    def describe(self) -> DriverInfo[Capability]:
        return DriverInfo("oslo")

    def problems(self) -> tuple[str, ...]:
        return () if find_spec("oslo_messaging") else (_MISSING,)

    def call(self, message: Message, timeout: float) -> Message:
        return self._session().call(message, timeout)

    def serve(self, topic: str, handler: Handler) -> Stop:
        return self._session().serve(topic, handler)

    def publish(self, message: Message) -> None:
        if not self._closed:
            self._session().publish(message)

    def subscribe(self, topic: str, listener: Listener) -> Stop:
        return self._session().subscribe(topic, listener)

    def unreachable_reason(self, topic: str) -> str | None:
        return self._session().unreachable_reason(topic)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            made, self._opened = self._opened, None
        if made is not None:
            made.close()

    def _session(self) -> OsloSession:
        with self._lock:
            if self._closed:
                raise BackendUnavailable("this transport was closed")
            if self._opened is None:
                try:
                    from netfw_drivers.transports.oslo.session import OsloSession
                except ImportError as exc:
                    raise ConfigError(_MISSING) from exc
                self._opened = OsloSession(self._settings)
            return self._opened
