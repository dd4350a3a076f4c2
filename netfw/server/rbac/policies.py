"""RbacPolicyHandler, and the service plugin for RBAC policies.

A change of a policy locks the resource that it shares, then the policy, as all transactions do that
use the resource or set its flags.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any, ClassVar, Self, cast
from uuid import UUID, uuid4

from attrs import evolve

from netfw.drivers.base import Capability, DriverInfo, HostResources
from netfw.drivers.server.query import Body, RequestContext
from netfw.drivers.server.service_plugin import ServicePlugin
from netfw.errors import InvalidInput, nearest
from netfw.errors.rbac import DuplicateRbacPolicy
from netfw.model.network import Network
from netfw.model.rbac_policy import EVERY_PROJECT, RbacAction, RbacPolicy
from netfw.model.resource import Kind, Resource
from netfw.model.wire import parse
from netfw.server.core.handler_plugin import HandlerPlugin
from netfw.server.core.resource_handler import Reader, StoredResourceHandler
from netfw.server.core.server_context import ServerContext, server_context
from netfw.server.core.sharing import QUOTA, check_scope_access, check_unused, sync_flags
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.db.engine.errors import Duplicate
from netfw.server.db.schema.shareable_kinds import SHAREABLE_TYPES, ShareableKind

TARGET = "target_tenant"


class RbacPolicyHandler(StoredResourceHandler[RbacPolicy]):
    """RBAC policies; only their target can be changed."""

    name: ClassVar[str] = "rbac_policy"
    kind: ClassVar[Kind] = Kind.RBAC_POLICY
    quota: ClassVar[str | None] = QUOTA

    def do_create(self, unit: UnitOfWork, bodies: Sequence[Body]) -> tuple[RbacPolicy, ...]:
        policies = [_parse(unit, body) for body in bodies]
        by_object = {each.object_id: each for each in policies}
        shared = {id: _lock_object(unit, by_object[id], new=True) for id in sorted(by_object)}
        for policy in policies:
            check_scope_access(unit, shared[policy.object_id], policy.target_project, TARGET)
        try:
            stored = unit.insert(*policies)
        except Duplicate as exc:
            raise DuplicateRbacPolicy(
                "a policy of this action, of this object and for this project exists already"
            ) from exc
        for resource in shared.values():
            sync_flags(unit, resource)
        return stored

    def do_update(self, unit: UnitOfWork, before: RbacPolicy, body: Body) -> RbacPolicy:
        target = str(body.get(TARGET, before.target_project))
        if target == before.target_project:
            return before
        resource = _lock_object(unit, before, new=True)
        if target != EVERY_PROJECT:
            narrowed = target if before.action is RbacAction.EXTERNAL else None
            check_unused(unit, before, resource, narrowed)
        check_scope_access(unit, resource, target, TARGET)
        try:
            after = unit.update(before, _retargeted(before, target))
        except Duplicate as exc:
            raise DuplicateRbacPolicy(
                f"project {target} has this access to {before.object_id} by another policy"
            ) from exc
        sync_flags(unit, resource)
        return after

    def do_delete(self, unit: UnitOfWork, before: RbacPolicy) -> None:
        resource = _lock_object(unit, before)
        check_unused(unit, before, resource)
        unit.delete(before)
        sync_flags(unit, resource)

    def get_for_update(self, unit: UnitOfWork, id: str, revision: int | None = None) -> RbacPolicy:
        row = unit.tx.resources.get(self.kind, self.identity(id), project=unit.requester.sees)
        _lock_object(unit, cast(RbacPolicy, row.resource()))
        return super().get_for_update(unit, id, revision)

    def decorate(
        self, reader: Reader, requester: RequestContext, bodies: Sequence[MutableMapping[str, Any]]
    ) -> None:
        """Remove the revision, which policies do not show."""
        for body in bodies:
            del body["revision_number"]


class RbacPlugin(HandlerPlugin, ServicePlugin):
    """Service plugin for RBAC policies."""

    VERSION: ClassVar[int] = 2

    def __init__(self, context: ServerContext) -> None:
        super().__init__(context, (RbacPolicyHandler(),))

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        return cls(server_context(host))

    def describe(self) -> DriverInfo[Capability]:
        return DriverInfo("rbac")


def _parse(unit: UnitOfWork, body: Body) -> RbacPolicy:
    """Return the policy of a request, with a new id.

    :raises InvalidInput: this server has no such resources, or they have no such action.
    """
    shareable = _shareable(unit, str(body["object_type"]))
    action = str(body["action"])
    if action not in shareable.actions:
        known = ", ".join(shareable.actions)
        text = f"{action[:80]!r} is no action of a {shareable.object_type}: give one of {known}"
        raise InvalidInput({"action": text})
    if not body[TARGET]:
        raise InvalidInput({TARGET: "empty: give the id of a project, or * for all"})
    named = {**body, "id": str(uuid4()), "object_type": shareable.object_type}
    return cast(RbacPolicy, parse(Kind.RBAC_POLICY, named))


def _shareable(unit: UnitOfWork, object_type: str) -> ShareableKind:
    found = SHAREABLE_TYPES.get(object_type.strip().lower())
    if found is None or found.kind.value not in unit.context.handlers:
        known = sorted(
            name
            for name, each in SHAREABLE_TYPES.items()
            if each.kind.value in unit.context.handlers
        )
        hint = nearest(object_type[:80], known) or f": give one of {', '.join(known)}"
        raise InvalidInput({"object_type": f"{object_type[:80]!r} cannot be shared{hint}"})
    return found


def _lock_object(unit: UnitOfWork, policy: RbacPolicy, *, new: bool = False) -> Resource:
    """Return the resource of *policy*, locked.

    *new*: the policy gives access, so the requester must see and own the resource.

    :raises NotFound: it does not exist, or is invisible to the requester.
    :raises InvalidInput: the requester does not own it.
    """
    kind, sees = SHAREABLE_TYPES[policy.object_type].kind, unit.requester.sees
    row = unit.tx.resources.get(
        kind, UUID(str(policy.object_id)), project=sees if new else None, lock=True
    )
    if new and sees not in (None, row.body["project_id"]):
        text = f"belongs to another project, which alone can share {kind} {policy.object_id}"
        raise InvalidInput({"object_id": text})
    resource = row.resource()
    if isinstance(resource, Network):
        unit.remember_locked(resource)
    return resource


def _retargeted(policy: RbacPolicy, target: str) -> RbacPolicy:
    try:
        return evolve(policy, target_project=target)
    except ValueError as exc:
        raise InvalidInput({TARGET: str(exc)}) from exc
