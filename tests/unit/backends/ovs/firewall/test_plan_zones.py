"""When the firewall empties the zone of a network."""

from uuid import UUID

from netfw.drivers.values.keys import PortKey
from netfw.model.values.ids import PortId
from netfw_drivers.ovs.firewall.plan.ct_zones import CtZonePorts


def test_a_zone_is_emptied_for_its_first_port_and_never_while_one_may_be_in_it():
    one, two, three = (PortKey(PortId(UUID(int=number))) for number in (1, 2, 3))
    zones = CtZonePorts()
    assert zones.first_used({one: 7, two: 8}, ()) == {7, 8}
    zones.note({one: 7, two: 8}, ())
    assert zones.first_used({three: 7}, (one, two)) == frozenset()
    assert zones.first_used({three: 9}, (one, two)) == {9}
    zones.note({}, (one,))
    assert zones.first_used({three: 7}, (two,)) == {7}
    inherited = CtZonePorts()
    inherited.recover([one])
    assert inherited.first_used({three: 7}, (one,)) == frozenset()
    assert inherited.first_used({three: 7, one: None}, (one,)) == frozenset()
    assert inherited.first_used({three: 7, one: 8}, (one,)) == {7}
    assert inherited.first_used({one: 7}, (one,)) == frozenset()
    inherited.note({}, [one])
    assert inherited.first_used({three: 7}, ()) == {7}


def test_a_port_of_an_unknown_zone_keeps_all_zones_from_being_flushed():
    one, two = (PortKey(PortId(UUID(int=number))) for number in (1, 2))
    zones = CtZonePorts()
    zones.note({one: None}, ())
    assert zones.first_used({two: 8}, {one}) == frozenset()
    zones.note({one: 7}, ())
    assert zones.first_used({two: 8}, {one}) == {8}
    zones.recover([one])
    assert zones.first_used({two: 8}, {one}) == {8}, "its zone is known from before"


def test_ports_that_went_while_no_agent_ran_keep_no_zone_from_being_flushed():
    one, two, three = (PortKey(PortId(UUID(int=number))) for number in (1, 2, 3))
    zones = CtZonePorts()
    zones.recover([one, two])
    put = {two: 7, three: 9}
    assert zones.first_used(put, {one, two}, {one}) == {9}
    assert zones.first_used(put, {one, two}) == frozenset(), "it may be in this zone"
    zones.note(put, [one])
    assert zones.first_used({one: 9}, {two, three}) == frozenset()


class _Counted:
    """Ports with flows that can be looked up one by one only."""

    def __init__(self):
        self.lookups = 0

    def __contains__(self, port):
        self.lookups += 1
        return True


def test_the_zones_of_one_port_more_cost_one_lookup_whatever_the_number_of_ports():
    keys = [PortKey(PortId(UUID(int=number))) for number in range(1000)]
    zones, present = CtZonePorts(), _Counted()
    zones.note(dict.fromkeys(keys[1:], 7), ())
    assert zones.first_used({keys[0]: 7}, present) == frozenset()
    assert present.lookups == 1
