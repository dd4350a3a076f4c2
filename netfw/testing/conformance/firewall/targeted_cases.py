"""Fixed policies and packets, one for each known kind of mistake of a firewall driver.  Pure.

Random examples may miss a kind; these do not.  The reference model decides which packets should
pass, as for random ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from netfw.model.values.protocol import ICMP, TCP, UDP
from netfw.testing.conformance.firewall.environment import FirewallTestPort
from netfw.testing.conformance.firewall.factories import (
    FAMILIES,
    IN,
    OUT,
    State,
    alone,
    everything,
    group,
    listed,
    member,
    members,
    pair,
    port,
    rule,
    trusted,
)
from netfw.testing.conformance.firewall.strategies import (
    ADDRESS_GROUP,
    OTHERS,
    STATELESS,
    Trip,
    pair_addresses,
)

Case = tuple[State, list[Trip]]
_ONE, _TWO, _ = OTHERS
_TIMESTAMP = (13, 0)


def targeted_cases(
    ports: Sequence[FirewallTestPort], *, stateless: bool, address_groups: bool
) -> Iterator[Case]:
    """Yield policies for four *ports*, and packets that distinguish right from wrong drivers."""
    yield from _rule_fields(ports)
    yield from _remotes(ports)
    yield from _sources(ports)
    yield from _revocation(ports)
    if stateless:
        yield _stateless(ports)
    if address_groups:
        yield _address_group(ports)


def _rule_fields(ports: Sequence[FirewallTestPort]) -> Iterator[Case]:
    """Yield rules of a port range, one family, one direction, one ICMP type and one group."""
    one, two, three, four = ports
    others = trusted(two, three, four)
    ranged = group(_ONE, rule(_ONE, IN, TCP, (79, 81)))
    numbers = (64, 78, 79, 81, 82, 95)
    yield (
        {**port(one, _ONE), **others, **ranged},
        [Trip(two, one, two.tcp(one, number)) for number in numbers],
    )
    yield (
        {**port(one, _ONE), **others, **group(_ONE, rule(_ONE, IN, UDP))},
        [Trip(two, one, two.udp(one, 80, version=version)) for version in FAMILIES],
    )
    outgoing = rule(_ONE, OUT, UDP)
    yield (
        {**port(one, _ONE), **others, **group(_ONE, outgoing)},
        [Trip(one, two, one.udp(two, 80)), Trip(two, one, two.udp(one, 80))],
    )
    echo = group(_ONE, rule(_ONE, IN, ICMP, (8, None)))
    yield (
        {**port(one, _ONE), **others, **echo},
        [Trip(two, one, two.ping(one)), Trip(two, one, two.icmp(one, _TIMESTAMP))],
    )
    other_group = {**group(_ONE, rule(_ONE, IN, TCP, (80, 80))), **everything(_TWO)}
    yield (
        {**port(one, _ONE), **port(three, _TWO), **trusted(two, four), **other_group},
        [Trip(two, one, two.tcp(one, number)) for number in (22, 80)],
    )


def _remotes(ports: Sequence[FirewallTestPort]) -> Iterator[Case]:
    """Yield rules of a remote prefix, and of remote groups with different members."""
    one, two, three, four = ports
    base = {**port(one, _ONE), **trusted(two, three, four)}
    arriving = [Trip(each, one, each.udp(one, 80)) for each in (two, three)]
    near = group(_ONE, rule(_ONE, IN, UDP, prefix=str(alone(two.address))))
    yield {**base, **near}, arriving
    far = group(_ONE, rule(_ONE, IN, UDP, remote=_TWO), rule(_ONE, IN, TCP, remote=_ONE))
    yield {**base, **far, **members(_TWO, two), **member(_ONE, str(alone(three.address)))}, arriving


def _sources(ports: Sequence[FirewallTestPort]) -> Iterator[Case]:
    """Yield packets from an address of the port, of a pair of the port, and of neither."""
    one, two, three, four = ports
    for version in FAMILIES:
        own = pair_addresses(one, version)
        paired = port(one, _ONE, pairs=[pair(one, str(own))])
        packets = [
            one.udp(two, 80, version=version),
            one.udp(two, 80, version=version, source=own[9]),
            one.udp(two, 80, version=version, source=pair_addresses(two, version)[9]),
        ]
        yield (
            {**paired, **trusted(two, three, four), **everything(_ONE)},
            [Trip(one, two, packet) for packet in packets],
        )


def _revocation(ports: Sequence[FirewallTestPort]) -> Iterator[Case]:
    """Yield a policy that allows connections and replies, and the next one, which does not."""
    one, two, three, four = ports
    base = {**port(one, _ONE), **trusted(two, three, four)}
    opening = [Trip(two, one, two.udp(one, 80, version=version)) for version in FAMILIES]
    yield {**base, **everything(_ONE, IN)}, opening
    yield {**base, **group(_ONE, rule(_ONE, IN, TCP, (80, 80)))}, [Trip(two, one, two.tcp(one, 80))]


def _stateless(ports: Sequence[FirewallTestPort]) -> Case:
    """Return a stateless group without a rule for replies."""
    one, two, three, four = ports
    state = {**port(one, STATELESS), **trusted(two, three, four)}
    return (
        {**state, **everything(STATELESS, IN, stateful=False)},
        [Trip(two, one, two.udp(one, 80, version=version)) for version in FAMILIES],
    )


def _address_group(ports: Sequence[FirewallTestPort]) -> Case:
    """Return a rule of an address group that has one of two senders."""
    one, two, three, four = ports
    rules = group(_ONE, rule(_ONE, IN, UDP, addresses=ADDRESS_GROUP))
    state = {**port(one, _ONE), **trusted(two, three, four), **rules}
    return (
        {**state, **listed(ADDRESS_GROUP, str(alone(two.address)))},
        [Trip(each, one, each.udp(one, 80)) for each in (two, three)],
    )
