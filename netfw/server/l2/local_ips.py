"""Handlers of local IPs and of their associations, and their service plugin.

Each associated port says so itself (``Port.local_ips``), so that agents need no other resource, and
an association costs the port that it changes.  The local IP itself is read by the server alone.
All changes lock the local IP before ports.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final, Self, cast
from uuid import UUID

from attrs import evolve

from netfw.drivers.base import Capability, DriverInfo, HostResources
from netfw.drivers.server.change import Change
from netfw.drivers.server.query import Body, Query, RequestContext
from netfw.drivers.server.service_plugin import ServicePlugin
from netfw.errors import InvalidInput
from netfw.errors.local_ips import (
    LocalIPAssociationExists,
    LocalIPAssociationNotFound,
    LocalIPInUse,
    LocalIPPortOrNetworkRequired,
)
from netfw.errors.ports import ServicePortInUse
from netfw.errors.requests import BadRequest
from netfw.model.local_ip import MAX_PER_PORT, LocalIpAssociation, LocalIpMode
from netfw.model.port import Port
from netfw.model.resource import Kind
from netfw.model.values.address import Mac
from netfw.model.values.device_owner import DeviceOwner
from netfw.model.values.ids import LocalIpId, NetworkId
from netfw.server.core.document_handler import DocumentHandler
from netfw.server.core.handler_plugin import HandlerPlugin
from netfw.server.core.resource_handler import Reader, ResourceHandler, apply_query
from netfw.server.core.server_context import ServerContext, server_context
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.db.resources.vendor_resources import VendorResources
from netfw.server.l2.local_ip_validation import (
    check_chosen_address,
    check_host,
    check_network,
    choose_address,
    get_port,
)
from netfw.server.l2.ports import PortHandler

NAME: Final = "local_ip"
PARENT: Final = "local_ip_id"
PORT: Final = "fixed_port_id"
LOCAL_PORT: Final = "local_port_id"


class LocalIpHandler(DocumentHandler):
    """Local IPs; a port has the address of each."""

    def __init__(self) -> None:
        super().__init__(NAME, parent=LOCAL_PORT, counted=True, tagged=False)

    def create(self, unit: UnitOfWork, bodies: Sequence[Body]) -> tuple[Body, ...]:
        if len(bodies) > 1:  # before ports are made
            own = unit.requester.project_id
            unit.check_quota(NAME, (str(body.get("project_id") or own) for body in bodies))
        located = [self._located(unit, body) for body in bodies]
        made = super().create(unit, [body for body, _ in located])
        for body, (_, port) in zip(made, located, strict=True):
            if port.device_owner == DeviceOwner.LOCAL_IP and not port.device_id:
                unit.update(port, evolve(port, device_id=str(body["id"])))
        return made

    def _get(
        self, reader: Reader, requester: RequestContext, id: str, *, lock: bool = False
    ) -> dict[str, Any]:
        return _without_tags(super()._get(reader, requester, id, lock=lock))

    def _derived(self, reader: Reader, bodies: Sequence[Body]) -> Sequence[Body]:
        return [_without_tags(each) for each in bodies]

    def _located(self, unit: UnitOfWork, body: Body) -> tuple[Body, Port]:
        """Return *body* with its port, network and address, and the port."""
        requested = cast("str | None", body.get("local_ip_address"))
        if body.get(LOCAL_PORT) is not None:
            port = get_port(unit, LOCAL_PORT, str(body[LOCAL_PORT]))
        elif body.get("network_id") is not None:
            port = _make_port(unit, body, requested)
        else:
            text = f"is required, or {LOCAL_PORT}: it has the address"
            raise LocalIPPortOrNetworkRequired({"network_id": text})
        chosen = {
            LOCAL_PORT: str(port.id),
            "network_id": str(port.network_id),
            "local_ip_address": str(choose_address(port, "local_ip_address", requested)),
        }
        return {**body, **chosen}, port

    def delete(self, unit: UnitOfWork, id: str, revision: int | None = None) -> None:
        found = self.get_for_update(unit, id, revision)
        if users := find_associated(unit.tx, found["id"]):
            raise LocalIPInUse(
                f"local IP {found['id']} leads to port {users[0].id}; delete its "
                "port_associations first"
            )
        super().delete(unit, id, revision)
        rows = unit.tx.statuses.get_for_update(Kind.PORT, [UUID(found[LOCAL_PORT])])
        for row in rows.values():
            port = cast(Port, row.resource())
            if port.device_owner == DeviceOwner.LOCAL_IP and not _local_ips_of(unit, port):
                _ports(unit).discard(unit, port)


def _without_tags(body: Body) -> dict[str, Any]:
    """Return *body* without tags, which earlier releases stored and no request could set."""
    return {name: value for name, value in body.items() if name != "tags"}


class LocalIpAssociationHandler(ResourceHandler):
    """Associations of local IPs; the id of a member is ``<local IP>/<port>``."""

    name: ClassVar[str] = "local_ip_port_association"

    def __init__(self, local_ips: LocalIpHandler) -> None:
        self._local_ips = local_ips

    def create(self, unit: UnitOfWork, bodies: Sequence[Body]) -> tuple[Body, ...]:
        return tuple(self._create(unit, body) for body in bodies)

    def _create(self, unit: UnitOfWork, body: Body) -> Body:
        local_ip = self._local_ips.get_for_update(unit, str(body[PARENT]))
        port = get_port(unit, PORT, str(body[PORT]))
        if any(str(each.local_ip_id) == local_ip["id"] for each in port.local_ips):
            text = f"local IP {local_ip['id']} is associated with port {port.id} already"
            raise LocalIPAssociationExists(text)
        _check_associable(local_ip, port)
        check_host(unit, port)
        requested = cast("str | None", body.get("fixed_ip"))
        made = LocalIpAssociation(
            local_ip_id=LocalIpId(UUID(local_ip["id"])),
            address=local_ip["local_ip_address"],
            mac=_local_mac(unit, local_ip),
            fixed_ip=choose_address(port, "fixed_ip", requested),
            mode=LocalIpMode(local_ip["ip_mode"]),
        )
        after = unit.update(port, evolve(port, local_ips=(*port.local_ips, made)))
        return _body(after, made)

    def delete(self, unit: UnitOfWork, id: str, revision: int | None = None) -> None:
        parent, _, port_id = id.partition("/")
        local_ip = self._local_ips.get_for_update(unit, parent)
        rows = unit.tx.statuses.get_for_update(Kind.PORT, _identities(port_id))
        for row in rows.values():
            unit.extras[row.ref] = dict(row.extra)
            port = cast(Port, row.resource())
            left = [each for each in port.local_ips if str(each.local_ip_id) != local_ip["id"]]
            if len(left) < len(port.local_ips):
                unit.update(port, evolve(port, local_ips=left))
                return
        raise _not_associated(parent, port_id)

    def find(self, reader: Reader, requester: RequestContext, query: Query) -> tuple[Body, ...]:
        parents = [str(each) for each in query.filters.get(PARENT, ())]
        if len(parents) != 1:
            raise BadRequest({PARENT: "say the one local IP whose associations you want"})
        local_ip = self._local_ips.show(reader, requester, parents[0])
        others = {name: each for name, each in query.filters.items() if name != PARENT}
        return apply_query(_associations(reader, local_ip), evolve(query, filters=others), PORT)

    def show(self, reader: Reader, requester: RequestContext, id: str) -> Body:
        parent, _, port = id.partition("/")
        local_ip = self._local_ips.show(reader, requester, parent)
        for body in _associations(reader, local_ip):
            if body[PORT] == port:
                return body
        raise _not_associated(parent, port)


class LocalIpPlugin(HandlerPlugin, ServicePlugin):
    """Service plugin for local IPs; it also checks changes of their ports."""

    VERSION: ClassVar[int] = 2

    def __init__(self, context: ServerContext) -> None:
        local_ips = LocalIpHandler()
        super().__init__(context, (local_ips, LocalIpAssociationHandler(local_ips)))
        context.precommit_hooks.append(update_associations)

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        return cls(server_context(host))

    def describe(self) -> DriverInfo[Capability]:
        return DriverInfo(NAME)


def update_associations(unit: UnitOfWork, change: Change) -> None:
    """Keep the addresses of local IPs; end associations with addresses that a port lost.

    Associations follow the MAC of the port that has the address.

    A :data:`.PrecommitHook`.

    :raises ServicePortInUse: the port would lose the address of a local IP.
    """
    before, after = change.before, change.after
    if not isinstance(before, Port):
        return
    now = cast("Port | None", after)
    if now is not None and now.mac != before.mac:
        _follow_mac(unit, now)
    left = {fixed.address for fixed in now.fixed_ips} if now is not None else set()
    if all(fixed.address in left for fixed in before.fixed_ips) and now is not None:
        return
    lost = {str(fixed.address) for fixed in before.fixed_ips if fixed.address not in left}
    for user in _local_ips_of(unit, before):
        if user["local_ip_address"] in lost:
            raise ServicePortInUse(
                f"port {before.id} has the address {user['local_ip_address']} of local IP "
                f"{user['id']}; delete that first"
            )
    if now is not None and any(each.fixed_ip not in left for each in now.local_ips):
        kept = [each for each in now.local_ips if each.fixed_ip in left]
        unit.update(now, evolve(now, local_ips=kept))


def _follow_mac(unit: UnitOfWork, local_port: Port) -> None:
    for local_ip in _local_ips_of(unit, local_port):
        ids = [port.id for port in find_associated(unit.tx, local_ip["id"])]
        for row in unit.tx.statuses.get_for_update(Kind.PORT, ids).values():
            unit.extras[row.ref] = dict(row.extra)
            port = cast(Port, row.resource())
            changed = tuple(
                evolve(each, mac=local_port.mac)
                if str(each.local_ip_id) == local_ip["id"]
                else each
                for each in port.local_ips
            )
            unit.update(port, evolve(port, local_ips=changed))


def _local_ips_of(unit: UnitOfWork, local_port: Port) -> list[dict[str, Any]]:
    """Return the local IPs whose address *local_port* has."""
    return VendorResources(unit.tx.connection, NAME).find({"parent_id": [str(local_port.id)]})


def _local_mac(unit: UnitOfWork, local_ip: Mapping[str, Any]) -> Mac:
    row = unit.tx.resources.get(Kind.PORT, UUID(local_ip[LOCAL_PORT]))
    return cast(Port, row.resource()).mac


def find_associated(reader: Reader, local_ip: str) -> list[Port]:
    """Return the ports that a local IP leads to."""
    rows = reader.resources.find(Kind.PORT, Query(filters={"local_ips": (local_ip,)}))
    return [cast(Port, row.resource()) for row in rows]


def _make_port(unit: UnitOfWork, body: Body, requested: str | None) -> Port:
    """Create the port that has the address of a local IP; it is exempt from quotas."""
    network, subnets = unit.visible_network(NetworkId(UUID(str(body["network_id"]))))
    check_network(unit, network)
    if not any(subnet.cidr.version == 4 for subnet in subnets):
        raise BadRequest({"network_id": f"network {network.id} has no IPv4 subnet"})
    attributes: dict[str, Any] = {
        "network_id": str(network.id),
        "project_id": body.get("project_id") or unit.requester.project_id,
        "device_owner": DeviceOwner.LOCAL_IP.value,
        "security_groups": [],
    }
    if requested is not None:
        check_chosen_address(unit, network, requested)
        attributes["fixed_ips"] = [{"ip_address": requested}]
    with unit.elevated():
        made = _ports(unit).do_create(unit, [attributes])
    unit.count("port", made, implicit=True)
    return made[0]


def _check_associable(local_ip: Mapping[str, Any], port: Port) -> None:
    if str(port.network_id) != local_ip["network_id"]:
        text = f"port {port.id} is not on network {local_ip['network_id']} of the local IP"
        raise BadRequest({PORT: text})
    if str(port.id) == local_ip[LOCAL_PORT]:
        raise BadRequest({PORT: f"port {port.id} has the address of the local IP itself"})
    if len(port.local_ips) >= MAX_PER_PORT:
        raise InvalidInput({PORT: f"{MAX_PER_PORT} local IPs lead to port {port.id} already"})


def _associations(reader: Reader, local_ip: Body) -> list[Body]:
    return [
        _body(port, each)
        for port in find_associated(reader, str(local_ip["id"]))
        for each in port.local_ips
        if str(each.local_ip_id) == local_ip["id"]
    ]


def _body(port: Port, association: LocalIpAssociation) -> Body:
    return {
        PARENT: str(association.local_ip_id),
        "local_ip_address": str(association.address),
        PORT: str(port.id),
        "fixed_ip": str(association.fixed_ip),
        "host": port.binding.host,
    }


def _identities(id: str) -> Iterable[UUID]:
    try:
        return [UUID(id)]
    except ValueError:
        return []


def _not_associated(local_ip: str, port: str) -> LocalIPAssociationNotFound:
    text = f"local IP {local_ip[:80]} is not associated with port {port[:80]}"
    return LocalIPAssociationNotFound(text)


def _ports(unit: UnitOfWork) -> PortHandler:
    return cast(PortHandler, unit.context.handler("port"))
