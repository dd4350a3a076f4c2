"""What the documentation says of the firewall's costs."""

from netfw_drivers.ovs.flow_counts.firewall import counts
from tests.unit.backends.ovs.firewall.samples import (
    IN,
    OUT,
    V6,
    Bench,
    group,
    group_id,
    member,
    port,
    rule,
)


def test_costs_are_no_more_than_needed():
    assert list(dict(counts()).values()) == [55, 12, 2, 3, 1, 1, 1, 2, 4, 1, 1]


def test_ports_rules_and_members_add_up_and_do_not_multiply():
    # The sample is 200 ports of one group with the rules that every project begins with.
    referring = [
        rule(IN, family, remote_group_id=group_id(1)) for family in (V6, rule(IN).ethertype)
    ]
    default = group(1, rule(OUT), rule(OUT, V6), *referring)

    def total(ports: int, members: int) -> int:
        bench = Bench(devices=ports)
        wanted: dict = dict(default)
        for number in range(1, ports + 1):
            wanted |= port(number, 1)
        for number in range(members):
            wanted |= member(1, f"10.1.{number // 256}.{number % 256}")
        return len(bench.apply(wanted, complete=True))

    few, more_ports, more_members = total(10, 10), total(110, 10), total(10, 110)
    assert more_members - few == 100
    assert more_ports - few == 100 * (total(2, 0) - total(1, 0))
