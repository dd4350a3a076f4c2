"""networking-generic-switch, unmodified, beside netfw's own drivers: it configures a real switch.

The server is on one host of the lab.  The other one is a switch with two machines, which the driver
configures over ssh, as a top-of-rack switch of bare metal.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from netfw.testing.lab.instance import Instance, Plug
from netfw.testing.lab.lab import Lab
from netfw.testing.lab.services.server import PrivateNetfw
from netfw.testing.lab.wait import wait_until
from tests.system.server.switch_over_ssh import SwitchOverSsh

pytestmark = [pytest.mark.timeout(300), pytest.mark.spec("ML2-12")]

BRIDGE, UPLINK = "br-tor", "uplink"
QUARANTINE = {"metal1": 3001, "metal2": 3002}
"""VLANs of ports of the switch that no port of the API is bound to."""
DRIVER_OPTIONS = """
[genericswitch:tor1]
device_type = netmiko_ovs_linux
ip = {address}
username = root
use_keys = true
key_file = {key}
ngs_physical_networks = physnet1
ngs_trunk_ports = {uplink}
ngs_ssh_connect_timeout = 2
ngs_ssh_connect_interval = 1
"""


def card(machine: str, switch: str = "tor1") -> dict[str, Any]:
    """Return the attributes of a port for the network card of *machine*."""
    link = {"switch_info": switch, "switch_id": "", "port_id": machine}
    return {
        "binding:vnic_type": "baremetal",
        "binding:host_id": machine,
        "binding:profile": {"local_link_information": [link]},
    }


class Rack:
    """A switch with two machines, and a server that configures it by the driver."""

    def __init__(self, lab: Lab, directory: Path) -> None:
        switch_host, server_host = lab.hosts.values()
        switch_host.ovs.vsctl(
            "add-port", BRIDGE, UPLINK, "--", "set", "Interface", UPLINK, "type=internal"
        )
        self.switch = SwitchOverSsh(switch_host, directory)
        self.machines: dict[str, Instance] = {}
        for number, (name, vlan) in enumerate(QUARANTINE.items(), 11):
            plug = Plug(bridge=BRIDGE, device=name, addresses=(f"10.1.0.{number}/24",), tag=vlan)
            self.machines[name] = switch_host.instance(name, plug)
        options = directory / "genericswitch.conf"
        key = self.switch.client_key
        options.write_text(
            DRIVER_OPTIONS.format(address=self.switch.address, key=key, uplink=UPLINK)
        )
        groups: dict[str, dict[str, object]] = {
            "ml2": {
                "mechanism_drivers": "openvswitch,genericswitch",
                "tenant_network_types": "vlan",
            },
            "vlan": {"network_vlan_ranges": "physnet1:100:199"},
            "genericswitch": {"config_files": options},
        }
        self.server = PrivateNetfw(directory / "server", groups, spawn=server_host.spawn)

    def make(self, kind: str, **body: Any) -> dict[str, Any]:
        status, answer = self.server.request("POST", f"/v2.0/{kind}s", {kind: body})
        assert status == 201, answer
        return dict(answer[kind])

    def network(self) -> dict[str, Any]:
        made = self.make("network", name="provisioning")
        subnet = {"cidr": "10.1.0.0/24", "ip_version": 4, "enable_dhcp": False}
        self.make("subnet", network_id=made["id"], **subnet)
        return made

    def port(self, network: dict[str, Any], machine: str, switch: str = "tor1") -> dict[str, Any]:
        """Create a port for the network card of *machine*, as a bare-metal service does."""
        return self.make("port", network_id=network["id"], **card(machine, switch))

    def move(self, port: dict[str, Any], machine: str) -> None:
        """Bind a port to the network card of another machine."""
        body = {"port": card(machine)}
        status, answer = self.server.request("PUT", f"/v2.0/ports/{port['id']}", body)
        assert status == 200, answer

    def status(self, port: dict[str, Any]) -> str:
        return str(self.server.request("GET", f"/v2.0/ports/{port['id']}")[1]["port"]["status"])

    def wait_active(self, *ports: dict[str, Any]) -> None:
        def why() -> str:
            return f"{self.server.log_tail()}\n{self.switch.log()}"

        for port in ports:
            wait_until(lambda port=port: self.status(port) == "ACTIVE", why)

    def delete(self, kind: str, resource: dict[str, Any]) -> None:
        status, answer = self.server.request("DELETE", f"/v2.0/{kind}s/{resource['id']}")
        assert status == 204, answer

    def is_connected(self) -> bool:
        return bool(self.machines["metal1"].ping("10.1.0.12", count=1).received)


@pytest.fixture
def rack(tmp_path: Path) -> Iterator[Rack]:
    with Lab(2, bridges=(BRIDGE,)) as lab:
        made = Rack(lab, tmp_path)
        made.switch.start()
        with made.server:
            yield made
        made.switch.stop()
        assert "Traceback" not in made.server.log.read_text(), made.server.log_tail()


def test_bound_ports_are_in_the_vlan_of_their_network_until_they_are_deleted(rack: Rack) -> None:
    assert not rack.is_connected()
    network = rack.network()
    vlan = str(network["provider:segmentation_id"])
    wait_until(lambda: rack.switch.column(UPLINK, "trunks") == f"[{vlan}]", rack.switch.log)
    ports = [rack.port(network, name) for name in rack.machines]
    assert {port["binding:vif_type"] for port in ports} == {"other"}
    rack.wait_active(*ports)
    assert {rack.switch.column(name, "tag") for name in rack.machines} == {vlan}
    wait_until(rack.is_connected)
    rack.delete("port", ports[0])
    wait_until(lambda: rack.switch.column("metal1", "tag") == "[]", rack.switch.log)
    assert rack.switch.column("metal2", "tag") == vlan
    assert not rack.is_connected()


def test_a_port_that_moves_leaves_the_vlan_at_its_former_machine(rack: Rack) -> None:
    network = rack.network()
    vlan = str(network["provider:segmentation_id"])
    port = rack.port(network, "metal1")
    rack.wait_active(port)
    assert rack.switch.column("metal1", "tag") == vlan
    rack.move(port, "metal2")
    rack.wait_active(port)
    assert rack.switch.column("metal2", "tag") == vlan
    assert rack.switch.column("metal1", "tag") == "[]"


@pytest.mark.nightly
def test_a_port_waits_for_a_switch_that_does_not_answer(rack: Rack) -> None:
    network = rack.network()
    wait_until(lambda: rack.switch.column(UPLINK, "trunks") != "[]", rack.switch.log)
    rack.switch.stop()
    port = rack.port(network, "metal1")
    wait_until(lambda: "delivery to mechanism/genericswitch deferred" in rack.server.log_tail())
    assert rack.status(port) == "DOWN"
    rack.switch.start()
    rack.wait_active(port)
    assert rack.switch.column("metal1", "tag") == str(network["provider:segmentation_id"])


@pytest.mark.nightly
def test_a_port_of_an_unknown_switch_is_not_bound_and_says_why(rack: Rack) -> None:
    port = rack.port(rack.network(), "metal1", switch="tor9")
    assert port["binding:vif_type"] == "binding_failed"
    openvswitch, generic = port["binding:vif_details"]["binding_failure"]
    assert openvswitch.startswith("openvswitch:")
    assert generic.startswith("genericswitch:")
    assert "device tor9 is not configured" in generic
