"""The extension for local IPs passes the suite that every L2 extension passes."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address
from uuid import UUID

import pytest

from netfw.drivers.l2_extension import ExtendedPort, L2Extension
from netfw.drivers.values.switch_values import SwitchDevice
from netfw.model.local_ip import LocalIpAssociation, LocalIpMode
from netfw.model.network import Network
from netfw.model.port import Port
from netfw.model.values.ids import LocalIpId, NetworkId, PortId
from netfw.testing.conformance import L2ExtensionConformance
from netfw_drivers.ovs.local_ip.extension import LocalIpExtension
from netfw_drivers.ovs.local_ip.plan.flows import ZONES, zone
from netfw_drivers.ovs.pipeline.extension_grants import ExtensionLayout, grant_violation

pytestmark = [pytest.mark.fakes, pytest.mark.spec("API-07")]


def view(number: int, network: int, *local_ips: tuple[int, LocalIpMode]) -> ExtendedPort:
    """Return a port with local IPs, each given by the last number of its address."""
    associations = tuple(
        LocalIpAssociation(
            local_ip_id=LocalIpId(UUID(int=last)),
            address=f"10.0.0.{last}",
            mac=f"fa:16:3e:00:01:{last:02x}",
            fixed_ip=f"10.0.0.{number}",
            mode=mode,
        )
        for last, mode in local_ips
    )
    port = Port(
        id=PortId(UUID(int=number)),
        network_id=NetworkId(UUID(int=network)),
        mac=f"fa:16:3e:00:00:{number:02x}",
        local_ips=associations,
    )
    return ExtendedPort(
        port=port,
        network=Network(id=port.network_id),
        device=SwitchDevice(name=f"tap{number}", ofport=number),
        local_ips=associations,
    )


class TestLocalIpExtension(L2ExtensionConformance):
    """Ports with local IPs of both modes, with the same ones in two networks, and without."""

    def make_extension(self) -> L2Extension:
        return LocalIpExtension()

    def ports(self) -> Sequence[ExtendedPort]:
        both = (100, LocalIpMode.TRANSLATE), (101, LocalIpMode.PASSTHROUGH)
        return [
            view(1, 9, *both),
            view(2, 9, (102, LocalIpMode.TRANSLATE), (103, LocalIpMode.TRANSLATE)),
            view(3, 8, *both),
            view(4, 9),
        ]

    def test_the_switch_accepts_the_flows(self) -> None:
        extension = self.make_extension()
        layout = ExtensionLayout().granted(extension.grant_request())
        grant = layout.grants["local_ip"]
        made = [extension.contribute(each.port.id, each, grant) for each in self.ports()]
        for each in (extension.contribute_base(grant), *made):
            assert each is None or grant_violation(each, layout) is None
        assert made[3] is None

    def test_zones_are_those_of_no_network(self) -> None:
        found = {zone(PortId(UUID(int=number)), IPv4Address(number << 8)) for number in range(1000)}
        assert found <= set(ZONES)
        assert len(found) > 950
        assert min(ZONES) > 4095
