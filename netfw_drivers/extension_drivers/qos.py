"""QosDriver: QoS policies of networks and ports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from attrs import evolve

from netfw.drivers.base import Capability, DriverInfo, HostResources
from netfw.drivers.server.attribute import Attribute, AttributeType
from netfw.drivers.server.change import Change
from netfw.drivers.server.extension_driver import ExtensionDriver
from netfw.drivers.server.query import Body
from netfw.errors import NotFound
from netfw.model.network import Network
from netfw.model.port import Port
from netfw.model.resource import Kind, Resource

NAME = "qos_policy_id"
INHERITED = "qos_network_policy_id"
_POLICY = Attribute(name=NAME, type=AttributeType.UUID, nullable=True)


class QosDriver(ExtensionDriver):
    """Adds ``qos_policy_id``, so that clients can leave it empty.

    There are no policies yet, so that any id is refused as not found.
    """

    VERSION: ClassVar[int] = 2

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        return cls()

    def describe(self) -> DriverInfo[Capability]:
        return DriverInfo("qos")

    def attributes(self) -> Mapping[Kind, tuple[Attribute, ...]]:
        inherited = Attribute(
            name=INHERITED,
            type=AttributeType.UUID,
            nullable=True,
            settable=False,
            mutable=False,
            filterable=False,
        )
        return {Kind.NETWORK: (_POLICY,), Kind.PORT: (_POLICY, inherited)}

    def apply_fields(self, change: Change, requested: Body) -> Resource:
        after = change.resource
        if not isinstance(after, Network | Port):
            return after
        if requested.get(NAME) is not None:
            raise NotFound(f"there is no QoS policy {requested[NAME]}")
        if NAME in requested and after.qos_policy_id is not None:
            after = evolve(after, qos_policy_id=None)
        if isinstance(after, Port) and change.network is not None:
            policy = change.network.qos_policy_id
            if policy != after.qos_network_policy_id:
                after = evolve(after, qos_network_policy_id=policy)
        return after
