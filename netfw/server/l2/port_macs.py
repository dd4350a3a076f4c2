"""MAC addresses of ports: given or generated, and unique on their network."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Any, cast

from netfw.drivers.server.query import Body, Query
from netfw.errors import InvalidInput
from netfw.errors.ports import HostMacAddressGenerationFailure, MacAddressInUse
from netfw.model.resource import Kind
from netfw.model.values.address import Mac
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.db.allocation.allocation_stores import HostMacPool

ATTEMPTS = 8
MAX_UNCHECKED = 4
"""Number of generated MACs that are left to the database's constraint; more are looked up first."""

NetworkMac = tuple[str, Mac]
"""Network and MAC on it."""


def macs(unit: UnitOfWork, bodies: Sequence[Body]) -> list[Mac]:
    """Return a MAC for each of *bodies*: the given one, or one that is free on its network.

    :raises MacAddressInUse: a given one is taken by another port, or by a host.
    :raises Exhausted: the prefix of ``base_mac`` has hardly any left there.
    """
    chosen: dict[int, NetworkMac] = {}
    for at, body in enumerate(bodies):
        if body.get("mac_address") is not None:
            network_mac = str(body["network_id"]), _mac(body["mac_address"])
            if network_mac in chosen.values():
                raise MacAddressInUse(
                    f"MAC address {network_mac[1]} is there twice for network {network_mac[0]}"
                )
            chosen[at] = network_mac
    for network, mac in _taken(unit, chosen.values()):
        raise MacAddressInUse(f"MAC address {mac} is taken by another port of network {network}")
    if chosen:
        for mac in HostMacPool(unit.tx.connection).assigned(mac for _, mac in chosen.values()):
            raise MacAddressInUse(f"MAC address {mac} is taken by a host, for what it routes")
    _generate(unit, bodies, chosen)
    return [chosen[at][1] for at in range(len(bodies))]


def generated_mac(base: str) -> Mac:
    """Return a random MAC address with the configured prefix of three octets, or four."""
    octets = base.lower().replace("-", ":").split(":")
    kept = octets[:3] if int(octets[3], 16) == 0 else octets[:4]
    rest = random.getrandbits(8 * (6 - len(kept))).to_bytes(6 - len(kept), "big")
    return Mac(":".join((*kept, *(f"{octet:02x}" for octet in rest))))


def _generate(unit: UnitOfWork, bodies: Sequence[Body], chosen: dict[int, NetworkMac]) -> None:
    """Generate the missing MACs of *bodies*."""
    base, seen = unit.context.settings.base_mac, set(chosen.values())
    missing = [at for at in range(len(bodies)) if at not in chosen]
    checked = len(missing) > MAX_UNCHECKED
    for _ in range(ATTEMPTS):
        for at in missing:
            network_mac = str(bodies[at]["network_id"]), generated_mac(base)
            if network_mac not in seen:
                seen.add(network_mac)
                chosen[at] = network_mac
        clashes = _taken(unit, [chosen[at] for at in missing if at in chosen] if checked else ())
        missing = [at for at in missing if at not in chosen or chosen[at] in clashes]
        if not missing:
            return
    raise HostMacAddressGenerationFailure(
        f"no MAC address was found that begins as {base}: have base_mac be another"
    )


def _taken(unit: UnitOfWork, network_macs: Iterable[NetworkMac]) -> set[NetworkMac]:
    """Return those of *network_macs* that are taken."""
    wanted = set(network_macs)
    found: set[NetworkMac] = set()
    for network in {network for network, _ in wanted}:
        some = tuple(mac for at, mac in wanted if at == network)
        query = Query(filters={"network_id": (network,), "mac_address": some})
        for row in unit.tx.resources.find(Kind.PORT, query):
            found.add((network, cast(Mac, row.body["mac_address"])))
    return found & wanted


def _mac(text: Any) -> Mac:
    try:
        return Mac(text)
    except ValueError as exc:
        raise InvalidInput({"mac_address": str(exc)}) from exc
