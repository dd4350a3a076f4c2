"""Trunks."""

from __future__ import annotations

from netfw.model.wire.codec import Listed, Scalar, describe
from netfw.model.wire.scalars import ID, NUMBER, TOKEN
from netfw.server.api.resources.common import (
    ADMIN_STATE,
    NAMED,
    OWN,
    STANDARD,
    STATUS_SHOWN,
)
from netfw.server.api.schema.request_codecs import Null, Record
from netfw.server.api.schema.resource_schema import (
    MEMBER,
    READER,
    ApiAction,
    ApiAttribute,
    ApiResource,
)


def _parse_tag(raw: object) -> int:
    """Accept a number, also as text."""
    if isinstance(raw, str) and raw.isascii() and raw.isdigit() and len(raw) < 6:
        return int(raw)
    if isinstance(raw, bool) or not isinstance(raw, int):
        raise ValueError(f"not a VLAN: {describe(raw)}")
    return int(NUMBER.parse(raw))


_SUB_PORT = Record(
    {
        "port_id": ID,
        "segmentation_type": TOKEN,
        "segmentation_id": Null(Scalar(_parse_tag, int, NUMBER.schema)),
    },
    required=("port_id",),
)
MAX_SUB_PORTS = 256
"""Sub-ports in one request, each of which changes a port; a trunk has up to 4094."""
_SUB_PORTS = Listed(_SUB_PORT, limit=MAX_SUB_PORTS)
_REQUESTED = (ApiAttribute(name="sub_ports", codec=_SUB_PORTS, required=True),)

TRUNK = ApiResource(
    name="trunk",
    collection="trunks",
    checks=OWN,
    tags=True,
    quota="trunk",
    attributes=(
        *STANDARD,
        NAMED,
        ADMIN_STATE,
        STATUS_SHOWN,
        ApiAttribute(name="port_id", codec=ID, required=True, update=False, sortable=True),
        ApiAttribute(
            name="sub_ports",
            codec=Null(_SUB_PORTS, []),
            default=[],
            update=False,
            filterable=False,
            note="Each with port_id, and segmentation_type vlan and segmentation_id, or inherit.",
        ),
    ),
    actions=(
        ApiAction(name="add_subports", attributes=_REQUESTED, check=MEMBER, shows=True),
        ApiAction(name="remove_subports", attributes=_REQUESTED, check=MEMBER, shows=True),
        ApiAction(name="get_subports", method="GET", check=READER),
    ),
)

TRUNK_RESOURCES = (TRUNK,)
