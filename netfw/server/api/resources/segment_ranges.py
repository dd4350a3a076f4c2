"""Network segment ranges."""

from __future__ import annotations

from netfw.model.wire.codec import Listed, Nullable
from netfw.model.wire.scalars import (
    DOCUMENT,
    NETWORK_TYPE,
    NUMBER,
    PHYSICAL_NETWORK,
    TEXT,
    integer,
    word_of,
)
from netfw.server.api.resources.common import NAMED, PROJECT, STANDARD, read_only
from netfw.server.api.schema.request_codecs import FLAG, Either, Null
from netfw.server.api.schema.resource_schema import ADMIN, ApiAttribute, ApiResource, Verb

_NUMBERED = integer(1, 2**32 - 1)
_PROJECT_NAMES = frozenset(each.name for each in PROJECT)

NETWORK_SEGMENT_RANGE = ApiResource(
    name="network_segment_range",
    collection="network-segment-ranges",
    checks=dict.fromkeys(Verb, ADMIN),
    tags=True,
    attributes=(
        *(each for each in STANDARD if each.name not in _PROJECT_NAMES),
        *(
            ApiAttribute(
                name=each.name,
                codec=Nullable(TEXT),
                update=False,
                sortable=True,
                note="The project whose networks use the range first; null: it is shared.",
            )
            for each in PROJECT
        ),
        NAMED,
        read_only(
            "default",
            FLAG,
            filterable=True,
            note="The range follows from the configuration, and cannot be changed here.",
        ),
        ApiAttribute(
            name="shared",
            codec=FLAG,
            update=False,
            default=True,
            note="Networks of all projects use the range.",
        ),
        ApiAttribute(
            name="network_type",
            codec=NETWORK_TYPE,
            required=True,
            update=False,
        ),
        ApiAttribute(
            name="physical_network",
            codec=Null(Either(PHYSICAL_NETWORK, word_of([""])), ""),
            default="",
            update=False,
            note="Required for VLANs; empty for tunnels.",
        ),
        ApiAttribute(name="minimum", codec=_NUMBERED, required=True, filterable=False),
        ApiAttribute(name="maximum", codec=_NUMBERED, required=True, filterable=False),
        read_only("available", Listed(NUMBER), note="The lowest free numbers, at most 1,000."),
        read_only(
            "used",
            DOCUMENT,
            note="The lowest numbers that networks have, at most 1,000, with their projects.",
        ),
    ),
)
