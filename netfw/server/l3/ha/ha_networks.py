"""HA networks: by them the hosts of highly available routers elect the active one.

A project has one for 255 routers. It is created with the first of them and deleted with the last,
in the same transactions. It belongs to no project, so that its members neither see it nor pay for
it with their quotas.
"""

from __future__ import annotations

from itertools import count
from typing import Any, Final, cast
from uuid import UUID

from netfw.drivers.server.query import Query
from netfw.errors import BackendBroken
from netfw.model.port import Port
from netfw.model.resource import Kind
from netfw.model.router import Router
from netfw.model.values.device_owner import DeviceOwner
from netfw.model.values.ids import NetworkId
from netfw.server.core.resource_handler import Reader
from netfw.server.core.settings import Settings
from netfw.server.core.type_drivers import PREFIX
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.db.allocation.vrids import HaNetwork, VridStore
from netfw.server.l3.router_ports import drop_port, make_port

LONGEST_NAME: Final = 255


def acquire_vrid(unit: UnitOfWork, router: Router) -> int:
    """Allocate the virtual router id of *router*; create an HA network if all are full.

    :raises Exhausted: no segment is left for another HA network.
    """
    store, project = VridStore(unit.tx.connection), router.project_id
    networks = store.lock_networks(project)
    vrid = store.allocate(router.id, networks)
    if vrid is None:
        taken = {each.ordinal for each in networks}
        ordinal = next(each for each in count() if each not in taken)
        new = HaNetwork(
            project_id=project, ordinal=ordinal, network_id=_create_network(unit, project)
        )
        store.add_network(new)
        vrid = store.allocate(router.id, (new,))
    if vrid is None:
        raise BackendBroken(f"a new HA network of project {project!r} has no virtual router id")
    return vrid


def release_vrid(unit: UnitOfWork, router: Router) -> None:
    """Delete the HA ports of *router*, release its id, and delete the HA network with the last."""
    update_ha_ports(unit, router, frozenset())
    store = VridStore(unit.tx.connection)
    network = store.network_of(router.id)
    for each in store.lock_networks(router.project_id):
        if each.network_id == network:
            store.release(router.id)
            if store.remove_network_if_unused(each):
                with unit.elevated():
                    unit.context.handler("network").delete(unit, str(network))


def update_ha_ports(unit: UnitOfWork, router: Router, hosts: frozenset[str]) -> None:
    """Give *router*, which is locked, one HA port on each of *hosts*, and none elsewhere.

    :raises Exhausted: the HA network has no free address.
    """
    network = VridStore(unit.tx.connection).network_of(router.id)
    wanted = hosts if network is not None else frozenset()
    for port in find_ha_ports(unit.tx, device_id=str(router.id)):
        if port.network_id == network and port.binding.host in wanted:
            wanted -= {port.binding.host}
        else:
            drop_port(unit, port)
    for host in sorted(wanted):
        body: dict[str, Any] = {
            **_owned(f"HA port tenant {router.project_id}"),
            "network_id": str(network),
            "device_id": str(router.id),
            "device_owner": DeviceOwner.ROUTER_HA_INTERFACE.value,
            "binding:host_id": host,
        }
        make_port(unit, body)


def find_ha_ports(reader: Reader, **filters: str) -> tuple[Port, ...]:
    """Return the HA ports that match *filters*."""
    wanted = {**filters, "device_owner": DeviceOwner.ROUTER_HA_INTERFACE.value}
    query = Query(filters={name: (value,) for name, value in wanted.items()})
    rows = reader.resources.find(Kind.PORT, query)
    return tuple(cast(Port, row.resource()) for row in rows)


def _create_network(unit: UnitOfWork, project: str) -> NetworkId:
    """Create an HA network with its subnet."""
    settings = unit.context.settings
    network: dict[str, Any] = {
        **_owned(f"HA network tenant {project}"),
        "admin_state_up": True,
        **_provider(settings),
    }
    with unit.elevated():
        (made,) = unit.context.handler("network").create(unit, [network])
        subnet: dict[str, Any] = {
            **_owned(f"HA subnet tenant {project}"),
            "network_id": made["id"],
            "ip_version": 4,
            "cidr": settings.l3_ha_net_cidr,
            "gateway_ip": None,
            "enable_dhcp": False,
        }
        unit.context.handler("subnet").create(unit, [subnet])
    return NetworkId(UUID(str(made["id"])))


def _provider(settings: Settings) -> dict[str, str]:
    """Return the provider attributes of HA networks; empty: as for other networks."""
    if settings.l3_ha_network_type is None:
        return {}
    provider = {f"{PREFIX}network_type": str(settings.l3_ha_network_type)}
    if settings.l3_ha_network_physical_name:
        provider[f"{PREFIX}physical_network"] = settings.l3_ha_network_physical_name
    return provider


def _owned(name: str) -> dict[str, str]:
    """Return the name and the project, which is none, of what the server creates itself."""
    return {"project_id": "", "name": name[:LONGEST_NAME]}
