"""Quotas: how many of each a project may have."""

from __future__ import annotations

from collections.abc import Iterable

from netfw.model.wire.scalars import TEXT, integer
from netfw.server.api.resources.common import read_only
from netfw.server.api.schema.request_codecs import FLAG
from netfw.server.api.schema.resource_schema import (
    ADMIN,
    READER,
    ApiAction,
    ApiAttribute,
    ApiResource,
    Verb,
)

LIMIT = integer(-1, 2**31 - 1)
"""-1: any number."""


def quota_resource(counted: Iterable[str]) -> ApiResource:
    """Declare the quotas of a project for the names *counted*; their id is the project."""
    return ApiResource(
        name="quota",
        collection="quotas",
        identity="project_id",
        verbs=frozenset({Verb.SHOW, Verb.UPDATE, Verb.DELETE}),
        checks={Verb.SHOW: READER, Verb.UPDATE: ADMIN, Verb.DELETE: ADMIN},
        attributes=(
            *(
                ApiAttribute(name=name, codec=LIMIT, create=False, filterable=False)
                for name in counted
            ),
            ApiAttribute(
                name="check_limit",
                codec=FLAG,
                create=False,
                filterable=False,
                shown=False,
                note="Refuse a limit below what is used; that is the default.",
            ),
            ApiAttribute(
                name="force",
                codec=FLAG,
                create=False,
                filterable=False,
                shown=False,
                note="Accept a limit below what is used.",
            ),
            read_only("project_id", TEXT, filterable=True),
            read_only("tenant_id", TEXT, filterable=True),
        ),
        actions=(_reading("default"), _reading("details")),
    )


def _reading(name: str) -> ApiAction:
    """Return an action that shows quotas in another form."""
    return ApiAction(
        name=name, method="GET", check=READER, rule=f"get_quota_{name}", envelope="quota"
    )
