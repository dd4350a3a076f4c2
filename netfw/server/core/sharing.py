"""RBAC policies and the flags of resources that they stand for.

Policies alone decide who may access a resource.  The flags in its document follow from them:
``shared`` is a policy for all projects, ``router:external`` any policy of external access.  They
are written in one transaction, under the lock of the resource: where a request sets a flag, the
policies follow before the commit; where it changes a policy, the flags follow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, cast
from uuid import UUID, uuid4

from netfw.drivers.server.change import Change
from netfw.drivers.server.query import Query
from netfw.errors import InvalidInput
from netfw.errors.rbac import RbacPolicyInUse
from netfw.model.network import Network
from netfw.model.rbac_policy import EVERY_PROJECT, RbacAction, RbacPolicy
from netfw.model.resource import Kind, Ref, Resource, kind_of
from netfw.model.subnet_pool import AddressScope, SubnetPool
from netfw.model.values.ids import RbacPolicyId
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.db.schema.shareable_kinds import SHAREABLE, ShareableKind

QUOTA: Final = "rbac_policy"
_FLAGS: Final[Mapping[RbacAction, str]] = MappingProxyType(
    {RbacAction.SHARED: "shared", RbacAction.EXTERNAL: "external"}
)
"""The field of a resource that follows from the policies of an action."""


def policies_of(unit: UnitOfWork, id: UUID) -> tuple[RbacPolicy, ...]:
    """Return the policies of a resource."""
    query = Query(filters={"object_id": (str(id),)})
    rows = unit.tx.resources.find(Kind.RBAC_POLICY, query)
    return tuple(cast(RbacPolicy, row.resource()) for row in rows)


def sync_policies(unit: UnitOfWork, change: Change) -> None:
    """Bring the policies of a shareable resource in line with its flags; a pre-commit hook.

    :raises RbacPolicyInUse: access is withdrawn that a project uses.
    """
    newest: Any = change.before if change.after is None else change.after
    shareable = SHAREABLE.get(kind_of(newest))
    if shareable is None:
        return
    if change.after is None:
        _delete_policies(unit, policies_of(unit, newest.id))
        return
    for action in shareable.actions:
        before, after = (getattr(each, _FLAGS[action], False) for each in (change.before, newest))
        if before != after:
            _sync_action(unit, shareable, newest, action)


def sync_flags(unit: UnitOfWork, resource: Resource) -> Resource:
    """Bring the flags of a shareable resource, which is locked, in line with its policies.

    It gets its next revision in any case.
    """
    policies = policies_of(unit, resource.id)
    flags = {
        _FLAGS[action]: any(_sets_flag(each) for each in policies if each.action is action)
        for action in SHAREABLE[kind_of(resource)].actions
    }
    changed = unit.evolved(resource, **flags)
    return unit.touch(resource) if changed == resource else unit.update(resource, changed)


def check_unused(
    unit: UnitOfWork, policy: RbacPolicy, resource: Resource, target: str | None = None
) -> None:
    """Refuse to withdraw *policy*, which is locked, while a project uses *resource* by it.

    *target*: a project that keeps its access.

    :raises RbacPolicyInUse: naming a user.
    """
    if isinstance(resource, Network) and resource.is_default and _is_default_access(policy):
        raise RbacPolicyInUse(
            f"network {resource.id} is the default external network, which all projects may use; "
            "give its is_default as false first"
        )
    if policy.target_project != EVERY_PROJECT and any(
        each.action is policy.action and each.target_project == EVERY_PROJECT
        for each in policies_of(unit, policy.object_id)
    ):
        return
    if (user := find_use(unit, policy, resource, target)) is not None:
        raise RbacPolicyInUse(
            f"policy {policy.id} of {policy.object_type} {resource.id} is in use by {user} of a "
            "project that has access by it alone; delete what uses it, or share it otherwise first"
        )


def check_scope_access(unit: UnitOfWork, resource: Resource, target: str, attribute: str) -> None:
    """Refuse to share a subnet pool with a project that may not use the pool's address scope.

    This transaction depends on the policy that shares the scope.

    :raises InvalidInput: names *attribute* and the scope.
    """
    if not isinstance(resource, SubnetPool) or resource.address_scope_id is None:
        return
    scope, access = resource.address_scope_id, unit.tx.resources.access
    owner = unit.tx.resources.get(Kind.ADDRESS_SCOPE, scope).body["project_id"]
    if target != owner and not access.require(scope, target, RbacAction.SHARED):
        who = "not every project has" if target == EVERY_PROJECT else f"project {target} has no"
        text = f"{who} access to address scope {scope} of this subnet pool; share that first"
        raise InvalidInput({attribute: text})


def is_external_for(unit: UnitOfWork, network: Network) -> bool:
    """Return whether the requester may have gateways and floating IPs on a visible *network*.

    If so by a policy, this transaction depends on the policy.
    """
    sees = unit.requester.sees
    if not network.external or sees is None or sees == network.project_id:
        return network.external
    return unit.tx.resources.access.require(network.id, sees, RbacAction.EXTERNAL)


def find_use(
    unit: UnitOfWork, policy: RbacPolicy, resource: Resource, target: str | None = None
) -> Ref | None:
    """Return a use of *resource* by a project that has access by *policy* alone, or ``None``."""
    owner = str(getattr(resource, "project_id", ""))
    if policy.target_project == owner:
        return None
    if isinstance(resource, AddressScope):
        found = _find_shared_pool(unit, policy, owner)
        if found is not None:
            return found
    for use in SHAREABLE[kind_of(resource)].uses:
        if use.action is policy.action:
            found = unit.tx.resources.access.find_use(use, policy, owner, target)
            if found is not None:
                return found
    return None


def _find_shared_pool(unit: UnitOfWork, policy: RbacPolicy, owner: str) -> Ref | None:
    """Return a pool of an address scope that is shared with whom *policy* alone lets in."""
    kept = {each.target_project for each in policies_of(unit, policy.object_id)}
    kept = (kept - {policy.target_project}) | {owner}
    every = policy.target_project == EVERY_PROJECT
    query = Query(filters={"address_scope_id": (str(policy.object_id),)})
    for row in unit.tx.resources.find(Kind.SUBNET_POOL, query):
        targets = {each.target_project for each in policies_of(unit, row.ref.id)}
        if (targets - kept) if every else policy.target_project in targets:
            return row.ref
    return None


def _is_default_access(policy: RbacPolicy) -> bool:
    return policy.action is RbacAction.EXTERNAL and policy.target_project == EVERY_PROJECT


def _sets_flag(policy: RbacPolicy) -> bool:
    return policy.action is RbacAction.EXTERNAL or policy.target_project == EVERY_PROJECT


def _sync_action(
    unit: UnitOfWork, shareable: ShareableKind, resource: Any, action: RbacAction
) -> None:
    """Create the policy of a flag that was set, or withdraw the policies of one that was not."""
    setting = [
        each
        for each in policies_of(unit, resource.id)
        if each.action is action and _sets_flag(each)
    ]
    if not getattr(resource, _FLAGS[action]):
        for policy in setting:
            locked = unit.tx.resources.get(Kind.RBAC_POLICY, policy.id, lock=True)
            check_unused(unit, cast(RbacPolicy, locked.resource()), resource)
        _delete_policies(unit, setting)
    elif not setting:
        made = unit.insert(
            RbacPolicy(
                id=RbacPolicyId(uuid4()),
                project_id=resource.project_id,
                object_type=shareable.object_type,
                object_id=resource.id,
                action=action,
                target_project=EVERY_PROJECT,
            )
        )
        unit.count(QUOTA, made, implicit=True)


def _delete_policies(unit: UnitOfWork, policies: Iterable[RbacPolicy]) -> None:
    deleted = tuple(policies)
    for policy in deleted:
        unit.delete(policy)
    unit.count(QUOTA, deleted, gone=True)
