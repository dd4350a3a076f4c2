"""LocalTypeDriver: networks that do not leave their host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from oslo_config import cfg

from netfw.drivers.base import Capability, DriverInfo, HostResources
from netfw.drivers.server.type_driver import AllocationStore, Range, TypeDriver
from netfw.model.segment import NetworkType, Provider
from netfw_drivers.type_drivers.mtu import GLOBAL_MTU, global_mtu
from netfw_drivers.type_drivers.ranges import check_type


class LocalTypeDriver(TypeDriver):
    """Local segments, without ids or physical networks; their number is unlimited."""

    VERSION: ClassVar[int] = 2
    OPTIONS: ClassVar[tuple[cfg.Opt, ...]] = (GLOBAL_MTU,)

    def __init__(self, mtu: int = 1500) -> None:
        self._mtu = mtu

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        return cls(global_mtu(options))

    def describe(self) -> DriverInfo[Capability]:
        return DriverInfo("local")

    def network_type(self) -> NetworkType:
        return NetworkType.LOCAL

    def ranges(self) -> tuple[Range, ...]:
        return ()

    def validate(self, request: Provider) -> None:
        check_type(self.network_type(), request)

    def reserve(self, request: Provider, store: AllocationStore) -> Provider:
        return request

    def allocate(self, store: AllocationStore) -> Provider | None:
        return Provider(network_type=NetworkType.LOCAL)

    def release(self, segment: Provider, store: AllocationStore) -> None:
        """Do nothing: there is nothing to release."""

    def mtu(self, physical_network: str | None) -> int:
        return self._mtu
