"""Addresses of ports: pure planning of requests, and their allocation by the IPAM driver.

A request names subnets, addresses, or neither. In the last case a port gets one address of each
family, and a derived one on every subnet where hosts derive theirs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from ipaddress import IPv6Network
from typing import Any, cast

from attrs import frozen

from netfw.drivers.server.ipam import (
    AddressRequest,
    AnyAddress,
    DerivedAddress,
    IpamDriver,
    ThisAddress,
)
from netfw.errors import Conflict, InvalidInput, merge_invalid
from netfw.errors.ports import (
    AllocationOnAutoAddressSubnet,
    InvalidIpForNetwork,
    IpAddressAlreadyAllocated,
    IpAddressGenerationFailure,
)
from netfw.model.port import FixedIp
from netfw.model.subnet import Subnet
from netfw.model.values.address import IpAddress, Mac, as_address, eui64
from netfw.model.values.device_owner import is_l3_agent_port, is_trusted
from netfw.model.values.ids import SubnetId
from netfw.server.db.allocation.allocation_stores import SubnetAddressStore

Entry = Mapping[str, Any]
"""Entry of ``fixed_ips``: a subnet, an address, or both."""


@frozen(kw_only=True)
class AddressOwner:
    """Properties of a port that decide about its addresses."""

    mac: Mac
    owner: str = ""

    @property
    def routes(self) -> bool:
        """Whether the port belongs to a router or an L3 agent, and may have any address."""
        return is_l3_agent_port(self.owner)


def requests(
    subnets: Sequence[Subnet], owner: AddressOwner, requested: Sequence[Entry] | None
) -> tuple[AddressRequest, ...]:
    """Return the requests for the IPAM driver; *requested* ``None``: whatever fits; empty: nothing.

    :raises InvalidInput: naming each invalid entry.
    :raises Conflict: no subnet is for such a port.
    """
    if requested is None:
        return _whatever_fits(subnets, owner)
    if not requested:
        return ()
    chosen = _named(subnets, owner, tuple(enumerate(requested)))
    served = {_subnet_id(each) for each in chosen}
    rest = [subnet for subnet in subnets if subnet.id not in served]
    return (*chosen, *_derived(rest, owner))


def requests_for_update(
    subnets: Sequence[Subnet],
    owner: AddressOwner,
    requested: Sequence[Entry],
    present: Sequence[FixedIp],
) -> tuple[tuple[FixedIp, ...], tuple[AddressRequest, ...]]:
    """Return which *present* addresses of a port stay, and the requests for new ones.

    An entry with a subnet alone is met by an address that the port has there. A derived address
    stays while the port has any address at all.

    :raises InvalidInput: naming each invalid entry.
    """
    if not requested:
        return (), ()
    left, kept, new = list(present), [], []
    for at, entry in sorted(enumerate(requested), key=lambda each: not each[1].get("ip_address")):
        found = next((each for each in left if _meets(each, entry)), None)
        if found is None:
            new.append((at, entry))
        else:
            kept.append(found)
            left.remove(found)
    chosen = _named(subnets, owner, new, taken=kept)
    served = {_subnet_id(each) for each in chosen} | {each.subnet_id for each in kept}
    rest = [subnet for subnet in subnets if subnet.id not in served]
    derived = {_subnet_id(each): each for each in _derived(rest, owner)}
    kept += [each for each in left if derived.pop(each.subnet_id, None) is not None]
    return tuple(kept), (*chosen, *derived.values())


def requests_for_new_mac(
    subnets: Sequence[Subnet], owner: AddressOwner, present: Sequence[FixedIp]
) -> tuple[tuple[FixedIp, ...], tuple[AddressRequest, ...]]:
    """Return the same for a port with a new MAC: addresses derived from the MAC change too."""
    automatic = {each.id: each for each in subnets if each.automatic}
    kept = tuple(each for each in present if each.subnet_id not in automatic)
    left = [automatic[each.subnet_id] for each in present if each.subnet_id in automatic]
    return kept, _derived(left, owner)


def _meets(present: FixedIp, entry: Entry) -> bool:
    subnet, address = entry.get("subnet_id"), entry.get("ip_address")
    if subnet and str(present.subnet_id) != str(subnet):
        return False
    return not address or _address(address) == present.address


def _address(text: str) -> IpAddress | None:
    try:
        return as_address(text)
    except ValueError:
        return None


def _whatever_fits(subnets: Sequence[Subnet], owner: AddressOwner) -> tuple[AddressRequest, ...]:
    fitting = _for_owner(subnets, owner.owner)
    if subnets and not fitting:
        raise IpAddressGenerationFailure(
            f"no subnet of the network is for a port of {owner.owner or 'no owner'}: "
            "see their service_types"
        )
    found: list[AddressRequest] = []
    for version in (4, 6):
        some = [each for each in fitting if each.ip_version == version and not each.automatic]
        if some:
            found.append(AnyAddress(subnets=tuple(some)))
    return (*found, *_derived(fitting, owner))


def _for_owner(subnets: Sequence[Subnet], owner: str) -> list[Subnet]:
    """Return the subnets reserved for *owner*, then those without ``service_types``."""
    meant = [each for each in subnets if owner and owner in each.service_types]
    return meant + [each for each in subnets if not each.service_types]


def _derived(subnets: Sequence[Subnet], owner: AddressOwner) -> tuple[DerivedAddress, ...]:
    if owner.routes:
        return ()
    return tuple(DerivedAddress(subnet=each, mac=owner.mac) for each in subnets if each.automatic)


def _named(
    subnets: Sequence[Subnet],
    owner: AddressOwner,
    requested: Sequence[tuple[int, Entry]],
    taken: Sequence[FixedIp] = (),
) -> tuple[AddressRequest, ...]:
    found: list[AddressRequest] = []
    seen = {(each.subnet_id, each.address) for each in taken}
    errors: list[InvalidInput] = []
    for at, entry in requested:
        try:
            request = _entry(subnets, owner, entry)
        except InvalidInput as exc:
            errors.append(exc.within(f"fixed_ips[{at}]"))
            continue
        if isinstance(request, ThisAddress):
            wanted = (request.subnet.id, request.address)
            if wanted in seen:
                text = f"{request.address} is there twice"
                errors.append(InvalidInput({f"fixed_ips[{at}].ip_address": text}))
            seen.add(wanted)
        found.append(request)
    if errors:
        raise merge_invalid(errors)
    return tuple(found)


def _entry(subnets: Sequence[Subnet], owner: AddressOwner, entry: Entry) -> AddressRequest:
    address = _given_address(entry)
    subnet = _subnet(subnets, entry, address)
    if address is None:
        if subnet.automatic and not owner.routes:
            return DerivedAddress(subnet=subnet, mac=owner.mac)
        return AnyAddress(subnets=(subnet,))
    if address == subnet.gateway and owner.owner and not is_trusted(owner.owner):
        raise InvalidInput(
            {"ip_address": f"{address} is the gateway of {subnet.cidr}; only a router can have it"}
        )
    if subnet.automatic and not owner.routes:
        return _only_derived(subnet, owner, address)
    return ThisAddress(subnet=subnet, address=address)


def _given_address(entry: Entry) -> IpAddress | None:
    text = entry.get("ip_address")
    if not text:
        return None
    try:
        return as_address(text)
    except ValueError as exc:
        raise InvalidInput({"ip_address": str(exc)}) from exc


def _subnet(subnets: Sequence[Subnet], entry: Entry, address: IpAddress | None) -> Subnet:
    wanted = entry.get("subnet_id")
    if wanted:
        for each in subnets:
            if str(each.id) == str(wanted):
                return each
        raise InvalidInput({"subnet_id": f"{wanted} is no subnet of the port's network"})
    if address is None:
        raise InvalidInput({"subnet_id": "say a subnet, an address, or both"})
    for each in subnets:
        if address in each.cidr:
            return each
    raise InvalidIpForNetwork({"ip_address": f"{address} is in no subnet of the port's network"})


def _only_derived(subnet: Subnet, owner: AddressOwner, address: IpAddress) -> DerivedAddress:
    """Accept *address* only if it is the one derived from the MAC."""
    derived = eui64(cast(IPv6Network, subnet.cidr), owner.mac)
    if address != derived:
        raise AllocationOnAutoAddressSubnet(
            {
                "ip_address": f"hosts in {subnet.cidr} derive their addresses: with this MAC it "
                f"is {derived}, not {address}; leave ip_address out"
            }
        )
    return DerivedAddress(subnet=subnet, mac=owner.mac)


def _subnet_id(request: AddressRequest) -> SubnetId:
    return request.subnets[0].id if isinstance(request, AnyAddress) else request.subnet.id


class AddressAllocator:
    """Allocates the addresses of several ports in one transaction, with few statements.

    It stands between the IPAM driver and the store: when a thousand ports request any address of
    the same subnets, the first request allocates a thousand, and what is left over is released at
    the end.
    """

    def __init__(self, ipam: IpamDriver, store: SubnetAddressStore) -> None:
        self._ipam, self._store = ipam, store
        self._ahead: dict[SubnetId, list[IpAddress]] = {}
        self._still: Counter[tuple[SubnetId, ...]] = Counter()
        self._count = 1

    def allocate(self, wanted: Sequence[Sequence[AddressRequest]]) -> list[tuple[FixedIp, ...]]:
        """Return the addresses of several ports, in order; named addresses are allocated first.

        :raises Conflict: it is taken, or none is left; the text says where.
        :raises InvalidInput: no host can have it.
        """
        order = [(at, nth) for at, some in enumerate(wanted) for nth in range(len(some))]
        order.sort(key=lambda each: isinstance(wanted[each[0]][each[1]], AnyAddress))
        self._still.update(
            _ids(each) for some in wanted for each in some if isinstance(each, AnyAddress)
        )
        found = {(at, nth): self._one(wanted[at][nth]) for at, nth in order}
        self._settle()
        return [tuple(found[at, nth] for nth in range(len(some))) for at, some in enumerate(wanted)]

    def release_all(self, fixed_ips: Sequence[FixedIp]) -> None:
        """Free addresses."""
        for each in fixed_ips:
            self._ipam.release(each, self)

    def _settle(self) -> None:
        """Release addresses that were allocated ahead and not used."""
        for subnet, addresses in self._ahead.items():
            for address in addresses:
                self._store.release(subnet, address)
        self._ahead.clear()

    def _one(self, request: AddressRequest) -> FixedIp:
        if isinstance(request, AnyAddress):
            key = _ids(request)
            self._count = max(1, self._still[key])
            self._still[key] -= 1
        try:
            return self._ipam.allocate(request, self)
        except InvalidInput as exc:
            raise exc.within("fixed_ips") from exc
        except Conflict as exc:
            any_one = isinstance(request, AnyAddress)
            kind = IpAddressGenerationFailure if any_one else IpAddressAlreadyAllocated
            raise kind(str(exc)) from exc

    # AddressStore, as the driver sees it.

    def acquire(self, subnet: SubnetId, address: IpAddress) -> bool:
        """Allocate *address*; return false if it is taken."""
        ahead = self._ahead.get(subnet)
        if ahead and address in ahead:
            ahead.remove(address)
            return True
        return self._store.acquire(subnet, address)

    def acquire_any(self, subnet: Subnet) -> IpAddress | None:
        """Allocate a free address of the subnet's pools; ``None`` if there is none."""
        ahead = self._ahead.get(subnet.id)
        if not ahead:
            ahead = list(reversed(self._store.take_some(subnet, self._count)))
            self._ahead[subnet.id] = ahead
        return ahead.pop() if ahead else None

    def release(self, subnet: SubnetId, address: IpAddress) -> None:
        """Free *address*."""
        self._store.release(subnet, address)


def _ids(request: AnyAddress) -> tuple[SubnetId, ...]:
    return tuple(each.id for each in request.subnets)


def requested_ips(body: Mapping[str, Any]) -> Sequence[Entry] | None:
    """Return the ``fixed_ips`` of a request; ``None``: it has none."""
    return cast("Sequence[Entry] | None", body.get("fixed_ips"))


def check_address_count(
    requested: Sequence[Entry] | None, owner: str, most: int, present: Sequence[FixedIp] = ()
) -> None:
    """Check the number of addresses that a request names; ports of the network itself have any.

    :raises InvalidInput: they are more than *most*, and more than the port has at present.
    """
    count = len(requested or ())
    if count > max(most, len(present)) and not is_trusted(owner):
        text = f"{count} are more than {most}, which max_fixed_ips_per_port of the server allows"
        raise InvalidInput({"fixed_ips": text})
