"""Metering labels and their rules."""

from __future__ import annotations

from netfw.model.wire.codec import Nullable
from netfw.model.wire.common import DIRECTION
from netfw.model.wire.scalars import CIDR, ID, TEXT
from netfw.server.api.resources.common import (
    FOR_ADMINS,
    NAMED,
    STANDARD,
    STATUS_SHOWN,
    TAGS,
    read_only,
)
from netfw.server.api.schema.request_codecs import FLAG, long_text
from netfw.server.api.schema.resource_schema import (
    ADMIN,
    READER,
    REGULAR_USER,
    ApiAttribute,
    ApiResource,
    Verb,
)

_MANAGER = f"{ADMIN} or (role:manager and project_id:%(project_id)s)"
_VERBS = frozenset({Verb.CREATE, Verb.SHOW, Verb.DELETE})
_OWN = ("description", "tags")
"""Standard attributes that are declared here in another form."""
_STANDARD = (
    *(each for each in STANDARD if each.name not in _OWN),
    read_only("tags", TAGS.codec),
)

METERING_LABEL = ApiResource(
    name="metering_label",
    collection="metering-labels",
    prefix="metering",
    verbs=_VERBS,
    checks={
        Verb.CREATE: _MANAGER,
        Verb.SHOW: f"{READER} or True:%(shared)s",
        Verb.DELETE: _MANAGER,
    },
    attributes=(
        *_STANDARD,
        NAMED,
        ApiAttribute(name="description", codec=long_text(1024), default="", sortable=True),
        ApiAttribute(
            name="shared",
            codec=FLAG,
            default=False,
            sortable=True,
            checks=FOR_ADMINS,
            note="The label is for the routers of all projects.",
        ),
        read_only(
            "status", STATUS_SHOWN.codec, note="DOWN: nothing is counted, see `status_reason`."
        ),
        read_only("status_reason", Nullable(TEXT)),
    ),
)
METERING_LABEL_RULE = ApiResource(
    name="metering_label_rule",
    collection="metering-label-rules",
    prefix="metering",
    verbs=_VERBS,
    checks={Verb.CREATE: _MANAGER, Verb.SHOW: REGULAR_USER, Verb.DELETE: _MANAGER},
    attributes=(
        *_STANDARD,
        read_only("description", TEXT),
        read_only("shared", FLAG, note="As its label."),
        ApiAttribute(name="metering_label_id", codec=ID, required=True, sortable=True),
        ApiAttribute(name="direction", codec=DIRECTION, required=True, sortable=True),
        ApiAttribute(
            name="excluded",
            codec=FLAG,
            default=False,
            sortable=True,
            note="The traffic is taken out of what other rules of the label count.",
        ),
        *(
            ApiAttribute(name=name, codec=Nullable(CIDR), default=None, sortable=True)
            for name in ("remote_ip_prefix", "source_ip_prefix", "destination_ip_prefix")
        ),
    ),
)

METERING_RESOURCES = (METERING_LABEL, METERING_LABEL_RULE)
