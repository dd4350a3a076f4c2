"""The extensions for QoS and DHCP pass the suite that every L2 extension passes."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import pytest
from attrs import evolve

from netfw.drivers.l2_extension import ExtendedPort, L2Extension
from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw.drivers.values.switch_values import SwitchDevice
from netfw.model.network import Network
from netfw.model.port import Port
from netfw.model.qos import BandwidthLimit, DscpMarking, PacketRateLimit, QosPolicy, QosRule
from netfw.model.security_group import Direction
from netfw.model.values.ids import NetworkId, PortId, QosPolicyId, QosRuleId
from netfw.testing.conformance import L2ExtensionConformance
from netfw_drivers.ovs.dhcp.extension import DhcpExtension
from netfw_drivers.ovs.pipeline.extension_grants import ExtensionLayout, grant_violation
from netfw_drivers.ovs.qos.extension import QosExtension
from tests.unit.backends.ovs.dhcp.test_extension import VIEW

pytestmark = pytest.mark.fakes

NETWORK = Network(id=NetworkId(UUID(int=9)))


def rule_id(number: int) -> QosRuleId:
    return QosRuleId(UUID(int=number))


RULES: tuple[QosRule, ...] = (
    BandwidthLimit(id=rule_id(1), max_kbps=1000, direction=Direction.EGRESS),
    BandwidthLimit(id=rule_id(2), max_kbps=2000, direction=Direction.INGRESS),
    PacketRateLimit(id=rule_id(3), max_kpps=1, direction=Direction.EGRESS),
    PacketRateLimit(id=rule_id(4), max_kpps=2, direction=Direction.INGRESS),
    DscpMarking(id=rule_id(5), dscp_mark=26),
)


def view(number: int, *rules: QosRule) -> ExtendedPort:
    policy = QosPolicy(id=QosPolicyId(UUID(int=100 + number)), name="policy", rules=rules)
    port = Port(
        id=PortId(UUID(int=number)),
        network_id=NETWORK.id,
        mac=f"fa:16:3e:00:00:{number:02x}",
        qos_policy_id=policy.id,
    )
    device = SwitchDevice(name=f"tap{number}", ofport=number)
    return ExtendedPort(port=port, network=NETWORK, device=device, related=(policy,))


@pytest.mark.spec("L2-80")
class TestQosExtension(L2ExtensionConformance):
    """Ports with each rule alone, with all of them, and with none."""

    def make_extension(self) -> L2Extension:
        return QosExtension()

    def ports(self) -> Sequence[ExtendedPort]:
        alone = [view(number, rule) for number, rule in enumerate(RULES, 10)]
        return [*alone, view(1), view(2, *RULES), view(3, *RULES)]

    def test_the_switch_accepts_the_flows(self) -> None:
        extension = self.make_extension()
        layout = ExtensionLayout().granted(extension.grant_request())
        for each in self.ports():
            made = extension.contribute(each.port.id, each, layout.grants["qos"])
            assert made is None or grant_violation(made, layout) is None


@pytest.mark.spec("DHCP-81")
class TestDhcpExtension(L2ExtensionConformance):
    """Two ports that are served."""

    def make_extension(self) -> L2Extension:
        options = {option.dest: option.default for option in DhcpExtension.OPTIONS}
        with LocalHostResources() as host:
            return DhcpExtension.from_conf(options, host)

    def ports(self) -> Sequence[ExtendedPort]:
        other = evolve(VIEW.port, id=PortId(UUID(int=12)), mac="fa:16:3e:00:00:0c")
        device = SwitchDevice(name="tap12", ofport=6)
        return [VIEW, evolve(VIEW, port=other, device=device)]
