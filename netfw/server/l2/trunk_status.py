"""The status of trunks and the details that their parent ports show, computed when they are read.

The status follows from the ports, so it is never out of date.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping, Sequence, Set
from typing import Any
from uuid import UUID

from netfw.drivers.server.query import Query
from netfw.drivers.values.subscription import Service
from netfw.model.binding import VifType
from netfw.model.resource import Kind, Ref
from netfw.model.values.common_fields import Status
from netfw.server.core.resource_handler import Reader
from netfw.server.db.agents.status_reports import StatusReports

_REFUSED = (Status.DEGRADED, Status.ERROR)
"""Statuses by which a host reports that it cannot wire a port."""
MutableBody = MutableMapping[str, Any]


def trunk_status(
    parent: Mapping[str, Any],
    sub_ports: Iterable[Mapping[str, Any]],
    refused: Set[str] = frozenset(),
) -> Status:
    """Return the status of a trunk, from the bodies of its ports.

    ERROR: a port cannot be bound.  DEGRADED: a host reports that it cannot wire a sub-port
    (*refused*).  BUILD: the parent is wired, and not yet all sub-ports.  DOWN: the parent is not
    wired.
    """
    subs = tuple(sub_ports)
    failed = VifType.BINDING_FAILED.value
    if any(port["binding:vif_type"] == failed for port in (parent, *subs)):
        return Status.ERROR
    if parent["status"] != Status.ACTIVE.value:
        return Status.DOWN
    # A sub-port that is switched off is as it should be.
    waiting = [port for port in subs if _is_waiting(port)]
    if any(port["id"] in refused for port in waiting):
        return Status.DEGRADED
    return Status.BUILD if waiting else Status.ACTIVE


def _is_waiting(port: Mapping[str, Any]) -> bool:
    return bool(port["admin_state_up"]) and port["status"] != Status.ACTIVE.value


def add_trunk_statuses(reader: Reader, bodies: Sequence[MutableBody]) -> None:
    """Set the statuses of trunks, by two statements for some hundreds of ports."""
    ids = {id for body in bodies for id in _port_ids(body)}
    rows = reader.resources.present(Ref(Kind.PORT, UUID(id)) for id in ids)
    ports = {row.body["id"]: row.body for row in rows}
    waiting = [row for row in rows if _is_waiting(row.body) and row.body["binding:host_id"]]
    reports = StatusReports(reader.connection).of(row.ref for row in waiting) if waiting else {}
    refused = {
        str(ref.id)
        for ref, some in reports.items()
        for report in some
        if report.service is Service.L2
        and report.status in _REFUSED
        and report.host == ports[str(ref.id)]["binding:host_id"]
    }
    for body in bodies:
        parent, *subs = (ports[id] for id in _port_ids(body))
        body["status"] = trunk_status(parent, subs, refused).value


def add_trunk_details(reader: Reader, bodies: Sequence[MutableBody]) -> None:
    """Replace the membership of ports by the details of trunks, which parent ports show.

    It takes two statements if any port is the parent of a trunk, and none otherwise.
    """
    memberships = ((body["id"], body.pop("trunk", None)) for body in bodies)
    parents = {id: it["trunk_id"] for id, it in memberships if it and not it.get("parent_id")}
    if not parents:
        return
    found = reader.resources.present(Ref(Kind.TRUNK, UUID(id)) for id in parents.values())
    trunks = {row.body["port_id"]: row.body for row in found}
    subs = {sub["port_id"] for trunk in trunks.values() for sub in trunk["sub_ports"]}
    ports = reader.resources.present(Ref(Kind.PORT, UUID(id)) for id in subs)
    macs = {row.body["id"]: row.body["mac_address"] for row in ports}
    for body in bodies:
        if (trunk := trunks.get(body["id"])) is not None:
            details = [{**sub, "mac_address": macs[sub["port_id"]]} for sub in trunk["sub_ports"]]
            body["trunk_details"] = {"trunk_id": trunk["id"], "sub_ports": details}


def needs_status(query: Query) -> bool:
    """Return whether a query filters or sorts by the status, which is in no column."""
    return "status" in query.filters or any(name == "status" for name, _ in query.sort)


def _port_ids(body: Mapping[str, Any]) -> list[str]:
    return [body["port_id"], *(sub["port_id"] for sub in body["sub_ports"])]
