"""RBAC policies."""

from __future__ import annotations

from netfw.model.wire.scalars import ID, TEXT
from netfw.server.api.resources.common import IDENTITY, OWN, PROJECT
from netfw.server.api.schema.resource_schema import ApiAttribute, ApiResource, Verb

_WILDCARD = {Verb.CREATE: "rule:restrict_wildcard", Verb.UPDATE: "rule:restrict_wildcard"}

RBAC_POLICY = ApiResource(
    name="rbac_policy",
    collection="rbac-policies",
    checks=OWN,
    quota="rbac_policy",
    attributes=(
        IDENTITY,
        *PROJECT,
        ApiAttribute(
            name="object_type",
            codec=TEXT,
            required=True,
            update=False,
            sortable=True,
            note="network, security_group, or another kind that can be shared.",
        ),
        ApiAttribute(name="object_id", codec=ID, required=True, update=False, sortable=True),
        ApiAttribute(
            name="action",
            codec=TEXT,
            required=True,
            update=False,
            sortable=True,
            note="access_as_shared; of networks also access_as_external.",
        ),
        ApiAttribute(
            name="target_tenant",
            codec=TEXT,
            required=True,
            sortable=True,
            checks=_WILDCARD,
            note="The id of a project; * is for all projects, and for administrators alone.",
        ),
    ),
)

RBAC_RESOURCES = (RBAC_POLICY,)
