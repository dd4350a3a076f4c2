"""A router on one page: connect a network with the outside on this host, and stop.

    python route.py run unix:/run/openvswitch/db.sock /var/lib/mine
    python route.py stop unix:/run/openvswitch/db.sock /var/lib/mine

Both commands return; the router continues to run.  Machines are devices of ``br-int`` with the id
of their port as ``external_ids:iface-id``: an instance 00000000-0000-0000-0000-000000000065 with
10.0.1.11, and a machine outside 00000000-0000-0000-0000-0000000000c9 with 203.0.113.1.
"""

import sys
from ipaddress import ip_address, ip_interface
from queue import SimpleQueue
from uuid import UUID

from netfw.drivers.interface import InterfaceDriver
from netfw.drivers.registry.loader import create
from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw.drivers.router import RouterDriver
from netfw.drivers.switch import SwitchDriver
from netfw.drivers.values.events import Event
from netfw.drivers.values.keys import FloatingIpKey, NetworkKey, PortKey, RouterKey
from netfw.drivers.values.router_values import (
    FloatingIpNat,
    FullRouter,
    Gateway,
    RouterDriverKey,
    RouterDriverValue,
    RouterPort,
    RouterState,
)
from netfw.drivers.values.switch_values import (
    Admission,
    LocalNetwork,
    SwitchKey,
    SwitchValue,
    Wiring,
)
from netfw.model import FloatingIpId, NetworkId, PortId, Provider, RouterId, Segment, SegmentId
from netfw.model.segment import NetworkType
from netfw.plan import Update

BLUE, OUTSIDE = NetworkId(UUID(int=1)), NetworkId(UUID(int=2))
EDGE = RouterId(UUID(int=3))
INSIDE = RouterPort(
    id=PortId(UUID(int=100 << 96)),  # its first 11 characters are in the name of the device
    network=BLUE,
    mac="fa:16:3e:00:00:01",
    addresses=(ip_interface("10.0.1.1/24"),),
)
UPLINK = RouterPort(
    id=PortId(UUID(int=200 << 96)),
    network=OUTSIDE,
    mac="fa:16:3e:00:00:02",
    addresses=(ip_interface("203.0.113.10/24"),),
)
GATEWAY = Gateway(port=UPLINK, next_hops=(ip_address("203.0.113.1"),))
WANTED: dict[RouterDriverKey, RouterDriverValue] = {
    RouterKey(EDGE): RouterState(
        full=FullRouter(interfaces=(INSIDE,), gateway=GATEWAY), metadata_port=None
    ),
    FloatingIpKey(FloatingIpId(UUID(int=4))): FloatingIpNat(
        router=EDGE,
        external_network=OUTSIDE,
        floating_address=ip_address("203.0.113.100"),
        fixed_address=ip_address("10.0.1.11"),
    ),
}
PORTS = {
    INSIDE.id: (BLUE, INSIDE.mac),
    UPLINK.id: (OUTSIDE, UPLINK.mac),
    PortId(UUID(int=101)): (BLUE, "fa:16:3e:00:00:11"),
    PortId(UUID(int=201)): (OUTSIDE, "fa:16:3e:00:00:12"),
}
SECONDS = 30


def run(routers: RouterDriver, switch: SwitchDriver) -> None:
    events: SimpleQueue[Event] = SimpleQueue()
    routers.watch(events.put)  # called by other threads: it only enqueues
    outcome = routers.converge(Update(put=WANTED))
    outcome.raise_failed()
    connect(switch)
    while outcome.waiting:  # a floating IP waits until the switch has admitted the gateway
        print("Event:", events.get(timeout=SECONDS).reason)
        outcome = routers.converge(Update(put=WANTED))
        outcome.raise_failed()
    print("Present:", *sorted(map(str, routers.present())), sep="\n  ")
    status = routers.status(EDGE)
    print("Devices:", *status.devices.values(), "in", *status.namespaces.values())


def connect(switch: SwitchDriver) -> None:
    """Connect the devices of the router, and of the machines that are plugged, with networks."""
    put: dict[SwitchKey, SwitchValue] = {}
    for number, network in enumerate((BLUE, OUTSIDE), 10):
        provider = Provider(network_type=NetworkType.LOCAL)
        segment = Segment(id=SegmentId(UUID(int=number)), network_id=network, provider=provider)
        put[NetworkKey(network)] = LocalNetwork(segments=(segment,), mtu=1500)
    for port in PORTS.keys() & switch.devices().keys():  # run it again when more are plugged
        network, mac = PORTS[port]
        put[PortKey(port)] = Wiring(network=network, mac=mac, admission=Admission.LIVE)
    switch.converge(Update(put=put)).raise_failed()


def stop(routers: RouterDriver, switch: SwitchDriver) -> None:
    routers.gc(keep=[]).raise_failed()  # namespaces, devices, rules, processes of all routers
    switch.gc(keep=[]).raise_failed()
    print("Nothing present:", not routers.present())


def main(command: str, remote: str, directory: str) -> None:
    with LocalHostResources() as host:
        connection = {"ovsdb_connection": remote}
        host.add(create(InterfaceDriver, "openvswitch", connection, host))
        routers = create(RouterDriver, "linux", {"router_confs": f"{directory}/routers"}, host)
        lab = {**connection, "datapath_type": "netdev"}  # omit datapath_type outside a lab
        switch = create(SwitchDriver, "openvswitch", lab, host)
        {"run": run, "stop": stop}[command](routers, switch)
        switch.close()
        routers.close()


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1] not in {"run", "stop"}:
        sys.exit(__doc__)
    main(*sys.argv[1:])
