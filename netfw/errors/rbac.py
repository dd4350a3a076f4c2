"""Refusals of RBAC policies."""

from __future__ import annotations

from netfw.errors import Conflict, InUse, NotFound


class RbacPolicyNotFound(NotFound):
    """The RBAC policy does not exist, or the requester may not see it."""

    resource = "rbac_policy"


class RbacPolicyInUse(InUse):
    """A project uses the resource and has access by this policy alone."""

    resource = "rbac_policy"


class DuplicateRbacPolicy(Conflict):
    """The project has this access to the resource by another policy."""
