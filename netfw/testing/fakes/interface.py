"""FakeInterface: an interface driver in memory for agents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from netfw.drivers.base import DriverInfo, HostResources
from netfw.drivers.host_driver import HostCapability
from netfw.drivers.interface import Attachment, Device, InterfaceCapability, InterfaceDriver
from netfw.drivers.values.subscription import Service
from netfw.model.values.ids import PortId
from netfw.testing.fakes.backend import FakeReconciler


class FakeInterface(InterfaceDriver, FakeReconciler[PortId, Attachment]):
    """Attachments in memory, and the services that have marked their first full sync."""

    VERSION: ClassVar[int] = 2

    def __init__(self) -> None:
        super().__init__()
        self.initialized: set[Service] = set()

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        return cls()

    def describe(self) -> DriverInfo[HostCapability | InterfaceCapability]:
        return DriverInfo("fake", (HostCapability.PLAN, HostCapability.WATCH))

    def devices(self) -> Mapping[PortId, Device]:
        self.machine.answer()
        return {}

    def mark_initialized(self, service: Service) -> None:
        self.machine.answer()
        self.initialized.add(service)
