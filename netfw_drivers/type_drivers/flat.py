"""FlatTypeDriver: physical networks as they are, untagged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Self

from oslo_config import cfg

from netfw.drivers.base import Capability, DriverInfo, HostResources
from netfw.drivers.server.type_driver import AllocationStore, Pool, Range, TypeDriver
from netfw.errors import ConfigError, InvalidInput, nearest
from netfw.errors.networks import FlatNetworkInUse
from netfw.model.segment import NetworkType, Provider
from netfw.model.values.text_validation import check_physical_network
from netfw_drivers.type_drivers.mtu import GLOBAL_MTU, PHYSICAL_MTUS, PhysicalMtus, physical_mtus
from netfw_drivers.type_drivers.ranges import check_type

ANY = "*"
THE_ONE = 0
"""A physical network has one untagged segment; in the store it has this number."""


class FlatTypeDriver(TypeDriver):
    """One segment per physical network, on request by name only."""

    VERSION: ClassVar[int] = 2
    OPTIONS: ClassVar[tuple[cfg.Opt, ...]] = (
        cfg.ListOpt(
            "flat_networks",
            default=[ANY],
            help="Physical networks that may carry a flat network; * is any, and empty is none.",
        ),
        GLOBAL_MTU,
        PHYSICAL_MTUS,
    )

    def __init__(
        self, physical_networks: Iterable[str] = (ANY,), mtus: PhysicalMtus | None = None
    ) -> None:
        self._known = tuple(dict.fromkeys(physical_networks))
        self._mtus = mtus if mtus is not None else PhysicalMtus()

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        names = [name.strip() for name in options["flat_networks"]]
        for name in names:
            _check_name(name)
        return cls(names, physical_mtus(options))

    def describe(self) -> DriverInfo[Capability]:
        return DriverInfo("flat")

    def network_type(self) -> NetworkType:
        return NetworkType.FLAT

    def ranges(self) -> tuple[Range, ...]:
        return ()

    def validate(self, request: Provider) -> None:
        check_type(self.network_type(), request)
        name = request.physical_network or ""
        if ANY not in self._known and name not in self._known:
            known = ", ".join(self._known) or "none"
            raise InvalidInput(
                {
                    "physical_network": f"{name!r} may carry no flat network"
                    f"{nearest(name, self._known)}; [flat] flat_networks has: {known}"
                }
            )

    def reserve(self, request: Provider, store: AllocationStore) -> Provider:
        if not store.acquire(_pool(request), THE_ONE):
            raise FlatNetworkInUse(
                f"physical network {request.physical_network} has a flat network"
            )
        return request

    def allocate(self, store: AllocationStore) -> Provider | None:
        return None

    def release(self, segment: Provider, store: AllocationStore) -> None:
        store.release(_pool(segment), THE_ONE)

    def mtu(self, physical_network: str | None) -> int:
        return self._mtus.of(physical_network)


def _pool(segment: Provider) -> Pool:
    return Pool(NetworkType.FLAT, segment.physical_network)


def _check_name(name: str) -> None:
    if name == ANY:
        return
    try:
        check_physical_network(name)
    except ValueError as exc:
        raise ConfigError(f"flat_networks: {exc}, or * alone") from exc
