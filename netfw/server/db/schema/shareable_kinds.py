"""Kinds whose resources projects share by RBAC policies: one line for each."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from attrs import field, frozen

from netfw.model.rbac_policy import RbacAction
from netfw.model.resource import Kind


@frozen
class Use:
    """A reference by which a project uses a resource, and the action that allows it."""

    kind: Kind
    """The kind that refers to it."""
    attribute: str
    """The filter of that kind by the id of the resource."""
    action: RbacAction = RbacAction.SHARED


@frozen
class ShareableKind:
    """A kind that can be shared; its resources have a flag ``shared``."""

    kind: Kind
    object_type: str
    """The name in policies."""
    uses: tuple[Use, ...] = field(converter=tuple[Use, ...])

    @property
    def actions(self) -> tuple[RbacAction, ...]:
        """The actions of its policies."""
        used = {use.action for use in self.uses}
        return tuple(each for each in RbacAction if each in used)


_DECLARED: Final = (
    ShareableKind(
        Kind.NETWORK,
        "network",
        (
            Use(Kind.PORT, "network_id"),
            Use(Kind.SUBNET, "network_id"),
            Use(Kind.FLOATING_IP, "floating_network_id", RbacAction.EXTERNAL),
            Use(Kind.ROUTER, "gateway_network_id", RbacAction.EXTERNAL),
        ),
    ),
    ShareableKind(Kind.SECURITY_GROUP, "security_group", [Use(Kind.PORT, "security_groups")]),
    ShareableKind(
        Kind.ADDRESS_GROUP,
        "address_group",
        [Use(Kind.SECURITY_GROUP_RULE, "remote_address_group_id")],
    ),
    ShareableKind(
        Kind.QOS_POLICY,
        "qos_policy",
        (
            Use(Kind.NETWORK, "qos_policy_id"),
            Use(Kind.PORT, "qos_policy_id"),
            Use(Kind.FLOATING_IP, "qos_policy_id"),
            Use(Kind.ROUTER, "gateway_qos_policy_id"),
        ),
    ),
    ShareableKind(Kind.SUBNET_POOL, "subnetpool", [Use(Kind.SUBNET, "subnetpool_id")]),
    ShareableKind(Kind.ADDRESS_SCOPE, "address_scope", [Use(Kind.SUBNET_POOL, "address_scope_id")]),
)
SHAREABLE: Final[Mapping[Kind, ShareableKind]] = MappingProxyType(
    {each.kind: each for each in _DECLARED}
)
SHAREABLE_TYPES: Final[Mapping[str, ShareableKind]] = MappingProxyType(
    {each.object_type: each for each in _DECLARED}
)
