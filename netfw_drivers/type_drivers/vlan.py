"""VlanTypeDriver: VLANs of physical networks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

from oslo_config import cfg

from netfw.drivers.base import Capability, DriverInfo, HostResources
from netfw.drivers.server.type_driver import AllocationStore, Pool, Range, TypeDriver
from netfw.errors import InvalidInput, nearest
from netfw.errors.networks import NoNetworkAvailable, VlanIdInUse
from netfw.model.segment import NetworkType, Provider
from netfw_drivers.type_drivers.mtu import GLOBAL_MTU, PHYSICAL_MTUS, PhysicalMtus, physical_mtus
from netfw_drivers.type_drivers.ranges import Span, check_type, joined, vlan_spans


class VlanTypeDriver(TypeDriver):
    """Allocates VLANs from ranges, physical networks in the order of the configuration.

    A request may name a VLAN outside the ranges, on any configured physical network.
    """

    VERSION: ClassVar[int] = 2
    OPTIONS: ClassVar[tuple[cfg.Opt, ...]] = (
        cfg.ListOpt(
            "network_vlan_ranges",
            default=[],
            help="Physical networks that may carry VLANs, with the VLANs for networks created "
            "without provider attributes, as physnet1:1000:2999,physnet2.",
        ),
        GLOBAL_MTU,
        PHYSICAL_MTUS,
    )

    def __init__(
        self, networks: Mapping[str, Sequence[Span]], mtus: PhysicalMtus | None = None
    ) -> None:
        self._known = tuple(networks)
        self._ranges = tuple(
            Range(_pool(name), first, last)
            for name, spans in networks.items()
            for first, last in joined(spans)
        )
        self._mtus = mtus if mtus is not None else PhysicalMtus()

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        networks = vlan_spans("network_vlan_ranges", options["network_vlan_ranges"])
        return cls(networks, physical_mtus(options))

    def describe(self) -> DriverInfo[Capability]:
        return DriverInfo("vlan")

    def network_type(self) -> NetworkType:
        return NetworkType.VLAN

    def ranges(self) -> tuple[Range, ...]:
        return self._ranges

    def validate(self, request: Provider) -> None:
        check_type(self.network_type(), request)
        name = request.physical_network
        if name is not None and name not in self._known:
            known = ", ".join(self._known) or "none"
            raise InvalidInput(
                {
                    "physical_network": f"{name!r} may carry no VLANs"
                    f"{nearest(name, self._known)}; [vlan] network_vlan_ranges has: {known}"
                }
            )

    def reserve(self, request: Provider, store: AllocationStore) -> Provider:
        name, number = request.physical_network, request.segmentation_id
        if name is None:
            return self._any(store, self._known)
        if number is None:
            return self._any(store, (name,))
        if not store.acquire(_pool(name), number):
            raise VlanIdInUse(f"VLAN {number} of physical network {name} is taken")
        return request

    def allocate(self, store: AllocationStore) -> Provider | None:
        return self._free(store, self._known)

    def release(self, segment: Provider, store: AllocationStore) -> None:
        if segment.segmentation_id is not None:
            pool = Pool(NetworkType.VLAN, segment.physical_network)
            store.release(pool, segment.segmentation_id)

    def mtu(self, physical_network: str | None) -> int:
        return self._mtus.of(physical_network)

    def _any(self, store: AllocationStore, names: Sequence[str]) -> Provider:
        if not names:
            raise NoNetworkAvailable(
                "[vlan] network_vlan_ranges is empty: name the physical networks that carry VLANs "
                "there, such as physnet1:1000:2999"
            )
        found = self._free(store, names)
        if found is None:
            where = f"physical network {names[0]}" if len(names) == 1 else "any physical network"
            raise NoNetworkAvailable(
                f"no VLAN is left in [vlan] network_vlan_ranges for {where}, nor in a network "
                "segment range that the project may use"
            )
        return found

    def _free(self, store: AllocationStore, names: Sequence[str]) -> Provider | None:
        for name in names:
            number = store.acquire_any(_pool(name))
            if number is not None:
                return Provider(
                    network_type=NetworkType.VLAN, physical_network=name, segmentation_id=number
                )
        return None


def _pool(physical_network: str) -> Pool:
    return Pool(NetworkType.VLAN, physical_network)
