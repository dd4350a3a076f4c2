"""The type drivers of netfw pass the suite that every type driver passes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import pytest

from netfw.drivers.registry.loader import create, installed
from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw.drivers.server.type_driver import TypeDriver
from netfw.model.segment import WELL_KNOWN_TYPES, NetworkType, Provider
from netfw.testing.conformance.server.type_driver import TypeDriverConformance

pytestmark = pytest.mark.fakes


class ByName(TypeDriverConformance):
    """A driver as an operator gets it: by its name, from its options."""

    TYPE: NetworkType
    OPTIONS: ClassVar[Mapping[str, Any]] = {}

    def make_driver(self) -> TypeDriver:
        return create(TypeDriver, self.TYPE, self.OPTIONS, LocalHostResources())

    def provider(self, number: int | None = None, physnet: str | None = None) -> Provider:
        return Provider(network_type=self.TYPE, segmentation_id=number, physical_network=physnet)

    def impossible(self) -> Mapping[Provider, frozenset[str]]:
        return {}


class TestLocal(ByName):
    TYPE = NetworkType.LOCAL
    OPTIONS: ClassVar = {"global_physnet_mtu": 1400}

    def requests(self) -> tuple[Provider, Provider]:
        return self.provider(), self.provider()

    def mtus(self) -> Mapping[str | None, int]:
        return {None: 1400}


class TestFlat(ByName):
    TYPE = NetworkType.FLAT
    OPTIONS: ClassVar = {
        "flat_networks": "physnet1, physnet2",
        "physical_network_mtus": "physnet2:9000,physnet3:1400",
    }

    def requests(self) -> tuple[Provider, Provider]:
        return self.provider(physnet="physnet1"), self.provider(physnet="physnet2")

    def impossible(self) -> Mapping[Provider, frozenset[str]]:
        return {self.provider(physnet="physnet3"): frozenset({"physical_network"})}

    def mtus(self) -> Mapping[str | None, int]:
        return {None: 1500, "physnet1": 1500, "physnet2": 9000, "physnet3": 1400}


class TestFlatAnywhere(TestFlat):
    OPTIONS: ClassVar = {
        "flat_networks": "*",
        "physical_network_mtus": "physnet2:9000,physnet3:1400",
    }

    def impossible(self) -> Mapping[Provider, frozenset[str]]:
        return {}


class TestVlan(ByName):
    TYPE = NetworkType.VLAN
    OPTIONS: ClassVar = {
        "network_vlan_ranges": "physnet1:100:109,physnet2:100:104,physnet2:200:202,physnet3",
        "physical_network_mtus": "physnet2:9000",
    }

    def requests(self) -> tuple[Provider, Provider]:
        return self.provider(101, "physnet1"), self.provider(4000, "physnet3")

    def impossible(self) -> Mapping[Provider, frozenset[str]]:
        return {
            self.provider(101, "physnet4"): frozenset({"physical_network"}),
            self.provider(None, "physnet4"): frozenset({"physical_network"}),
        }

    def mtus(self) -> Mapping[str | None, int]:
        return {None: 1500, "physnet1": 1500, "physnet2": 9000}


class TestGre(ByName):
    TYPE = NetworkType.GRE
    OPTIONS: ClassVar = {"tunnel_id_ranges": "1:10,4294967290:4294967295"}

    def requests(self) -> tuple[Provider, Provider]:
        return self.provider(2), self.provider(7_000_000)

    def mtus(self) -> Mapping[str | None, int]:
        return {None: 1458}


class TestVxlan(ByName):
    TYPE = NetworkType.VXLAN
    OPTIONS: ClassVar = {"vni_ranges": "1:10,16777210:16777215"}

    def requests(self) -> tuple[Provider, Provider]:
        return self.provider(10), self.provider(11)

    def mtus(self) -> Mapping[str | None, int]:
        return {None: 1450}


class TestVxlanOverIpv6(TestVxlan):
    OPTIONS: ClassVar = {"vni_ranges": "1:10", "overlay_ip_version": 6, "path_mtu": 9000}

    def mtus(self) -> Mapping[str | None, int]:
        return {None: 1430}


class TestGeneve(ByName):
    TYPE = NetworkType.GENEVE
    OPTIONS: ClassVar = {
        "vni_ranges": "5:9",
        "max_header_size": 38,
        "global_physnet_mtu": 9000,
        "path_mtu": 8000,
    }

    def requests(self) -> tuple[Provider, Provider]:
        return self.provider(6), self.provider(1)

    def mtus(self) -> Mapping[str | None, int]:
        return {None: 7942}


def test_there_is_a_driver_for_each_type() -> None:
    assert set(installed(TypeDriver)) >= set(WELL_KNOWN_TYPES)
