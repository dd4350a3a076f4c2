"""Chunks of broadcast domains: the update of a few ports leads to what all of them would."""

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from netfw.drivers.values.keys import PortKey
from netfw.model.values.address import Mac
from netfw.model.values.ids import NetworkId, PortId, SegmentId
from netfw_drivers.ovs.common.local_vlans import BroadcastDomain
from netfw_drivers.ovs.pipeline.br_int import PlannedPort
from netfw_drivers.ovs.switch.plan.state import DomainMembers, DomainMembersOverlay

DOMAINS = [BroadcastDomain(NetworkId(UUID(int=n)), SegmentId(UUID(int=n))) for n in (1, 2)]
keys = st.integers(1, 8).map(lambda n: PortKey(PortId(UUID(int=n))))
ports = st.builds(
    PlannedPort,
    domain=st.sampled_from(DOMAINS),
    number=st.integers(1, 200),
    vlan=st.just(1),
    mac=st.just(Mac("fa:16:3e:00:00:01")),
    open=st.booleans(),
    filtered=st.booleans(),
)
states = st.dictionaries(keys, ports)


def indexed(members: DomainMembers) -> dict[object, object]:
    """Return all chunks with their ports, and the open ports of each domain."""
    chunks = {chunk: members.receivers(chunk) for chunk in members.all_chunks()}
    domains = {domain: members.open_ports(domain) for domain, _ in chunks}
    return {**chunks, **domains}


@given(states, states, st.sets(keys))
def test_a_view_shows_what_will_be_without_touching_what_is(before, change, dead):
    held = DomainMembers(before)
    live = {key: member for key, member in change.items() if key not in dead}
    concerned = frozenset({*change, *dead})
    now = indexed(held)
    view = DomainMembersOverlay(held, live, concerned)
    after = DomainMembers({**{k: m for k, m in before.items() if k not in concerned}, **live})
    for chunk in view.everything():
        assert view.receivers(chunk) == after.receivers(chunk)
    for domain in DOMAINS:
        assert view.chunks(domain) == after.chunks(domain)
        assert view.open_ports(domain) == after.open_ports(domain)
    assert indexed(held) == now


@given(states, states, st.sets(keys))
def test_only_touched_chunks_differ(before, change, dead):
    held = DomainMembers(before)
    live = {key: member for key, member in change.items() if key not in dead}
    view = DomainMembersOverlay(held, live, frozenset({*change, *dead}))
    untouched = view.everything() - view.touched()
    for chunk in untouched:
        assert view.receivers(chunk) == held.receivers(chunk)


@given(states, states)
def test_committing_is_the_same_as_having_been_so_from_the_start(before, change):
    held = DomainMembers(before)
    dead = before.keys() - change.keys()
    held.commit(change, dead)
    assert indexed(held) == indexed(DomainMembers(change))
    assert held.ports == change
    assert held.all_chunks() == {port.chunk for port in change.values()}
