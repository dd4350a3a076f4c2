"""In which order an L2 agent asks for things."""

from netfw.agents.l2.desired import DesiredState
from netfw.agents.l2.extensions import PortExtensions
from netfw.agents.l2.host_context import L2HostContext
from netfw.agents.l2.resource_index import L2ResourceIndex
from netfw.drivers.values.keys import ExtensionKey
from netfw.drivers.values.switch_contribution import SwitchContribution
from tests.unit.agents.l2.environment import FACTS, HERE, uuid


def test_order_of_desired_values_is_the_same_in_every_run():
    names = [str(uuid(number)) for number in range(20)]
    base = {ExtensionKey(name): SwitchContribution(owner=name) for name in names}
    view = L2HostContext(host=HERE, facts=FACTS)
    wanted = DesiredState(view, L2ResourceIndex(HERE), PortExtensions([]), base, firewall=False)
    values = wanted.switch_values(frozenset(base))
    assert [key.owner for key in values] == sorted(names)
