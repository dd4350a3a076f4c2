"""What a dry run shows of ports whose filters cannot be made."""

from uuid import UUID

from netfw.cli.commands.plan import on_hold
from netfw.drivers.values.keys import NetworkKey, PortKey
from netfw.drivers.values.switch_values import Admission, LocalNetwork, Wiring
from netfw.plan import Update


def wiring(admission: Admission) -> Wiring:
    return Wiring(network=UUID(int=9), mac="fa:16:3e:00:00:01", admission=admission)


def test_a_port_without_its_filters_is_held_as_the_agent_does():
    refused, fine, dead = (PortKey(UUID(int=number)) for number in (1, 2, 3))
    network = NetworkKey(UUID(int=9))
    put = {
        network: LocalNetwork(segments=(), mtu=1500),
        refused: wiring(Admission.LIVE),
        fine: wiring(Admission.LIVE),
        dead: wiring(Admission.DEAD),
    }
    held = on_hold(Update(put=put, complete=True), frozenset({refused, dead, network}))
    assert held.complete
    assert held.put == {**put, refused: wiring(Admission.HOLD)}
