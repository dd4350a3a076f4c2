"""PortHandler: creation, change and deletion of ports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from typing import Any, ClassVar, cast
from uuid import UUID, uuid4

from attrs import evolve

from netfw.drivers.server.query import Body, RequestContext
from netfw.drivers.values.subscription import Service
from netfw.errors import InvalidInput
from netfw.model.binding import Binding, VifType
from netfw.model.port import FixedIp, IpAllocation, Port
from netfw.model.resource import Kind, ref
from netfw.model.values.address import Mac
from netfw.model.values.common_fields import Status
from netfw.model.values.device_owner import is_trusted
from netfw.model.values.ids import NetworkId, PortId
from netfw.model.wire import parse, render
from netfw.server.binding.binder import HOST, Agents, PortBinder, usable_agents
from netfw.server.binding.inactive_bindings import INACTIVE, LEVELS, inactive_bindings
from netfw.server.core.extension_drivers import ExtensionDrivers
from netfw.server.core.resource_handler import Reader, StoredResourceHandler
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.db.engine.errors import Duplicate, RetryTransaction
from netfw.server.db.resources.port_surroundings import PortSurroundings, read_surroundings
from netfw.server.db.resources.row import api_body
from netfw.server.l2.port_addresses import (
    AddressAllocator,
    AddressOwner,
    check_address_count,
    requested_ips,
    requests,
    requests_for_new_mac,
    requests_for_update,
)
from netfw.server.l2.port_macs import macs
from netfw.server.l2.port_status import add_port_status_reasons
from netfw.server.l2.port_validation import (
    PortGroups,
    address_pairs,
    check_mac_change,
    check_owner,
    check_security,
    dhcp_options,
    refuse_port_in_trunk,
    refuse_served_port,
    with_new_mac,
)
from netfw.server.l2.trunk_status import add_trunk_details
from netfw.server.qos.port_attributes import add_network_policies, add_resource_requests

APART = frozenset({"fixed_ips", "security_groups", "allowed_address_pairs", "extra_dhcp_opts"})
"""Attributes whose value in a request is not simply that of the port afterwards."""

SECURITY = "port_security_enabled"


class PortHandler(StoredResourceHandler[Port]):
    """Ports; their addresses, groups and bindings follow in the same transaction."""

    name: ClassVar[str] = "port"
    kind: ClassVar[Kind] = Kind.PORT
    quota: ClassVar[str | None] = "port"
    batched: ClassVar[bool] = True

    def __init__(self, binder: PortBinder, extensions: ExtensionDrivers) -> None:
        self._binder, self._extensions = binder, extensions

    # Creation.

    def do_create(self, unit: UnitOfWork, bodies: Sequence[Body]) -> tuple[Port, ...]:
        bodies = [_trusted(body) for body in bodies]
        near = _surroundings(unit, bodies)
        for body in bodies:
            network, _ = unit.visible_network(_network(body))
            if body.get(HOST):
                unit.segments(network.id)
            most = unit.context.settings.max_fixed_ips_per_port
            check_address_count(requested_ips(body), _text(body, "device_owner"), most)
            if not unit.requester.admin:
                check_owner(None, _text(body, "device_owner"), _text(body, "device_id"))
        unit.tx.resources.read_ahead.clear()  # it is not of the changes that follow
        groups = PortGroups(unit, bodies, near.groups)
        chosen = macs(unit, bodies)
        agents = usable_agents(unit, near.agents)
        # Other transactions wait for addresses from here on: read everything before.
        addresses = _addresses(unit, bodies, chosen)
        drafts = [
            self._draft(unit, body, mac, some)
            for body, mac, some in zip(bodies, chosen, addresses, strict=True)
        ]
        unit.attribute(drafts)
        ports = [
            self._completed(unit, port, body, groups)
            for port, body in zip(drafts, bodies, strict=True)
        ]
        ports = [self._binder.bind(unit, port, agents) for port in ports]
        try:
            return unit.insert(*ports)
        except Duplicate as exc:  # addresses are ours, and given MACs were looked up
            raise RetryTransaction(f"a MAC or an address was taken meanwhile: {exc}") from exc

    def _draft(self, unit: UnitOfWork, body: Body, mac: Mac, fixed_ips: Sequence[FixedIp]) -> Port:
        """Return the port, unbound and without its filters."""
        simple = {
            name: value
            for name, value in self._extensions.plain(self.kind, body).items()
            if name not in APART and value is not None
        }
        simple.pop("mac_address", None)
        derived = {
            "id": PortId(uuid4()),
            "revision": 1,
            "created_at": unit.now,
            "updated_at": unit.now,
            "mac": mac,
            "fixed_ips": tuple(fixed_ips),
            "dhcp_options": dhcp_options(_listed(body, "extra_dhcp_opts")),
            "ip_allocation": _allocation(requested_ips(body)),
        }
        return cast(Port, parse(self.kind, simple, given=derived))

    def _completed(self, unit: UnitOfWork, draft: Port, body: Body, known: PortGroups) -> Port:
        network = unit.network(draft.network_id)
        port = self._extensions.apply(unit, None, draft, body, network)
        chosen = known.of(body)
        if chosen is None:
            filtered = port.port_security and not is_trusted(port.device_owner)
            chosen = known.default(port.project_id) if filtered else frozenset()
        requested = _listed(body, "allowed_address_pairs")
        check_security(port, groups=bool(chosen), pairs=bool(requested))
        most = unit.context.settings.max_allowed_address_pairs
        return evolve(
            port,
            security_groups=chosen,
            allowed_address_pairs=address_pairs(requested, port, most) if requested else (),
        )

    # Change.

    def update_all(self, unit: UnitOfWork, bodies: Mapping[PortId, Body]) -> None:
        """Change the ports that *bodies* are for, locked in the order of their ids.

        Apart from an update of each, it takes as many statements as for one port. A port that was
        deleted meanwhile is skipped.
        """
        rows = unit.tx.statuses.get_for_update(Kind.PORT, bodies)
        for row in rows.values():
            unit.extras[row.ref] = dict(row.extra)
        ports = [cast(Port, row.resource()) for row in rows.values()]
        unit.read_networks(port.network_id for port in ports)
        agents = self._binder.agents(unit, (_text(bodies[port.id], HOST) for port in ports))
        for before in ports:
            self.do_update(unit, before, bodies[before.id], agents)

    def bind_like(self, unit: UnitOfWork, parent: Port, ids: Iterable[PortId]) -> None:
        """Bind the sub-ports *ids* to the host of *parent*, and prepare the same hosts for them."""
        rows = unit.tx.statuses.get_for_update(Kind.PORT, ids)
        host, prepared = parent.binding.host, parent.binding.prepared_hosts
        for row in rows.values():
            unit.extras[row.ref] = dict(row.extra)
        agents = self._binder.agents(unit, (host,))
        for before in (cast(Port, row.resource()) for row in rows.values()):
            if before.binding.host == host:
                port = before
            elif host in before.binding.prepared_hosts:
                port = unit.update(before, self._binder.activate(unit, before, host))
            else:
                port = self.do_update(unit, before, {HOST: host}, agents)
            if port.binding.prepared_hosts != prepared:
                known = inactive_bindings(unit.extra_of(port))
                bindings = [
                    known.get(each) or self._binder.prepare(unit, port, Binding(host=each))
                    for each in sorted(prepared)
                ]
                unit.update(port, self._binder.store_inactive(unit, port, bindings))

    def do_update(
        self, unit: UnitOfWork, before: Port, body: Body, agents: Agents | None = None
    ) -> Port:
        port = self._simply_changed(unit, before, body)
        port = self._readdressed(unit, before, port, body)
        port = self._extensions.apply(unit, before, port, body, unit.network(before.network_id))
        port = self._filtered(unit, before, port, body)
        if _binds_anew(before, port, body):
            port = self._binder.rebind(unit, before, port, agents)
        if before.admin_up != port.admin_up:
            unit.tx.statuses.delete([ref(before)], Service.L2)
            port = evolve(port, status=Status.DOWN)
        try:
            return unit.update(before, port)
        except Duplicate as exc:
            raise RetryTransaction(f"a MAC or an address was taken meanwhile: {exc}") from exc

    def _simply_changed(self, unit: UnitOfWork, before: Port, body: Body) -> Port:
        """Return *before* with the changes that need no other rows, as yet without filters."""
        bare = evolve(before, security_groups=(), allowed_address_pairs=())
        simple = {
            name: value
            for name, value in self._extensions.plain(self.kind, body).items()
            if name not in APART and name != "mac_address"
        }
        if "mac_address" in body:
            simple["mac_address"] = self._new_mac(unit, before, body["mac_address"])
        port = cast(Port, parse(self.kind, {**render(bare), **simple})) if simple else bare
        if not unit.requester.admin:
            check_owner(before, port.device_owner, port.device_id)
        if "extra_dhcp_opts" not in body:
            return port
        requested = _listed(body, "extra_dhcp_opts")
        return evolve(port, dhcp_options=dhcp_options(requested, before.dhcp_options))

    def _new_mac(self, unit: UnitOfWork, before: Port, requested: Any) -> Mac:
        if requested is not None and Mac(requested) == before.mac:
            return before.mac
        (mac,) = macs(unit, [{"network_id": str(before.network_id), "mac_address": requested}])
        check_mac_change(before, mac)
        return mac

    def _readdressed(self, unit: UnitOfWork, before: Port, port: Port, body: Body) -> Port:
        requested = requested_ips(body)
        if requested is None and port.mac == before.mac:
            return port
        most = unit.context.settings.max_fixed_ips_per_port
        check_address_count(requested, port.device_owner, most, before.fixed_ips)
        subnets, present = unit.subnets(port.network_id), before.fixed_ips
        wanted: Sequence[Any] = ()
        if port.mac != before.mac:
            present, wanted = requests_for_new_mac(subnets, _address_owner(port), present)
        if requested is not None:
            present, wanted = requests_for_update(subnets, _address_owner(port), requested, present)
        taking = AddressAllocator(unit.context.ipam, unit.tx.addresses)
        taking.release_all([each for each in before.fixed_ips if each not in present])
        (new,) = taking.allocate([wanted])
        derived = {each.id for each in subnets if each.automatic}
        ordered = sorted((*present, *new), key=lambda each: each.subnet_id in derived)
        when = port.ip_allocation if requested is None else _allocation(requested)
        return evolve(port, fixed_ips=ordered, ip_allocation=when)

    def _filtered(self, unit: UnitOfWork, before: Port, port: Port, body: Body) -> Port:
        """Return *port* with its groups and pairs: the present ones, or those that the request
        names."""
        groups = before.security_groups
        if "security_groups" in body:
            groups = PortGroups(unit, [body]).of(body) or frozenset()
        pairs = with_new_mac(before.allowed_address_pairs, before.mac, port.mac)
        if "allowed_address_pairs" in body:
            most = unit.context.settings.max_allowed_address_pairs
            pairs = address_pairs(_listed(body, "allowed_address_pairs"), port, most)
        kept = "security_groups" not in body
        check_security(port, groups=bool(groups), pairs=bool(pairs), kept=kept)
        return evolve(port, security_groups=groups, allowed_address_pairs=pairs)

    # Deletion.

    def delete(self, unit: UnitOfWork, id: str, revision: int | None = None) -> None:
        before = self.get_for_update(unit, id, revision)
        refuse_served_port(unit, before)
        refuse_port_in_trunk(before)
        self.discard(unit, before)

    def discard(self, unit: UnitOfWork, before: Port) -> None:
        """Delete a port regardless of its owner; for the code that manages routers and floating
        IPs."""
        self.do_delete(unit, before)
        unit.count("port", (before,), gone=True)

    def do_delete(self, unit: UnitOfWork, before: Port) -> None:
        unit.delete(before)
        AddressAllocator(unit.context.ipam, unit.tx.addresses).release_all(before.fixed_ips)
        unit.tx.statuses.delete([ref(before)])
        self._binder.unbind(unit, before)

    def render_all(self, unit: UnitOfWork, resources: Sequence[Port]) -> tuple[Body, ...]:
        bodies = [
            api_body(self.kind, unit.body_of(each), unit.extra_of(each)) for each in resources
        ]
        networks = {port.network_id: unit.network(port.network_id) for port in resources}
        policies = {str(id): network.qos_policy_id for id, network in networks.items()}
        known = {id: None if each is None else str(each) for id, each in policies.items()}
        self._decorate(unit.tx, bodies, known)
        return tuple(bodies)

    def decorate(
        self, reader: Reader, requester: RequestContext, bodies: Sequence[MutableMapping[str, Any]]
    ) -> None:
        self._decorate(reader, bodies)

    def _decorate(
        self,
        reader: Reader,
        bodies: Sequence[MutableMapping[str, Any]],
        policies: Mapping[str, str | None] | None = None,
    ) -> None:
        """Decorate *bodies*; *policies*: those of their networks, if they are known."""
        self._extensions.extend(self.kind, bodies)
        add_port_status_reasons(reader, bodies)
        add_network_policies(reader, bodies, known=policies)
        add_resource_requests(reader, bodies)
        add_trunk_details(reader, bodies)
        for body in bodies:
            body.pop(LEVELS, None)
            body.pop(INACTIVE, None)
            body.pop("local_ips", None)


def _address_owner(port: Port) -> AddressOwner:
    return AddressOwner(mac=port.mac, owner=port.device_owner)


def _allocation(requested: Sequence[Any] | None) -> IpAllocation:
    """Return whether later subnets may add addresses: not if the request asked for none."""
    return IpAllocation.NONE if requested is not None and not requested else IpAllocation.IMMEDIATE


def _binds_anew(before: Port, after: Port, body: Body) -> bool:
    """Return whether an input of the binding changed, or the request retries it."""
    old, new = before.binding, after.binding
    if (old.host, old.vnic_type, old.profile) != (new.host, new.vnic_type, new.profile):
        return True
    if before.device_owner != after.device_owner and not new.host:
        return True
    return new.vif_type == VifType.BINDING_FAILED.value and "binding:host_id" in body


def _listed(body: Body, name: str) -> Sequence[Mapping[str, Any]]:
    return cast("Sequence[Mapping[str, Any]] | None", body.get(name)) or ()


def _text(body: Body, name: str) -> str:
    return str(body.get(name) or "")


def _trusted(body: Body) -> Body:
    """Return *body* with port security off by default, if the owner is the network itself."""
    if body.get(SECURITY) is None and is_trusted(_text(body, "device_owner")):
        return {**body, SECURITY: False}
    return body


def _network(body: Body) -> NetworkId:
    try:
        return NetworkId(UUID(str(body["network_id"])))
    except ValueError as exc:
        raise InvalidInput({"network_id": str(exc)}) from exc


def _surroundings(unit: UnitOfWork, bodies: Sequence[Body]) -> PortSurroundings:
    return read_surroundings(
        unit.tx.resources,
        networks={_network(body) for body in bodies},
        projects={_text(body, "project_id") for body in bodies},
        hosts={_text(body, HOST) for body in bodies} - {""},
    )


def _addresses(
    unit: UnitOfWork, bodies: Sequence[Body], chosen: Sequence[Mac]
) -> list[tuple[FixedIp, ...]]:
    """Allocate the addresses of new ports."""
    wanted = []
    for body, mac in zip(bodies, chosen, strict=True):
        subnets = unit.subnets(_network(body))
        owner = AddressOwner(mac=mac, owner=_text(body, "device_owner"))
        wanted.append(requests(subnets, owner, requested_ips(body)))
    return AddressAllocator(unit.context.ipam, unit.tx.addresses).allocate(wanted)
