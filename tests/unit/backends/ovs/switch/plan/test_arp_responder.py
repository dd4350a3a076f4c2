"""Entries of one network that have one address: who is sent to, and who is answered for."""

from collections.abc import Iterable
from ipaddress import ip_address

import pytest
from attrs import evolve

from netfw.drivers.values.switch_values import Forwarding, ForwardingKey, SwitchKey, SwitchValue
from netfw.model.values.address import Mac
from netfw.ovs.openflow.encode import State, encode_flows
from netfw.ovs.openflow.flow_cache import FlowCache
from netfw.ovs.openflow.flow_inspection import written_eth_src
from netfw.plan import Update
from netfw_drivers.ovs.pipeline.tunnel_tables import RESPONDER, UNICAST
from netfw_drivers.ovs.switch.plan.outline import outline
from netfw_drivers.ovs.switch.plan.state import SwitchState
from tests.unit.backends.ovs.switch.samples import (
    SETTINGS,
    Database,
    network,
    network_key,
    peer,
    tunnel,
)

ADDRESS = ip_address("10.0.0.7")
ANSWERING = evolve(SETTINGS, responder=True)


def key(number: int) -> ForwardingKey:
    return ForwardingKey(network_key(1).network, Mac(f"fa:16:3e:00:00:{number:02x}"))


def entries(*numbers: int) -> dict[SwitchKey, SwitchValue]:
    value = Forwarding(frozenset({peer(2)}), frozenset({ADDRESS}))
    return {key(number): value for number in numbers}


class Switch:
    """The flows of ``br-tun`` of a host with one network and one peer."""

    def __init__(self) -> None:
        self.database, self.state, self.flows = Database(), SwitchState(), FlowCache()
        self.states: dict[object, dict[tuple[int, bytes], State]] = {}
        self.do(put=network(1, "vxlan", segmentation_id=7))
        self.do(put=tunnel(2))

    def do(
        self, put: dict[SwitchKey, SwitchValue] | None = None, drop: Iterable[SwitchKey] = ()
    ) -> None:
        update = Update(put=put or {}, drop=frozenset(drop))
        found = outline(update, self.database.observed(self.state), ANSWERING)
        for stage in (*found.draft.before(), *found.draft.after()):
            self.database.run(stage.operations)
        groups, gone = found.groups.put.get("br-tun", {}), found.groups.drop.get("br-tun", set())
        plan = self.flows.plan(groups, gone)
        assert plan.refused == {}
        self.flows.confirm(plan)
        self.state.commit(found.put, found.drop)
        for owner in gone:
            self.states.pop(owner, None)
        for owner, group in groups.items():
            made = encode_flows(group.make())
            self.states[owner] = {each: encoded.state for each, encoded in made.items()}

    def shown(self) -> tuple[int, list[int]]:
        """Return the number of MACs sent to, and the last byte of each MAC that is answered for."""
        flows = [
            item
            for owner, group in self.states.items()
            if isinstance(owner[1], ForwardingKey)
            for item in group.items()
        ]
        sent = [each for each, _ in flows if each[0] == UNICAST.number]
        answers = [written_eth_src(state) for each, state in flows if each[0] == RESPONDER.number]
        return len(sent), [mac & 0xFF for mac in answers if mac is not None]


@pytest.mark.spec("L2-24")
def test_all_entries_are_forwarded_and_the_lowest_is_answered_for_after_every_change():
    switch = Switch()
    switch.do(entries(3, 2))
    assert switch.shown() == (2, [2])
    switch.do(entries(4))
    assert switch.shown() == (3, [2])
    switch.do(entries(1))
    assert switch.shown() == (4, [1])
    switch.do(drop=[key(1)])
    assert switch.shown() == (3, [2])
    switch.do({key(2): Forwarding(frozenset({peer(2)}))})
    assert switch.shown() == (3, [3])
    switch.do(drop=[key(3), key(4)])
    assert switch.shown() == (1, [])


def test_the_order_in_which_they_come_means_nothing():
    one, two = Switch(), Switch()
    for number in (2, 3):
        one.do(entries(number))
        two.do(entries(5 - number))
    assert one.shown() == two.shown() == (2, [2])
