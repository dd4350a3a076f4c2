"""Tunnels to other hosts, as ports of ``br-tun``.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from netfw.drivers.values.switch_values import Endpoint, Tunnel
from netfw.errors import Conflict
from netfw.model.segment import WELL_KNOWN_TYPES
from netfw.ovs.ovsdb.operations import AddPort, OvsdbTable, RemovePort, SetColumns
from netfw.ovs.ovsdb.values import OvsdbPort
from netfw_drivers.ovs.switch.plan.observed import (
    ENDPOINT_MARK,
    LISTENER_MARK,
    MESH_MARK,
    TUNNEL_MARK,
    endpoint_of,
)
from netfw_drivers.ovs.switch.plan.ovsdb_changes import OvsdbChanges, differing, row
from netfw_drivers.ovs.switch.plan.settings import Settings, listener_name, tunnel_name

_OURS = {LISTENER_MARK: "true"}


def plan_listeners(draft: OvsdbChanges, settings: Settings) -> None:
    """Plan a listener for every type of tunnel, also while there is no tunnel.

    See docs/decisions/0012: a listener is a tunnel that leads to this host itself, and carries
    nothing.  Where another port has its name, tunnels work as well as without it.
    """
    wanted = settings.listeners()
    for kind in WELL_KNOWN_TYPES:
        name = listener_name(kind)
        port = draft.snapshot.ports.get(name)
        endpoint = wanted.get(kind)
        if port is None and endpoint is not None:
            options = settings.tunnel_options(endpoint)
            listener = AddPort(
                bridge=settings.tunnel,
                name=name,
                type=str(kind),
                options=options,
                port_external_ids=_OURS,
            )
            draft.prepare.append(row(listener))
        elif port is not None and LISTENER_MARK in port.external_ids:
            if endpoint is None:
                draft.removals.append(row(RemovePort(name=name, expect=_OURS)))
            else:
                _repair_options(draft, port, settings.tunnel_options(endpoint), _OURS)


def plan_tunnels(draft: OvsdbChanges, settings: Settings, put: Mapping[Endpoint, Tunnel]) -> None:
    """Plan the tunnels of *put*; a name that another port has is a conflict."""
    for endpoint, tunnel in put.items():
        name = tunnel_name(endpoint)
        port = draft.snapshot.ports.get(name)
        if port is None:
            _add(draft, settings, endpoint, tunnel)
        elif endpoint_of(port) != endpoint or port.bridge != settings.tunnel:
            draft.refused[endpoint] = Conflict(
                f"{name} on {port.bridge} is not the tunnel to {endpoint}: remove or rename it"
            )
        else:
            _repair(draft, settings, endpoint, tunnel, port)


def drop_tunnels(draft: OvsdbChanges, drop: Iterable[Endpoint]) -> None:
    """Plan the removal of those tunnels of *drop* that this driver made."""
    for endpoint in drop:
        name = tunnel_name(endpoint)
        port = draft.snapshot.ports.get(name)
        if port is not None and endpoint_of(port) == endpoint:
            expect = {TUNNEL_MARK: port.external_ids[TUNNEL_MARK]}
            draft.removals.append(row(RemovePort(name=name, expect=expect), [endpoint]))


def _add(draft: OvsdbChanges, settings: Settings, endpoint: Endpoint, tunnel: Tunnel) -> None:
    name = tunnel_name(endpoint)
    port = AddPort(
        bridge=settings.tunnel,
        name=name,
        type=str(endpoint.type),
        ofport_request=draft.request_tunnel(settings.tunnel, name),
        options=settings.tunnel_options(endpoint),
        port_external_ids={k: v for k, v in _marks(endpoint, tunnel).items() if v},
    )
    draft.prepare.append(row(port, [endpoint]))


def _repair(
    draft: OvsdbChanges, settings: Settings, endpoint: Endpoint, tunnel: Tunnel, port: OvsdbPort
) -> None:
    expect = {TUNNEL_MARK: port.external_ids[TUNNEL_MARK]}
    _repair_options(draft, port, settings.tunnel_options(endpoint), expect, [endpoint])
    marks = differing(port.external_ids, _marks(endpoint, tunnel))
    if marks:
        change = SetColumns(
            table=OvsdbTable.PORT, record=port.name, keys={"external_ids": marks}, expect=expect
        )
        draft.prepare.append(row(change, [endpoint]))


def _repair_options(
    draft: OvsdbChanges,
    port: OvsdbPort,
    want: Mapping[str, str],
    expect: Mapping[str, str],
    owners: Iterable[Endpoint] = (),
) -> None:
    have = port.interface.options
    options = differing(have, {**dict.fromkeys(have), **want})
    if options:
        change = SetColumns(
            table=OvsdbTable.INTERFACE, record=port.name, keys={"options": options}, expect=expect
        )
        draft.prepare.append(row(change, owners))


def _marks(endpoint: Endpoint, tunnel: Tunnel) -> dict[str, str | None]:
    return {
        TUNNEL_MARK: tunnel.host,
        ENDPOINT_MARK: str(endpoint.address),
        MESH_MARK: "true" if tunnel.mesh else None,
    }
