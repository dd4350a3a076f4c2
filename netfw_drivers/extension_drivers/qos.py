"""QosDriver: QoS policies of networks and ports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self
from uuid import UUID

from attrs import evolve

from netfw.drivers.base import Capability, DriverInfo, HostResources
from netfw.drivers.server.attribute import Attribute, AttributeType
from netfw.drivers.server.change import Change
from netfw.drivers.server.extension_driver import ExtensionDriver
from netfw.drivers.server.query import Body
from netfw.model.network import Network
from netfw.model.port import Port
from netfw.model.resource import Kind, Resource
from netfw.model.values.ids import QosPolicyId

NAME = "qos_policy_id"
INHERITED = "qos_network_policy_id"
_POLICY = Attribute(name=NAME, type=AttributeType.UUID, nullable=True)


class QosDriver(ExtensionDriver):
    """Adds ``qos_policy_id`` to networks and ports.

    The server checks that the policy exists, that the requester may use it and that it can be
    enforced.  The policy of a port's network is not stored with the port: it is shown with it.
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
        if not isinstance(after, Network | Port) or NAME not in requested:
            return after
        value = requested[NAME]
        policy = None if value is None else QosPolicyId(UUID(str(value)))
        return after if policy == after.qos_policy_id else evolve(after, qos_policy_id=policy)
