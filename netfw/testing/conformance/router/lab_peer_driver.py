"""A router driver of the second lab host: each call is made in the namespaces of that host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from netfw.drivers.base import DriverInfo, HostResources
from netfw.drivers.host_driver import HostCapability
from netfw.drivers.router import RouterCapability, RouterDriver
from netfw.drivers.values.events import Sink
from netfw.drivers.values.pipeline_grant import Grant, GrantRequest
from netfw.drivers.values.router_values import (
    RouterDriverKey,
    RouterDriverValue,
    RouterPart,
    RouterStatus,
)
from netfw.model.values.ids import PortId, RouterId
from netfw.plan import Outcome, Update
from netfw.testing.lab.namespaces import NamespaceContext


class OtherHostRouterDriver(RouterDriver):
    """Calls a driver in the namespaces of another lab host."""

    def __init__(self, driver: RouterDriver, namespaces: NamespaceContext) -> None:
        self._driver = driver
        self._namespaces = namespaces

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        raise NotImplementedError("construct it with a driver")

    def describe(self) -> DriverInfo[HostCapability | RouterCapability]:
        return self._driver.describe()

    def converge(
        self, update: Update[RouterDriverKey, RouterDriverValue]
    ) -> Outcome[RouterDriverKey]:
        return self._namespaces.call(self._driver.converge, update)

    def present(self) -> frozenset[RouterDriverKey]:
        return self._namespaces.call(self._driver.present)

    def watch(self, sink: Sink) -> None:
        self._namespaces.call(self._driver.watch, sink)

    def status(self, router: RouterId) -> RouterStatus:
        return self._namespaces.call(self._driver.status, router)

    def unwired_ports(self, router: RouterId) -> frozenset[PortId]:
        return self._namespaces.call(self._driver.unwired_ports, router)

    def grant(self, request: GrantRequest) -> Grant:
        return self._driver.grant(request)

    def namespace_of(self, router: RouterId, part: RouterPart) -> str | None:
        return self._driver.namespace_of(router, part)

    def close(self) -> None:
        self._namespaces.call(self._driver.close)
