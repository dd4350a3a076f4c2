"""Validation of ports: address pairs, DHCP options, port security, owners and security groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, cast
from uuid import UUID

from attrs import evolve

from netfw.drivers.server.query import Body, Query
from netfw.drivers.support.dhcp_option_text import check_option
from netfw.errors import Forbidden, InvalidInput, merge_invalid
from netfw.errors.ports import (
    AddressPairAndPortSecurityRequired,
    AllowedAddressPairExhausted,
    DuplicateAddressPairInRequest,
    PortBound,
    PortSecurityAndIPRequiredForSecurityGroups,
    PortSecurityPortHasSecurityGroup,
    ServicePortInUse,
    UnsupportedPortDeviceOwner,
)
from netfw.errors.security_groups import SecurityGroupNotFound
from netfw.errors.trunk import PortInUseAsSubPort, PortInUseAsTrunkParent
from netfw.model.binding import VifType
from netfw.model.port import AddressPair, Port
from netfw.model.resource import Kind, Ref
from netfw.model.values.address import Mac
from netfw.model.values.device_owner import DeviceOwner, is_l3_reserved
from netfw.model.values.dhcp_option import DhcpOption
from netfw.model.values.ids import SecurityGroupId
from netfw.model.wire.codec import CodecError, Listed
from netfw.model.wire.common import DHCP_OPTION
from netfw.model.wire.ports import ADDRESS_PAIR
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.security_groups.groups import default_group

_PAIRS: Final = Listed(ADDRESS_PAIR)
_OPTIONS: Final = Listed(DHCP_OPTION)

ROUTER = "router"
FLOATING_IP = "floatingip"
MANAGED_BY: Final[Mapping[str, str]] = {
    DeviceOwner.ROUTER_INTERFACE: ROUTER,
    DeviceOwner.ROUTER_INTERFACE_DISTRIBUTED: ROUTER,
    DeviceOwner.HA_ROUTER_REPLICATED_INTERFACE: ROUTER,
    DeviceOwner.ROUTER_HA_INTERFACE: ROUTER,
    DeviceOwner.ROUTER_GATEWAY: ROUTER,
    DeviceOwner.ROUTER_CENTRALIZED_SNAT: ROUTER,
    DeviceOwner.FLOATING_IP: FLOATING_IP,
}
"""Owners whose ports come and go with another resource, and the kind of that resource."""
_REMOVE_INTERFACE = "remove the interface from the router"
_ADVICE: Final[Mapping[str, str]] = {
    DeviceOwner.ROUTER_INTERFACE: _REMOVE_INTERFACE,
    DeviceOwner.ROUTER_INTERFACE_DISTRIBUTED: _REMOVE_INTERFACE,
    DeviceOwner.HA_ROUTER_REPLICATED_INTERFACE: _REMOVE_INTERFACE,
    DeviceOwner.ROUTER_HA_INTERFACE: (
        "the server creates and deletes such ports for the hosts of highly available routers: "
        "delete the router, set its ha to false, or remove it from the L3 agent of the host"
    ),
    DeviceOwner.ROUTER_GATEWAY: "clear the gateway of the router",
    DeviceOwner.ROUTER_CENTRALIZED_SNAT: (
        "the server creates and deletes such ports for the central parts of distributed routers: "
        "clear the gateway of the router, or remove its interface on the subnet"
    ),
    DeviceOwner.FLOATING_IP: "delete the floating IP",
}


def removal_advice(owners: Iterable[str]) -> str:
    """Return what to do so that ports of *owners* are gone, for a message."""
    advice = {_ADVICE.get(owner, "delete what uses it first") for owner in owners}
    return "; ".join(sorted(advice)) or "delete what uses it first"


def is_bound(port: Port) -> bool:
    """Return whether *port* is bound to a host, or to several."""
    unbound = (VifType.UNBOUND.value, VifType.BINDING_FAILED.value)
    if port.binding.hosts:
        return True
    return bool(port.binding.host) and port.binding.vif_type not in unbound


def address_pairs(
    requested: Sequence[Mapping[str, Any]], port: Port, most: int
) -> tuple[AddressPair, ...]:
    """Return the requested pairs; a pair without a MAC gets that of the port.

    :raises InvalidInput: there are too many, or one is invalid.
    """
    if len(requested) > most:
        raise AllowedAddressPairExhausted(
            {"allowed_address_pairs": f"{len(requested)} are more than {most}"}
        )
    pairs = tuple(
        pair if pair.mac is not None else evolve(pair, mac=port.mac)
        for pair in _parsed(_PAIRS, "allowed_address_pairs", requested)
    )
    own = {fixed.address for fixed in port.fixed_ips}
    errors: list[InvalidInput] = []
    for at, pair in enumerate(pairs):
        where = f"allowed_address_pairs[{at}]"
        if pair in pairs[:at]:
            errors.append(DuplicateAddressPairInRequest({where: "is there twice"}))
        whole = pair.prefix.prefixlen == pair.prefix.max_prefixlen
        if whole and pair.mac == port.mac and pair.prefix.network_address in own:
            text = f"{pair.prefix.network_address} is the port's own address already"
            errors.append(InvalidInput({where: text}))
    if errors:
        raise merge_invalid(errors)
    return pairs


def with_new_mac(pairs: Iterable[AddressPair], old: Mac, new: Mac) -> tuple[AddressPair, ...]:
    """Return *pairs* after the port's MAC changed to *new*: pairs with the old MAC follow."""
    return tuple(evolve(pair, mac=new) if pair.mac == old else pair for pair in pairs)


def dhcp_options(
    requested: Sequence[Mapping[str, Any]], present: Sequence[DhcpOption] = ()
) -> tuple[DhcpOption, ...]:
    """Return the options of a port after a request: named options are set, or removed where the
    value is null; others stay.

    :raises InvalidInput: one is invalid.
    """
    if not requested:
        return tuple(present)
    kept = {(option.name, option.ip_version): option for option in present}
    given = [entry for entry in requested if entry.get("opt_value") is not None]
    for entry in requested:
        if entry.get("opt_value") is None:
            version = int(entry.get("ip_version") or 4)
            kept.pop((str(entry.get("opt_name")), version), None)
    new = tuple(_parsed(_OPTIONS, "extra_dhcp_opts", given))
    check_dhcp_options(new)
    kept |= {(option.name, option.ip_version): option for option in new}
    return tuple(kept.values())


def check_dhcp_options(options: Iterable[DhcpOption]) -> None:
    """Validate that options can be sent to a client.

    :raises InvalidInput: naming each invalid one.
    """
    problems: dict[str, str] = {}
    for at, option in enumerate(options):
        try:
            check_option(option)
        except InvalidInput as exc:
            where = f"extra_dhcp_opts[{at}]"
            problems |= {f"{where}.opt_{field}": why for field, why in exc.problems.items()}
    if problems:
        raise InvalidInput(problems)


def check_security(port: Port, *, groups: bool, pairs: bool, kept: bool = False) -> None:
    """Validate port security: groups and address pairs require ``port_security_enabled``.

    *kept*: the groups are those of the port, and the request names none.

    :raises PortSecurityAndIPRequiredForSecurityGroups: groups are requested while it is off.
    :raises Conflict: the port has groups or pairs, which must be removed first.
    """
    if port.port_security:
        return
    if pairs:
        raise AddressPairAndPortSecurityRequired(
            "allowed_address_pairs need port security, which is off: leave them empty, or switch "
            "port security on"
        )
    if groups and kept:
        raise PortSecurityPortHasSecurityGroup(
            "port security cannot be switched off while the port has security groups: give "
            "security_groups as an empty list too"
        )
    if groups:
        raise PortSecurityAndIPRequiredForSecurityGroups(
            {"security_groups": "need port security, which is off for this port or its network"}
        )


def check_owner(before: Port | None, owner: str, device: str) -> None:
    """Validate the device of a port as set by a requester without administrator rights.

    Only the owner of a router may connect it: a port that merely names a router would connect any.

    :raises Forbidden: the port would be one of a router or a floating IP.
    :raises Conflict: it is one, and would get another device.
    """
    had = ("", "") if before is None else (before.device_owner, before.device_id)
    if before is not None and before.device_owner in MANAGED_BY:
        for name, old, new in zip(("device_owner", "device_id"), had, (owner, device), strict=True):
            if new != old:
                raise UnsupportedPortDeviceOwner(
                    f"{name} of port {before.id} cannot be changed: it is {had[0]} of "
                    f"{MANAGED_BY[had[0]]} {had[1]}"
                )
    elif is_l3_reserved(owner) and (owner, device) != had:
        raise Forbidden(
            f"only administrators make ports of {owner}; connect a router by its "
            "add_router_interface or external_gateway_info, and make a floating IP as such"
        )


def check_mac_change(before: Port, mac: Mac) -> None:
    """Validate a change of the MAC.

    :raises Conflict: the port is bound with its present MAC.
    """
    if is_bound(before):
        raise PortBound(
            f"port {before.id} is bound to host {', '.join(sorted(before.binding.all_hosts))} "
            f"({before.binding.vif_type}): its MAC {before.mac} can become {mac} only while it is "
            "bound to none"
        )


def _parsed(
    codec: Listed[Any], attribute: str, requested: Sequence[Mapping[str, Any]]
) -> Iterator[Any]:
    try:
        return iter(codec.parse(list(requested)))
    except CodecError as exc:
        raise InvalidInput(
            {f"{attribute}{path}": text for path, text in exc.problems.items()}
        ) from exc
    except ValueError as exc:
        raise InvalidInput({attribute: str(exc)}) from exc


class PortGroups:
    """The security groups named by the bodies of one request, and the defaults of those without.

    :raises NotFound: one does not exist, or is invisible to the requester.
    """

    def __init__(
        self,
        unit: UnitOfWork,
        bodies: Iterable[Body],
        defaults: Mapping[str, SecurityGroupId] | None = None,
    ) -> None:
        """Check the groups of *bodies*; *defaults*: those of projects that were read already."""
        self._unit = unit
        self._defaults = {
            project: frozenset({group}) for project, group in (defaults or {}).items()
        }
        wanted = {each for body in bodies for each in _named(body) or ()}
        if not wanted:
            return
        query = Query(filters={"id": tuple(sorted(map(str, wanted)))})
        found = unit.tx.resources.find(Kind.SECURITY_GROUP, query, project=unit.requester.sees)
        missing = wanted - {SecurityGroupId(row.ref.id) for row in found}
        if missing:
            raise SecurityGroupNotFound(f"there is no security_group {min(missing)}")

    def of(self, body: Body) -> frozenset[SecurityGroupId] | None:
        """Return the groups that *body* names; ``None``: it names none."""
        return _named(body)

    def default(self, project: str) -> frozenset[SecurityGroupId]:
        """Return the groups of a project's ports that name none."""
        if project not in self._defaults:
            self._defaults[project] = frozenset({default_group(self._unit, project)})
        return self._defaults[project]


def _named(body: Body) -> frozenset[SecurityGroupId] | None:
    named = cast("Sequence[str] | None", body.get("security_groups"))
    if named is None:
        return None
    try:
        return frozenset(SecurityGroupId(UUID(str(each))) for each in named)
    except ValueError as exc:
        raise InvalidInput({"security_groups": str(exc)}) from exc


def refuse_served_port(unit: UnitOfWork, port: Port) -> None:
    """Refuse to delete a port that is managed by a router or a floating IP.

    :raises Conflict: it is one, and its router or floating IP exists.
    """
    what = MANAGED_BY.get(port.device_owner)
    if what is None or not port.fixed_ips:
        return
    try:
        target = Ref(Kind(what), UUID(port.device_id))
    except ValueError:
        return
    if unit.tx.resources.present([target]):
        raise ServicePortInUse(
            f"port {port.id} cannot be deleted by itself: it is {port.device_owner} of {target}; "
            f"{removal_advice([port.device_owner])}"
        )


def refuse_port_in_trunk(port: Port) -> None:
    """Refuse to delete a port of a trunk.

    :raises Conflict: it is the parent or a sub-port of one.
    """
    if port.trunk is None:
        return
    id = port.trunk.trunk_id
    if port.trunk.parent_id is None:
        raise PortInUseAsTrunkParent(f"port {port.id} is the parent of trunk {id}; delete it first")
    raise PortInUseAsSubPort(f"port {port.id} is a sub-port of trunk {id}; remove it there first")
