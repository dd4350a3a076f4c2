"""DHCP on one page: start to serve a network on this host, and stop.

    python lease.py serve unix:/run/openvswitch/db.sock /var/lib/mine
    python lease.py stop unix:/run/openvswitch/db.sock /var/lib/mine

Both commands return; dnsmasq continues to run.  An instance is a device of ``br-int`` with the id
of its port: ``external_ids:iface-id=00000000-0000-0000-0000-000000000065``.
"""

import sys
from ipaddress import ip_address, ip_interface, ip_network
from uuid import UUID

from netfw.drivers.dhcp import DhcpDriver, DhcpKey, DhcpNetwork, DhcpPort, DhcpValue, ServerPort
from netfw.drivers.interface import InterfaceDriver
from netfw.drivers.registry.loader import create
from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw.drivers.switch import SwitchDriver
from netfw.drivers.values.keys import NetworkKey, PortKey
from netfw.drivers.values.switch_values import (
    Admission,
    LocalNetwork,
    SwitchKey,
    SwitchValue,
    Wiring,
)
from netfw.model import FixedIp, NetworkId, PortId, Provider, Segment, SegmentId, Subnet, SubnetId
from netfw.model.segment import NetworkType
from netfw.plan import Update

BLUE = NetworkId(UUID(int=1))
SUBNET = Subnet(
    id=SubnetId(UUID(int=2)),
    network_id=BLUE,
    cidr=ip_network("10.0.0.0/24"),
    gateway=ip_address("10.0.0.1"),
    dns_nameservers=(ip_address("192.0.2.53"),),
)
SERVER = ServerPort(
    id=PortId(UUID(int=100)), mac="fa:16:3e:00:00:02", addresses=(ip_interface("10.0.0.2/24"),)
)
WEB, WEB_MAC = PortId(UUID(int=101)), "fa:16:3e:00:00:11"
WANTED: dict[DhcpKey, DhcpValue] = {
    NetworkKey(BLUE): DhcpNetwork(server=SERVER, subnets=(SUBNET,), mtu=1450),
    PortKey(WEB): DhcpPort(
        network=BLUE,
        mac=WEB_MAC,
        fixed_ips=(FixedIp(subnet_id=SUBNET.id, address=ip_address("10.0.0.11")),),
        hostname="web",
    ),
}


def serve(dhcp: DhcpDriver, switch: SwitchDriver) -> None:
    dhcp.converge(Update(put=WANTED)).raise_failed()
    print("Served:", *sorted(map(str, dhcp.present())), sep="\n  ")
    provider = Provider(network_type=NetworkType.LOCAL)
    segment = Segment(id=SegmentId(UUID(int=3)), network_id=BLUE, provider=provider)
    macs = {SERVER.id: SERVER.mac, WEB: WEB_MAC}
    put: dict[SwitchKey, SwitchValue] = {
        NetworkKey(BLUE): LocalNetwork(segments=(segment,), mtu=1450)
    }
    devices = switch.devices()
    plugged = [port for port in macs if port in devices]  # run it again when more are plugged
    for port in plugged:
        put[PortKey(port)] = Wiring(network=BLUE, mac=macs[port], admission=Admission.LIVE)
    switch.converge(Update(put=put)).raise_failed()
    print("Connected:", *(devices[port].name for port in plugged))


def stop(dhcp: DhcpDriver, switch: SwitchDriver) -> None:
    dhcp.gc(keep=[])  # processes, namespaces, devices and files of all networks
    switch.gc(keep=[])
    print("Nothing served:", not dhcp.present())


def main(command: str, remote: str, directory: str) -> None:
    with LocalHostResources() as host:
        connection = {"ovsdb_connection": remote}
        host.add(create(InterfaceDriver, "openvswitch", connection, host))
        dhcp = create(DhcpDriver, "dnsmasq", {"dhcp_confs": f"{directory}/dhcp"}, host)
        lab = {**connection, "datapath_type": "netdev"}  # omit datapath_type outside a lab
        switch = create(SwitchDriver, "openvswitch", lab, host)
        {"serve": serve, "stop": stop}[command](dhcp, switch)
        switch.close()
        dhcp.close()


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1] not in {"serve", "stop"}:
        sys.exit(__doc__)
    main(*sys.argv[1:])
