"""A core with network segment ranges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from netfw.drivers.server.query import Query
from netfw.drivers.server.type_driver import TypeDriver
from netfw.server.core.handler_plugin import HandlerPlugin
from netfw.server.db import Database
from netfw.server.ml2.builder import Drivers, build_core
from netfw.server.ml2.plugin import Ml2Plugin
from netfw.server.segment_ranges.ranges import SegmentRangesPlugin
from netfw_drivers.ipam.internal import InternalIpamDriver
from netfw_drivers.mechanism_drivers.logger import LoggerMechanismDriver
from netfw_drivers.type_drivers.tunnel import GreTypeDriver, VxlanTypeDriver
from netfw_drivers.type_drivers.vlan import VlanTypeDriver
from tests.server.core.core_client import ADMIN, settings

RANGE = "network_segment_range"


def type_drivers(*spans: tuple[int, int]) -> tuple[TypeDriver, ...]:
    """Return VXLAN with *spans*, GRE without numbers, and VLAN on one of two physical networks."""
    return (
        VxlanTypeDriver(spans or [(1, 10)], 1450),
        GreTypeDriver([], 1458),
        VlanTypeDriver({"physnet1": [(100, 109)], "physnet2": []}),
    )


class SegmentRanges:
    """A server whose networks get *types*, and short words for requests."""

    def __init__(
        self, database: Database, *types: str, drivers: Sequence[TypeDriver] | None = None
    ) -> None:
        chosen = Drivers(
            ipam=InternalIpamDriver(),
            types=type_drivers() if drivers is None else drivers,
            mechanisms=(LoggerMechanismDriver(),),
        )
        core = build_core(database, chosen, settings(*types))
        self.core_plugin = Ml2Plugin(core.context, core.handlers())
        self.ranges = SegmentRangesPlugin(core.context, core.types)
        core.context.start()

    @property
    def plugins(self) -> list[HandlerPlugin]:
        return [self.core_plugin, self.ranges]

    def make(self, first: int, last: int, project: str = "", **other: Any) -> dict[str, Any]:
        """Make a range of *project*, or else a shared one; of VXLAN unless said."""
        body = {
            "name": "r",
            "network_type": "vxlan",
            "physical_network": "",
            "minimum": first,
            "maximum": last,
            "shared": not project,
            "project_id": project,
            **other,
        }
        return dict(self.ranges.create(ADMIN, RANGE, [body])[0])

    def all(self) -> list[dict[str, Any]]:
        """Return all ranges."""
        return [dict(each) for each in self.ranges.find(ADMIN, RANGE, Query())]

    def change(self, id: str, **new: Any) -> dict[str, Any]:
        return dict(self.ranges.update(ADMIN, RANGE, id, new))

    def delete(self, id: str) -> None:
        self.ranges.delete(ADMIN, RANGE, id)

    def network(self, project: str = "alice", **other: Any) -> dict[str, Any]:
        body = {"project_id": project, **{k.replace("__", ":"): v for k, v in other.items()}}
        return dict(self.core_plugin.create(ADMIN, "network", [body])[0])

    def numbers(self, project: str, count: int, **other: Any) -> list[int]:
        """Return the segmentation ids of *count* new networks."""
        key = "provider:segmentation_id"
        return [self.network(project, **other)[key] for _ in range(count)]

    def drop_network(self, id: str) -> None:
        self.core_plugin.delete(ADMIN, "network", id)
