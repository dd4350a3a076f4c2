"""Tunnels to other hosts, as ports of ``br-tun``.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from netfw.drivers.switch_values import Endpoint, Tunnel
from netfw.errors import Conflict
from netfw.ovs.operations import AddPort, RemovePort, SetColumns, Table
from netfw.ovs.ovsdb_state import Port
from netfw_drivers.ovs.switch_draft import Draft, differing, row
from netfw_drivers.ovs.switch_observed import ENDPOINT_MARK, MESH_MARK, TUNNEL_MARK, endpoint_of
from netfw_drivers.ovs.switch_settings import Settings, tunnel_name


def plan_tunnels(draft: Draft, settings: Settings, put: Mapping[Endpoint, Tunnel]) -> None:
    """Make the tunnels of *put*; a name that somebody else has is a conflict."""
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
            _mend(draft, settings, endpoint, tunnel, port)


def drop_tunnels(draft: Draft, drop: Iterable[Endpoint]) -> None:
    """Remove those tunnels of *drop* that this driver made."""
    for endpoint in drop:
        name = tunnel_name(endpoint)
        port = draft.snapshot.ports.get(name)
        if port is not None and endpoint_of(port) == endpoint:
            expect = {TUNNEL_MARK: port.external_ids[TUNNEL_MARK]}
            draft.removals.append(row(RemovePort(name=name, expect=expect), [endpoint]))


def _add(draft: Draft, settings: Settings, endpoint: Endpoint, tunnel: Tunnel) -> None:
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


def _mend(draft: Draft, settings: Settings, endpoint: Endpoint, tunnel: Tunnel, port: Port) -> None:
    expect = {TUNNEL_MARK: port.external_ids[TUNNEL_MARK]}
    have, want = port.interface.options, settings.tunnel_options(endpoint)
    options = differing(have, {**dict.fromkeys(have), **want})
    if options:
        change = SetColumns(
            table=Table.INTERFACE, record=port.name, keys={"options": options}, expect=expect
        )
        draft.prepare.append(row(change, [endpoint]))
    marks = differing(port.external_ids, _marks(endpoint, tunnel))
    if marks:
        change = SetColumns(
            table=Table.PORT, record=port.name, keys={"external_ids": marks}, expect=expect
        )
        draft.prepare.append(row(change, [endpoint]))


def _marks(endpoint: Endpoint, tunnel: Tunnel) -> dict[str, str | None]:
    return {
        TUNNEL_MARK: tunnel.host,
        ENDPOINT_MARK: str(endpoint.address),
        MESH_MARK: "true" if tunnel.mesh else None,
    }
