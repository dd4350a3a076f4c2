"""NetworkHandler and SegmentHandler: networks, and the segments that they consist of."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any, cast
from uuid import uuid4

from attrs import evolve

from netfw.drivers.server.query import Body, Query, RequestContext
from netfw.errors import InvalidInput, NotSupported
from netfw.errors.agents import AvailabilityZoneNotFound
from netfw.errors.networks import (
    DefaultExternalNetworkExists,
    ExternalNetworkInUse,
    InvalidSharedSetting,
    NetworkInUse,
    NetworkMTUSubnetConflict,
    SegmentsContainDuplicateEntry,
    SegmentsSetInConjunctionWithProviders,
)
from netfw.model.network import Network
from netfw.model.rbac_policy import EVERY_PROJECT, RbacAction
from netfw.model.resource import Kind
from netfw.model.segment import NetworkType, Provider, Segment
from netfw.model.values.device_owner import DeviceOwner
from netfw.model.values.ids import NetworkId, SegmentId
from netfw.model.values.text_validation import counted
from netfw.model.values.validation import repeated
from netfw.model.wire import Json, parse, render
from netfw.server.agents.agents import DHCP_AGENT
from netfw.server.core.extension_drivers import ExtensionDrivers
from netfw.server.core.resource_handler import Reader, StoredResourceHandler
from netfw.server.core.sharing import find_use, policies_of
from netfw.server.core.type_drivers import PREFIX, TypeDrivers
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.db.resources.row import Row
from netfw.server.l2.port_validation import check_dhcp_options, removal_advice
from netfw.server.scheduling.assignments import add_zones
from netfw.server.subnet_pools.subnet_allocation import release_prefix

UNNUMBERED = (NetworkType.FLAT, NetworkType.LOCAL)
LEAST_MTU = {4: 68, 6: 1280}
"""Smallest MTU that hosts of an IP version must accept."""
MAX_MTU = 65535
OF_AGENTS = (DeviceOwner.DHCP.value, DeviceOwner.FLOATING_IP_AGENT_GATEWAY.value)
"""Owners of the ports that agents request for themselves, and that do not keep a network."""


class NetworkHandler(StoredResourceHandler[Network]):
    """Networks: their segments are allocated with them, and released when they are deleted."""

    name, kind, quota = "network", Kind.NETWORK, "network"

    def __init__(self, types: TypeDrivers, extensions: ExtensionDrivers) -> None:
        self._types, self._extensions = types, extensions

    def get_for_update(self, unit: UnitOfWork, id: str, revision: int | None = None) -> Network:
        network = super().get_for_update(unit, id, revision)
        unit.remember_locked(network)
        return network

    def do_create(self, unit: UnitOfWork, bodies: Sequence[Body]) -> tuple[Network, ...]:
        made = unit.insert(*(self._new(unit, body) for body in bodies))
        unit.insert(*(segment for network in made for segment in _segments_of(network)))
        return made

    def do_update(self, unit: UnitOfWork, before: Network, body: Body) -> Network:
        plain = dict(self._extensions.plain(Kind.NETWORK, body))
        carried = {name: plain.pop(name) for name in tuple(plain) if _says_segments(name)}
        mtu = cast("int | None", plain.pop("mtu", before.mtu))
        _check_mtu_for_subnets(unit, before, mtu)
        after = cast(Network, parse(Kind.NETWORK, {**render(before), **plain}))
        after = self._extensions.apply(unit, before, after, body)
        if before.external and not after.external and "is_default" not in plain:
            after = evolve(after, is_default=False)
        segments = _renumbered(before, carried)
        after = evolve(after, segments=segments, mtu=self._mtu(mtu, segments))
        self._check_withdrawn(unit, before, after)
        _check(unit, before, after)
        if segments != before.segments:
            self._renumber(unit, before, segments[0])
        return unit.update(before, after)

    def do_delete(self, unit: UnitOfWork, before: Network) -> None:
        _clear_ports(unit, before)
        subnets = unit.subnets(before.id)
        for subnet in subnets:
            unit.context.ipam.drop_subnet(subnet.id, unit.tx.addresses)
            unit.tx.addresses.drop(subnet.id)
            unit.delete(subnet)
            release_prefix(unit, subnet)
        unit.count("subnet", subnets, gone=True)
        for segment in unit.segments(before.id):
            unit.delete(segment)
            self._types.release(unit.tx, segment.provider)
        unit.delete(before)

    def decorate(
        self, reader: Reader, requester: RequestContext, bodies: Sequence[MutableMapping[str, Any]]
    ) -> None:
        self._extensions.extend(Kind.NETWORK, bodies)
        add_zones(reader, DHCP_AGENT, bodies)

    def _new(self, unit: UnitOfWork, body: Body) -> Network:
        plain = dict(self._extensions.plain(Kind.NETWORK, body))
        mtu = cast("int | None", plain.pop("mtu", None))
        if plain.get("segments") is None:
            plain.pop("segments", None)
        else:
            _check_no_provider(plain)
        network = cast(Network, parse(Kind.NETWORK, {**plain, "id": str(uuid4())}))
        network = self._extensions.apply(unit, None, network, body)
        _check(unit, None, network)
        segments = self._carried(unit, network)
        return evolve(network, segments=segments, mtu=self._mtu(mtu, segments))

    def _carried(self, unit: UnitOfWork, network: Network) -> tuple[Provider, ...]:
        """Return the segments of a new network: those requested, or one that is free."""
        if not network.segments:
            return (
                self._types.allocate(
                    unit.tx, external=network.external, project=network.project_id
                ),
            )
        _check_unique_segments(network.segments)
        prefixes = [""]
        if len(network.segments) > 1:
            prefixes = [f"segments[{at}]." for at in range(len(network.segments))]
        return tuple(
            self._types.reserve(unit.tx, requested, prefix, network.project_id)
            for requested, prefix in zip(network.segments, prefixes, strict=True)
        )

    def _mtu(self, requested: int | None, segments: Sequence[Provider]) -> int:
        """Return the requested MTU, or the largest that *segments* carry.

        :raises InvalidInput: the segments do not carry that much.
        """
        most = self._types.mtu(segments)
        if not requested:
            return most or 1500
        if requested < LEAST_MTU[4] or requested > (most or MAX_MTU):
            allowed = f"{LEAST_MTU[4]} to {most or MAX_MTU}"
            text = f"{requested} is outside {allowed}, which its segments carry"
            raise InvalidInput({"mtu": text})
        return requested

    def _renumber(self, unit: UnitOfWork, before: Network, wanted: Provider) -> None:
        (segment,) = (
            each for each in unit.segments(before.id) if each.provider == before.segments[0]
        )
        unit.update(segment, evolve(segment, provider=self._types.reserve(unit.tx, wanted)))
        self._types.release(unit.tx, segment.provider)

    def _check_withdrawn(self, unit: UnitOfWork, before: Network, after: Network) -> None:
        """Refuse to withdraw sharing or external access that is in use."""
        if before.shared and not after.shared:
            _check_not_used_by_others(unit, before)
        if before.external and not after.external:
            _check_not_used_from_outside(unit, before)


class SegmentHandler(StoredResourceHandler[Segment]):
    """Segments, which come and go with their networks; names and descriptions can be changed."""

    name, kind, quota = "segment", Kind.SEGMENT, None

    def do_create(self, unit: UnitOfWork, bodies: Sequence[Body]) -> tuple[Segment, ...]:
        raise NotSupported("segments are made with their network; name them there")

    def do_update(self, unit: UnitOfWork, before: Segment, body: Body) -> Segment:
        return unit.update(before, cast(Segment, parse(self.kind, {**render(before), **body})))

    def do_delete(self, unit: UnitOfWork, before: Segment) -> None:
        raise NotSupported("segments go with their network")


def _clear_ports(unit: UnitOfWork, network: Network) -> None:
    """Delete the ports that go with *network*: of DHCP, of agents' gateways, and of unused floating
    IPs.

    :raises Conflict: it has other ports.
    """
    id = (str(network.id),)
    if network.external and "floatingip" in unit.context.handlers:
        unused = Query(filters={"floating_network_id": id, "port_id": (None,)})
        _delete_all(unit, "floatingip", unit.tx.resources.find(Kind.FLOATING_IP, unused))
    own = Query(filters={"network_id": id, "device_owner": OF_AGENTS})
    served = unit.tx.resources.find(Kind.PORT, own)
    ports = unit.tx.resources.count(Kind.PORT, Query(filters={"network_id": id})) - len(served)
    if ports:
        owners = _owners(unit, id)
        named = f" of {', '.join(owners)}" if owners else ""
        raise NetworkInUse(
            "There are one or more ports still in use on the network: "  # clients look for this
            f"{network.id} is in use by {counted(ports, 'port')}{named}; {removal_advice(owners)}"
        )
    _delete_all(unit, "port", served)


def _owners(unit: UnitOfWork, network: tuple[str]) -> list[str]:
    """Return the owners of some ports of a network, for a message."""
    query = Query(filters={"network_id": network}, limit=10)
    owners = {row.body["device_owner"] for row in unit.tx.resources.find(Kind.PORT, query)}
    return sorted(owners - {"", *OF_AGENTS})


def _delete_all(unit: UnitOfWork, name: str, rows: Sequence[Row]) -> None:
    with unit.elevated():
        for row in rows:
            unit.context.handler(name).delete(unit, str(row.ref.id))


def _segments_of(network: Network) -> tuple[Segment, ...]:
    return tuple(
        Segment(id=SegmentId(uuid4()), network_id=NetworkId(network.id), provider=provider)
        for provider in network.segments
    )


def _says_segments(name: str) -> bool:
    return name.startswith(PREFIX) or name == "segments"


def _check_no_provider(body: Body) -> None:
    """Refuse provider attributes beside segments.

    :raises SegmentsSetInConjunctionWithProviders: naming them.
    """
    given = [name for name, value in body.items() if name.startswith(PREFIX) and value is not None]
    if given:
        text = "cannot be given beside segments; each segment has its own"
        raise SegmentsSetInConjunctionWithProviders(dict.fromkeys(given, text))


def _check_unique_segments(segments: tuple[Provider, ...]) -> None:
    """Refuse a segment that is there twice; one without a number may be any free one.

    :raises SegmentsContainDuplicateEntry: naming each second one.
    """
    problems = {
        f"segments[{at}]": "is there twice"
        for at in repeated(segments)
        if segments[at].segmentation_id is not None or segments[at].network_type in UNNUMBERED
    }
    if problems:
        raise SegmentsContainDuplicateEntry(problems)


def _renumbered(before: Network, carried: Mapping[str, Json]) -> tuple[Provider, ...]:
    """Return the segments of *before* as requested: a single VLAN can get another number.

    :raises InvalidInput: the request changes more.
    """
    now, number = render(before), f"{PREFIX}segmentation_id"
    different = {name for name, value in carried.items() if now.get(name) != value}
    if not different:
        return before.segments
    segment = before.segments[0] if len(before.segments) == 1 else None
    if different != {number} or segment is None or segment.network_type is not NetworkType.VLAN:
        text = "cannot be changed; of a network, only the number of its only VLAN can"
        raise InvalidInput(dict.fromkeys(sorted(different), text))
    try:
        return (evolve(segment, segmentation_id=cast(int, carried[number])),)
    except ValueError as exc:
        raise InvalidInput({number: str(exc)}) from exc


def _check(unit: UnitOfWork, before: Network | None, after: Network) -> None:
    """Refuse attributes that contradict each other, or those of other networks."""
    problems: dict[str, str] = {}
    if after.is_default and not after.external:
        problems["is_default"] = "only an external network can be the default one"
    if after.vlan_transparent and not (before and before.vlan_transparent):
        problems["vlan_transparent"] = "no driver of this server carries the VLANs of instances"
    if problems:
        raise InvalidInput(problems)
    if before is None or after.dhcp_options != before.dhcp_options:
        check_dhcp_options(after.dhcp_options)
    if after.is_default and not (before and before.is_default):
        of: Mapping[str, tuple[bool, ...]] = {"is_default": (True,), "router:external": (True,)}
        for row in unit.tx.resources.find(Kind.NETWORK, Query(filters=of, limit=1)):
            raise DefaultExternalNetworkExists(
                f"network {row.body['id']} is the default external network already"
            )
    new = set(after.availability_zone_hints) - set(before.availability_zone_hints if before else ())
    if new:
        _check_zones(unit, new)


def _check_zones(unit: UnitOfWork, zones: set[str]) -> None:
    of = Query(filters={"availability_zone": tuple(sorted(zones))})
    known = {row.body["availability_zone"] for row in unit.tx.resources.find(Kind.AGENT, of)}
    if missing := sorted(zones - known):
        raise AvailabilityZoneNotFound(f"no agent is in availability zone {', '.join(missing)}")


def _check_mtu_for_subnets(unit: UnitOfWork, network: Network, mtu: int | None) -> None:
    """Refuse an MTU that is too small for the subnets of *network*."""
    if not mtu or mtu == network.mtu or mtu >= LEAST_MTU[6]:
        return
    for version in {subnet.ip_version for subnet in unit.subnets(network.id)}:
        if mtu < LEAST_MTU[version]:
            raise NetworkMTUSubnetConflict(
                f"an MTU of {mtu} is too small for the IPv{version} subnets of network "
                f"{network.id}, which need {LEAST_MTU[version]}"
            )


def _check_not_used_by_others(unit: UnitOfWork, network: Network) -> None:
    """Refuse to end the access of projects that use *network* and have no policy of their own."""
    wildcards = (
        each
        for each in policies_of(unit, network.id)
        if each.action is RbacAction.SHARED and each.target_project == EVERY_PROJECT
    )
    for policy in wildcards:
        if (user := find_use(unit, policy, network)) is not None:
            raise InvalidSharedSetting(
                f"network {network.id} cannot stop being shared: {user} of another project is on "
                "it; delete that, or share the network with its project first"
            )


def _check_not_used_from_outside(unit: UnitOfWork, network: Network) -> None:
    id = (str(network.id),)
    users = {
        "floating IPs": (Kind.FLOATING_IP, "floating_network_id"),
        "routers": (Kind.ROUTER, "gateway_network_id"),
    }
    for what, (kind, attribute) in users.items():
        count = unit.tx.resources.count(kind, Query(filters={attribute: id}))
        if count:
            raise ExternalNetworkInUse(
                f"network {network.id} cannot stop being external: {count} {what} use it"
            )
