"""A plugged port and the switch state that it leads to."""

from netfw.agents.l2.desired_switch import DesiredSwitch
from netfw.agents.l2.host_context import L2HostContext
from netfw.agents.l2.resource_index import L2ResourceIndex
from netfw.drivers.values.switch_values import (
    Admission,
    LocalNetwork,
    SwitchDevice,
    Wiring,
)  # fmt: skip
from tests.unit.agents.l2.environment import (  # fmt: skip
    FACTS,
    HERE,
    NET,
    learn,
    port,
)

DEVICE = SwitchDevice(name="tap1", ofport=1)
PORT = port(1, NET)


def desired(*resources, plugged=(PORT,), facts=FACTS, **options):
    made = DesiredSwitch(L2HostContext(host=HERE, facts=facts, **options), L2ResourceIndex(HERE))
    learn(made, resources)
    for each in plugged:
        made.plug(each.id, DEVICE)
    return made


def wiring(of, admission=Admission.LIVE, **kwargs):
    addresses = frozenset(fixed.address for fixed in of.fixed_ips)
    return Wiring(
        network=of.network_id,
        mac=of.mac,
        addresses=addresses,
        admission=admission,
        open=not of.port_security,
        **kwargs,
    )


def local(of, *segments):
    return LocalNetwork(segments=segments, mtu=of.mtu)
