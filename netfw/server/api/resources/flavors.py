"""Flavors, service profiles and service providers."""

from __future__ import annotations

from netfw.model.wire.codec import Listed
from netfw.model.wire.scalars import ID, TOKEN, word_of
from netfw.server.api.resources.common import (
    MAX_ITEMS,
    NAMED,
    STANDARD,
    read_only,
)
from netfw.server.api.schema.request_codecs import FLAG, long_text
from netfw.server.api.schema.resource_schema import (
    ADMIN,
    READ,
    REGULAR_USER,
    ApiAttribute,
    ApiResource,
    Verb,
)
from netfw.server.flavors.providers import SERVICE_TYPES

_CHECKS = {Verb.CREATE: ADMIN, Verb.SHOW: REGULAR_USER, Verb.UPDATE: ADMIN, Verb.DELETE: ADMIN}
_PROFILE_CHECKS = dict.fromkeys(Verb, ADMIN)
_ENABLED = ApiAttribute(name="enabled", codec=FLAG, default=True, sortable=True)

FLAVOR = ApiResource(
    name="flavor",
    collection="flavors",
    checks=_CHECKS,
    tags=True,
    attributes=(
        *STANDARD,
        NAMED,
        ApiAttribute(
            name="service_type",
            codec=word_of(SERVICE_TYPES),
            required=True,
            update=False,
            sortable=True,
            note="L3_ROUTER_NAT: a flavor of routers.",
        ),
        ApiAttribute(
            name="service_profiles",
            codec=Listed(ID, limit=MAX_ITEMS),
            default=[],
            filterable=False,
            note="The first with a driver decides what the flavor is.",
        ),
        _ENABLED,
    ),
)
SERVICE_PROFILE = ApiResource(
    name="service_profile",
    collection="service_profiles",
    checks=_PROFILE_CHECKS,
    tags=True,
    attributes=(
        *STANDARD,
        ApiAttribute(
            name="driver",
            codec=long_text(1024),
            default="",
            sortable=True,
            note="The name of a service provider.",
        ),
        ApiAttribute(name="metainfo", codec=long_text(4096), default=""),
        _ENABLED,
    ),
)
FLAVOR_SERVICE_PROFILE = ApiResource(
    name="flavor_service_profile",
    collection="service_profiles",
    singular="service_profile",
    parent="flavor",
    parent_attribute="flavor_id",
    shows_as="service_profile",
    bulk=False,
    verbs=frozenset({Verb.CREATE, Verb.SHOW, Verb.DELETE}),
    member_shown=False,
    checks=_PROFILE_CHECKS,
    attributes=(ApiAttribute(name="id", codec=ID, required=True, filterable=False),),
)
SERVICE_PROVIDER = ApiResource(
    name="service_provider",
    collection="service-providers",
    identity="name",
    verbs=READ,
    member_shown=False,
    checks={Verb.SHOW: REGULAR_USER},
    attributes=(
        read_only("service_type", TOKEN, filterable=True),
        read_only("name", TOKEN, filterable=True),
        read_only("default", FLAG, filterable=True),
    ),
)

FLAVOR_RESOURCES = (FLAVOR, SERVICE_PROFILE, FLAVOR_SERVICE_PROFILE, SERVICE_PROVIDER)
