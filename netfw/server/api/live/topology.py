"""Topology: hosts, networks, routers and ports as the requester sees them, within limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from netfw.errors import Forbidden
from netfw.server.api.live.own_api import Body, OwnApi, Page

LIMITS: Final[Mapping[str, int]] = {
    "agents": 600,
    "networks": 200,
    "subnets": 400,
    "routers": 100,
    "ports": 500,
}
"""How many of each the page shows."""
_SHOWN: Final[Mapping[str, Mapping[str, str]]] = {
    "agents": {
        "id": "id",
        "type": "agent_type",
        "host": "host",
        "alive": "alive",
        "admin_up": "admin_state_up",
        "heartbeat": "heartbeat_timestamp",
        "is_synced": "resources_synced",
    },
    "networks": {
        "id": "id",
        "name": "name",
        "project": "project_id",
        "status": "status",
        "admin_up": "admin_state_up",
        "external": "router:external",
        "shared": "shared",
        "type": "provider:network_type",
        "physical": "provider:physical_network",
        "segment": "provider:segmentation_id",
    },
    "subnets": {
        "id": "id",
        "name": "name",
        "network": "network_id",
        "cidr": "cidr",
        "gateway": "gateway_ip",
    },
    "routers": {
        "id": "id",
        "name": "name",
        "project": "project_id",
        "status": "status",
        "reason": "status_reason",
        "admin_up": "admin_state_up",
        "ha": "ha",
        "distributed": "distributed",
    },
    "ports": {
        "id": "id",
        "name": "name",
        "project": "project_id",
        "network": "network_id",
        "status": "status",
        "reason": "status_reason",
        "admin_up": "admin_state_up",
        "mac": "mac_address",
        "host": "binding:host_id",
        "binding": "binding:vif_type",
        "owner": "device_owner",
        "device": "device_id",
    },
}
"""By collection, the names on the page and the attributes of the API."""
_BACKLOG: Final = ("lag_seconds", "degraded", "waiting")


def read_topology(api: OwnApi, network: str = "") -> dict[str, Any]:
    """Return what *api* shows, as plain data that is equal while nothing changes.

    *network*: the id of a network; the ports of others are left out.
    """
    pages = {name: _page(api, name, network) for name in LIMITS}
    return {
        "project": api.requester.project_id,
        "admin": api.requester.admin,
        **{name: _rows(name, page) for name, page in pages.items()},
        "more": {name: LIMITS[name] for name, page in pages.items() if page and page.has_more},
        "hidden": [name for name, page in pages.items() if page is None],
    }


def _page(api: OwnApi, name: str, network: str) -> Page | None:
    """Return the first of a collection; ``None``: they are not shown to this requester."""
    filters = {"network_id": network} if network and name == "ports" else {}
    try:
        return api.page(name, LIMITS[name], **filters)
    except Forbidden:
        return None


def _rows(name: str, page: Page | None) -> list[dict[str, Any]]:
    rows = () if page is None else page.rows
    extra = {"agents": _backlog, "ports": _addresses, "routers": _gateway}.get(name, _nothing)
    return [
        {key: row[attribute] for key, attribute in _SHOWN[name].items() if attribute in row}
        | extra(row)
        for row in rows
    ]


def _nothing(row: Body) -> dict[str, Any]:
    del row
    return {}


def _addresses(row: Body) -> dict[str, Any]:
    return {"addresses": [each["ip_address"] for each in row.get("fixed_ips") or ()]}


def _gateway(row: Body) -> dict[str, Any]:
    return {"gateway": (row.get("external_gateway_info") or {}).get("network_id")}


def _backlog(row: Body) -> dict[str, Any]:
    """Return how far an agent is behind, as its last heartbeat said."""
    found = row.get("configurations") or {}
    return {name: found[name] for name in _BACKLOG if isinstance(found.get(name), int)}
