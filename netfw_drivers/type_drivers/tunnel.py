"""Type drivers of tunnels: GRE, VXLAN, Geneve."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

from oslo_config import cfg

from netfw.drivers.base import Capability, DriverInfo, HostResources
from netfw.drivers.server.type_driver import AllocationStore, Pool, Range, TypeDriver
from netfw.errors.networks import NoNetworkAvailable, TunnelIdInUse
from netfw.model.segment import NetworkType, Provider, segmentation_ids
from netfw_drivers.type_drivers.mtu import (
    ETHERNET_HEADER,
    GENEVE_HEADER,
    KEYED_GRE_HEADER,
    TUNNEL_OPTIONS,
    UDP_HEADER,
    VXLAN_HEADER,
    tunnel_mtu,
)
from netfw_drivers.type_drivers.ranges import Span, check_type, joined, spans_of

_VNI_RANGES = cfg.ListOpt(
    "vni_ranges",
    default=["1:16777215"],
    help="Numbers for networks created without provider attributes, as 1:1000,5000:5999.  Leave "
    "out those that something else in the same underlay uses.",
)
_LEAST_GENEVE = UDP_HEADER + GENEVE_HEADER + ETHERNET_HEADER


class TunnelTypeDriver(TypeDriver):
    """Segment ids of one tunnel type, the same on all hosts.

    A request may name an id outside the ranges.
    """

    TYPE: ClassVar[NetworkType]
    RANGES: ClassVar[str]
    """Option with the ranges."""

    def __init__(self, spans: Sequence[Span] = (), mtu: int = 0) -> None:
        self._pool = Pool(self.TYPE)
        self._ranges = tuple(Range(self._pool, first, last) for first, last in joined(spans))
        self._mtu = mtu

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        spans = spans_of(cls.RANGES, options[cls.RANGES], segmentation_ids(cls.TYPE) or range(0))
        return cls(spans, tunnel_mtu(options, cls.encapsulation(options)))

    @classmethod
    @abstractmethod
    def encapsulation(cls, options: Mapping[str, Any]) -> int:
        """Return the size of all headers before an instance's packet, without the outer IP."""

    def describe(self) -> DriverInfo[Capability]:
        return DriverInfo(str(self.TYPE))

    def network_type(self) -> NetworkType:
        return self.TYPE

    def ranges(self) -> tuple[Range, ...]:
        return self._ranges

    def validate(self, request: Provider) -> None:
        check_type(self.TYPE, request)

    def reserve(self, request: Provider, store: AllocationStore) -> Provider:
        number = request.segmentation_id
        if number is not None and not store.acquire(self._pool, number):
            raise TunnelIdInUse(f"{self.TYPE} number {number} is taken")
        found = request if number is not None else self.allocate(store)
        if found is None:
            raise NoNetworkAvailable(
                f"no {self.TYPE} number is left in [{self.TYPE}] {self.RANGES}, nor in a network "
                "segment range that the project may use"
            )
        return found

    def allocate(self, store: AllocationStore) -> Provider | None:
        number = store.acquire_any(self._pool)
        if number is None:
            return None
        return Provider(network_type=self.TYPE, segmentation_id=number)

    def release(self, segment: Provider, store: AllocationStore) -> None:
        if segment.segmentation_id is not None:
            store.release(self._pool, segment.segmentation_id)

    def mtu(self, physical_network: str | None) -> int:
        return self._mtu


class GreTypeDriver(TunnelTypeDriver):
    """GRE with keys."""

    VERSION: ClassVar[int] = 2
    TYPE = NetworkType.GRE
    RANGES = "tunnel_id_ranges"
    OPTIONS: ClassVar[tuple[cfg.Opt, ...]] = (
        cfg.ListOpt(
            "tunnel_id_ranges",
            default=[],
            help="Keys for networks created without provider attributes, as 1:1000,5000:5999.",
        ),
        *TUNNEL_OPTIONS,
    )

    @classmethod
    def encapsulation(cls, options: Mapping[str, Any]) -> int:
        return KEYED_GRE_HEADER + ETHERNET_HEADER


class VxlanTypeDriver(TunnelTypeDriver):
    """VXLAN."""

    VERSION: ClassVar[int] = 2
    TYPE = NetworkType.VXLAN
    RANGES = "vni_ranges"
    OPTIONS: ClassVar[tuple[cfg.Opt, ...]] = (_VNI_RANGES, *TUNNEL_OPTIONS)

    @classmethod
    def encapsulation(cls, options: Mapping[str, Any]) -> int:
        return UDP_HEADER + VXLAN_HEADER + ETHERNET_HEADER


class GeneveTypeDriver(TunnelTypeDriver):
    """Geneve, with as much room for its options as the configuration leaves."""

    VERSION: ClassVar[int] = 2
    TYPE = NetworkType.GENEVE
    RANGES = "vni_ranges"
    OPTIONS: ClassVar[tuple[cfg.Opt, ...]] = (
        _VNI_RANGES,
        cfg.IntOpt(
            "max_header_size",
            default=_LEAST_GENEVE,
            min=_LEAST_GENEVE,
            max=_LEAST_GENEVE + 252,
            help="Bytes of all headers before an instance's packet, but the outer IP header: the "
            "least, and what the switches add as Geneve options.",
        ),
        *TUNNEL_OPTIONS,
    )

    @classmethod
    def encapsulation(cls, options: Mapping[str, Any]) -> int:
        size: int = options["max_header_size"]
        return size
