"""Local IPs, and the ports that they lead to."""

from __future__ import annotations

from netfw.model.local_ip import LocalIpMode
from netfw.model.wire.scalars import ADDRESS, HOST_OR_EMPTY, ID, choice
from netfw.server.api.resources.common import NAMED, OWN, STANDARD, TAGS, read_only
from netfw.server.api.schema.request_codecs import Null
from netfw.server.api.schema.resource_schema import ADMIN, ApiAttribute, ApiResource, Verb

_PARENT_OWNER = f"{ADMIN} or (role:member and rule:ext_parent_owner)"
_PARENT_READER = f"{ADMIN} or (role:reader and rule:ext_parent_owner)"
_MODE = choice(LocalIpMode)

LOCAL_IP = ApiResource(
    name="local_ip",
    collection="local_ips",
    checks=OWN,
    quota="local_ip",
    attributes=(
        *(each for each in STANDARD if each is not TAGS),
        NAMED,
        ApiAttribute(
            name="local_port_id",
            codec=Null(ID),
            update=False,
            sortable=True,
            note="The port with the address; without one, a new port of network_id.",
        ),
        ApiAttribute(name="network_id", codec=Null(ID), update=False, sortable=True),
        ApiAttribute(
            name="local_ip_address",
            codec=Null(ADDRESS),
            update=False,
            sortable=True,
            note="IPv4.  Unless given, the only address of the port, or a free one.",
        ),
        ApiAttribute(
            name="ip_mode",
            codec=_MODE,
            default=LocalIpMode.TRANSLATE.value,
            update=False,
            sortable=True,
            note="translate: the destination becomes fixed_ip.  passthrough: it stays.",
        ),
    ),
)
LOCAL_IP_PORT_ASSOCIATION = ApiResource(
    name="local_ip_port_association",
    collection="port_associations",
    singular="port_association",
    parent="local_ip",
    parent_attribute="local_ip_id",
    identity="fixed_port_id",
    verbs=frozenset({Verb.CREATE, Verb.SHOW, Verb.DELETE}),
    checks={
        Verb.CREATE: _PARENT_OWNER,
        Verb.SHOW: _PARENT_READER,
        Verb.DELETE: _PARENT_OWNER,
    },
    attributes=(
        read_only("local_ip_id", ID),
        read_only("local_ip_address", ADDRESS, filterable=True, sortable=True),
        ApiAttribute(name="fixed_port_id", codec=ID, required=True, sortable=True),
        ApiAttribute(
            name="fixed_ip",
            codec=Null(ADDRESS),
            sortable=True,
            note="IPv4.  Unless given, the only address of the port.",
        ),
        read_only("host", HOST_OR_EMPTY, filterable=True, sortable=True),
    ),
)

LOCAL_IP_RESOURCES = (LOCAL_IP, LOCAL_IP_PORT_ASSOCIATION)
