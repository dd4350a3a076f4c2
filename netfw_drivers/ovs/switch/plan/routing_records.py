"""Records of hosts and router interfaces in the database of the switch.  Pure.

They are entries of the ``external_ids`` of ``br-int``, written before their flows and removed after
them.  A later run knows by them whose flows it finds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from uuid import UUID

from netfw.drivers.values.keys import HostKey, NetworkKey
from netfw.drivers.values.switch_values import (
    Endpoint,
    HostMac,
    LocalNetwork,
    RouterInterface,
    SwitchKey,
    SwitchValue,
)
from netfw.model.segment import NetworkType
from netfw.model.values.address import Mac, as_address, as_interface
from netfw.model.values.ids import NetworkId, PortId

HOST_RECORD = "netfw-host-"
"""Prefix of a key, before the name of a host; the value has its MAC address and endpoints."""
ROUTER_RECORD = "netfw-router-"
"""Prefix of a key, before the port of a router interface; the value has its network, MAC address
and addresses."""
_OWN = "own"


def records_of(key: SwitchKey, value: SwitchValue | None) -> dict[str, str]:
    """Return the records of *key*; most have none."""
    match key, value:
        case HostKey(), HostMac():
            ends = sorted(f"{end.type}={end.address}" for end in value.endpoints)
            own = [_OWN] if value.own else []
            return {HOST_RECORD + key.host: " ".join([value.mac, *own, *ends])}
        case NetworkKey(), LocalNetwork():
            return dict(_router_record(key.network, one) for one in value.router_interfaces)
    return {}


def is_record(name: str) -> bool:
    return name.startswith((HOST_RECORD, ROUTER_RECORD))


def record_changes(
    ids: Mapping[str, str], before: Mapping[str, str], after: Mapping[str, str]
) -> tuple[dict[str, str | None], dict[str, str | None]]:
    """Return the entries of *ids* to write, and those to remove."""
    written: dict[str, str | None] = {
        name: text for name, text in after.items() if ids.get(name) != text
    }
    removed = dict.fromkeys(name for name in before if name in ids and name not in after)
    return written, removed


def recorded_hosts(ids: Mapping[str, str]) -> dict[HostKey, HostMac | None]:
    """Parse the hosts of *ids*; ``None``: the value is not a record."""
    return {
        HostKey(name.removeprefix(HOST_RECORD)): _host(text)
        for name, text in ids.items()
        if name.startswith(HOST_RECORD)
    }


def recorded_routers(ids: Mapping[str, str]) -> dict[NetworkId, frozenset[RouterInterface]]:
    """Parse the router interfaces of *ids* by network; values that are not records are left out."""
    found: dict[NetworkId, set[RouterInterface]] = defaultdict(set)
    for network, interface in _routers(ids.items()):
        found[network].add(interface)
    return {network: frozenset(interfaces) for network, interfaces in found.items()}


def _router_record(network: NetworkId, interface: RouterInterface) -> tuple[str, str]:
    addresses = sorted(map(str, interface.addresses))
    return f"{ROUTER_RECORD}{interface.port}", " ".join([str(network), interface.mac, *addresses])


def _routers(records: Iterable[tuple[str, str]]) -> Iterator[tuple[NetworkId, RouterInterface]]:
    for name, text in records:
        if not name.startswith(ROUTER_RECORD):
            continue
        try:
            network, mac, *addresses = text.split()
            yield (
                NetworkId(UUID(network)),
                RouterInterface(
                    PortId(UUID(name.removeprefix(ROUTER_RECORD))),
                    Mac(mac),
                    frozenset(map(as_interface, addresses)),
                ),
            )
        except ValueError:
            continue


def _host(text: str) -> HostMac | None:
    try:
        mac, *rest = text.split()
        pairs = (word.split("=", 1) for word in rest if word != _OWN)
        ends = frozenset(Endpoint(NetworkType(kind), as_address(where)) for kind, where in pairs)
        return HostMac(Mac(mac), _OWN in rest, ends)
    except ValueError:
        return None
