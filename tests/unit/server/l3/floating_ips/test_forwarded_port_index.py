"""The index of forwarded ports, against a comparison of all pairs."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netfw.errors import InvalidInput
from netfw.model.floating_ip import ForwardedProtocol, PortForwarding
from netfw.model.values.address import as_address
from netfw.model.values.ids import FloatingIpId, PortForwardingId, PortId
from netfw.model.values.port_range import PortRange
from netfw.server.l3.floating_ips.forwarded_port_index import ForwardedPortIndex

pytestmark = pytest.mark.spec("API-07")


@st.composite
def forwardings(draw: st.DrawFn) -> PortForwarding:
    """Draw from so few ports that many overlap."""
    count, outer, inner = (draw(st.integers(1, most)) for most in (5, 40, 40))
    return PortForwarding(
        id=PortForwardingId(draw(st.uuids())),
        floating_ip_id=FloatingIpId(UUID(int=1)),
        protocol=draw(st.sampled_from(ForwardedProtocol)),
        external_ports=PortRange(outer, outer + count - 1),
        internal_ports=PortRange(inner, inner + draw(st.sampled_from([1, count])) - 1),
        internal_port_id=PortId(UUID(int=2)),
        internal_address=draw(st.sampled_from([as_address("10.0.0.1"), as_address("10.0.0.2")])),
    )


def overlap(one: PortRange, two: PortRange) -> bool:
    return one.first <= two.last and two.first <= one.last


def problem(new: PortForwarding, others: list[PortForwarding]) -> str | None:
    same = [each for each in others if each.protocol is new.protocol]
    if any(overlap(new.external_ports, each.external_ports) for each in same):
        return "external_port"
    same = [each for each in same if each.internal_address == new.internal_address]
    if any(overlap(new.internal_ports, each.internal_ports) for each in same):
        return "internal_port"
    return None


@given(st.lists(forwardings(), max_size=12))
def test_exactly_overlapping_ports_are_refused(some: list[PortForwarding]) -> None:
    index, present = ForwardedPortIndex(()), list[PortForwarding]()
    for new in some:
        expected = problem(new, present)
        if expected is None:
            index.add(new)
            present.append(new)
            continue
        with pytest.raises(InvalidInput) as caught:
            index.add(new)
        ((name, text),) = caught.value.problems.items()
        assert name == expected
        assert UUID(text.split("port forwarding ")[1].split()[0]) in {each.id for each in present}
    assert len(index) == len(present)
    assert len(ForwardedPortIndex(present)) == len(present)
