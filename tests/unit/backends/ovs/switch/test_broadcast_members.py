"""Chunks of broadcast domains: the update of a few ports leads to what all of them would."""

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from netfw.drivers.keys import PortKey
from netfw.model.address import Mac
from netfw.model.ids import NetworkId, PortId, SegmentId
from netfw_drivers.ovs.common.local_vlans import Domain
from netfw_drivers.ovs.pipeline.br_int import PlannedPort
from netfw_drivers.ovs.switch.plan.broadcast_members import Members, MembersOverlay

DOMAINS = [Domain(NetworkId(UUID(int=n)), SegmentId(UUID(int=n))) for n in (1, 2)]
keys = st.integers(1, 8).map(lambda n: PortKey(PortId(UUID(int=n))))
members = st.builds(
    PlannedPort,
    domain=st.sampled_from(DOMAINS),
    number=st.integers(1, 200),
    vlan=st.just(1),
    mac=st.just(Mac("fa:16:3e:00:00:01")),
    open=st.booleans(),
    filtered=st.booleans(),
)
states = st.dictionaries(keys, members)


def picture(held: Members) -> dict[object, object]:
    """All chunks with their ports, and the open ports, as they are."""
    same = MembersOverlay(held, {}, frozenset())
    chunks = {chunk: same.receivers(chunk) for chunk in same.everything()}
    return {**chunks, **{domain: same.open_ports(domain) for domain in held.domains()}}


@given(states, states, st.sets(keys))
def test_a_view_shows_what_will_be_without_touching_what_is(before, change, dead):
    held = Members(before)
    live = {key: member for key, member in change.items() if key not in dead}
    concerned = frozenset({*change, *dead})
    now = picture(held)
    view = MembersOverlay(held, live, concerned)
    after = Members({**{k: m for k, m in before.items() if k not in concerned}, **live})
    for chunk in view.everything():
        assert view.receivers(chunk) == MembersOverlay(after, {}, frozenset()).receivers(chunk)
    for domain in DOMAINS:
        assert view.chunks(domain) == MembersOverlay(after, {}, frozenset()).chunks(domain)
        assert view.open_ports(domain) == MembersOverlay(after, {}, frozenset()).open_ports(domain)
    assert picture(held) == now


@given(states, states, st.sets(keys))
def test_only_touched_chunks_differ(before, change, dead):
    held = Members(before)
    live = {key: member for key, member in change.items() if key not in dead}
    view = MembersOverlay(held, live, frozenset({*change, *dead}))
    untouched = view.everything() - view.touched()
    for chunk in untouched:
        assert view.receivers(chunk) == MembersOverlay(held, {}, frozenset()).receivers(chunk)


@given(states, states)
def test_committing_is_the_same_as_having_been_so_from_the_start(before, change):
    held = Members(before)
    dead = before.keys() - change.keys()
    held.commit(change, dead)
    assert picture(held) == picture(Members(change))
    assert held.ports == change
