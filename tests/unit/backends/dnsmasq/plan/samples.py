"""Networks as they are found when everything is as it should be, or nearly."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from netfw.linux.ip.values import PROTOCOL_KERNEL, Address, FoundAddress, Link, route
from netfw.linux.iptables.mirror import parse_save
from netfw.linux.iptables.rule import Family
from netfw.linux.service_netns.plan import CHAIN_OWNER, SETTINGS, device_settings
from netfw.linux.service_netns.values import ObservedNetns
from netfw.model.values.device_names import device_name
from netfw.plan import Plan, Update
from netfw.testing.conformance.dhcp.factories import ServedNetwork, Tenant, wanted
from netfw_drivers.dnsmasq.config.file_parsers import read_host
from netfw_drivers.dnsmasq.config.render import render_port
from netfw_drivers.dnsmasq.config.settings import Settings
from netfw_drivers.dnsmasq.plan.observed import FoundNetwork, NetworkFiles, Observed, Reload
from netfw_drivers.dnsmasq.plan.plan import plan_dhcp
from netfw_drivers.dnsmasq.plan.service_spec import DriverContext

CONFS = Path("/confs")
TERMS = DriverContext(
    settings=Settings(confs=CONFS), device_name=lambda port: device_name("tap", port)
)
_LOOPBACK = Link(name="lo", index=1, mtu=65536, up=True, state="unknown")
_FILLING = """*mangle
:POSTROUTING ACCEPT [0:0]
:station-checksums - [0:0]
-A POSTROUTING -j station-checksums
-A station-checksums -p udp -m udp --dport 68 -j CHECKSUM --checksum-fill
COMMIT
"""


def found_network(
    net: ServedNetwork,
    *ports: Tenant,
    tombs: Iterable[Tenant] = (),
    leases: str = "",
    runs: bool = True,
    reload: Reload | None = None,
) -> Observed:
    """Return the observed state of a network that is served, with *ports*."""
    settings = TERMS.settings
    recipe = TERMS.service_spec(net.id, net.value)
    text = recipe.text
    shelf = NetworkFiles(
        exists=True,
        opts=text.opts,
        interface=text.interface,
        server=net.value.server.id,
        has_lease_file=True,
        reload=reload,
    )
    for port in ports:
        shelf.put(port.port, render_port(port.port, port.value, net.value, settings))
    for tomb in tombs:
        rendered = render_port(tomb.port, tomb.value, net.value, settings)
        shelf.add_tombstone(tomb.port, read_host(rendered.host))
    found = FoundNetwork(
        files=shelf,
        desired=net.value,
        desired_ports={port.port: port.value for port in ports},
        netns=_station(net),
        process=recipe.program.digest() if runs else None,
        leases=leases,
    )
    port_networks = {tenant.port: net.id for tenant in (*ports, *tombs)}
    return Observed(networks={net.id: found}, port_networks=port_networks)


def planned(
    observed: Observed, *things: ServedNetwork | Tenant, drop: Iterable[ServedNetwork | Tenant] = ()
) -> Plan:
    update: Update[Any, Any] = Update(
        put=wanted(*things), drop=frozenset(thing.key for thing in drop)
    )
    plan = plan_dhcp(update, observed, TERMS)
    assert plan.stages == plan_dhcp(update, observed, TERMS).stages, "it is pure"
    return plan


def stages(plan: Plan) -> list[type]:
    """Return the types of the steps, without those of the namespace and its devices."""
    ours = (o.payload for o in plan if o.payload.__class__.__module__.startswith("netfw_drivers"))
    return [type(step) for step in ours]


def texts(plan: Plan) -> list[str]:
    return [operation.text for operation in plan]


def a_lease(tenant: Tenant) -> str:
    """Return the line in the lease file once the port's client has its address."""
    return f"1900000000 {tenant.mac} {tenant.ip} * 01:{tenant.mac}\n"


def _station(net: ServedNetwork) -> ObservedNetns:
    wanted = TERMS.service_netns(net.id, net.value)
    device = wanted.device
    link = Link(
        name=device, index=2, kind="tun", mtu=wanted.mtu, mac=wanted.mac, up=True, state="unknown"
    )
    own = tuple(
        FoundAddress(address=Address(device=device, interface=interface))
        for interface in wanted.addresses
    )
    automatic = FoundAddress(address=Address(device=device, interface="fe80::1/64"), automatic=True)
    connected = (
        route(str(interface.network), device=device, protocol=PROTOCOL_KERNEL)
        for interface in wanted.addresses
    )
    defaults = (route("default", via=str(each), device=device) for each in wanted.gateways)
    return ObservedNetns(
        netns=wanted.netns,
        exists=True,
        links={"lo": _LOOPBACK, device: link},
        addresses=(*own, automatic),
        routes=(*connected, *defaults),
        sysctls={**SETTINGS, **device_settings(device)},
        rules=parse_save(_FILLING, Family.IPV4, CHAIN_OWNER),
    )
